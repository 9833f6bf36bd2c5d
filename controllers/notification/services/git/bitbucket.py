"""Bitbucket Cloud: the status of a commit.

Schema: developer.atlassian.com/cloud/bitbucket/rest/api-group-commit-statuses. The token is
``<user>:<app password>``, as in Flux, or an access token.
"""

import hashlib
from typing import Final

from controllers.notification.events.matching import Notice
from controllers.notification.services.git import commit
from controllers.notification.services.service import Ask, Target, bearer, post
from toolkit.remote.proxy import basic

_PUBLIC: Final = "bitbucket.org"


async def send(notice: Notice, target: Target, ask: Ask) -> None:
    """Set the status."""
    found = commit.state(notice, target)
    if found is None:
        return
    repository = commit.repository(target)
    origin = "https://api.bitbucket.org" if repository.host == _PUBLIC else repository.origin
    url = f"{origin}/2.0/repositories/{repository.path}/commit/{found.sha}/statuses/build"
    user, colon, password = target.token.partition(":")
    login = {"Authorization": basic(user, password)} if colon else bearer(target.token)
    body = {
        # a key has at most 40 characters
        "key": hashlib.sha1(found.name.encode(), usedforsecurity=False).hexdigest(),
        "state": "FAILED" if found.failed else "SUCCESSFUL",
        "name": found.name,
        "description": found.description,
        "url": f"https://{repository.host}/{repository.path}",
    }
    await post(ask, url, body, login)
