"""Bitbucket Data Center: the status of a build.

Schema: developer.atlassian.com/server/bitbucket/rest, "Builds and Deployments" (``POST
…/projects/{projectKey}/repos/{repositorySlug}/commits/{commitId}/builds``).
"""

import hashlib

from controllers.notification.events.matching import Notice
from controllers.notification.services.git import commit
from controllers.notification.services.service import (
    Ask,
    Target,
    UnsuitableError,
    bearer,
    post,
)
from toolkit.remote.proxy import basic


async def send(notice: Notice, target: Target, ask: Ask) -> None:
    """Set the status."""
    found = commit.state(notice, target)
    if found is None:
        return
    base, project, slug = place(target)
    url = f"{base}/rest/api/latest/projects/{project}/repos/{slug}/commits/{found.sha}/builds"
    login = bearer(target.token)
    if not login:
        login = {"Authorization": basic(target.username, target.password)}
    body = {
        "key": hashlib.sha1(found.name.encode(), usedforsecurity=False).hexdigest(),
        "state": "FAILED" if found.failed else "SUCCESSFUL",
        "name": found.name,
        "description": found.description,
        "parent": found.name,
        "url": f"{base}/projects/{project}/repos/{slug}/commits/{found.sha}",
    }
    await post(ask, url, body, {"X-Atlassian-Token": "no-check", **login})


def place(target: Target) -> tuple[str, str, str]:
    """Return the base URL of the server, the key of the project and the slug of the repository.

    Raises:
        UnsuitableError: the address is neither the clone URL nor the page of a repository.
    """
    parts = target.parts()
    names = [name for name in parts.path.removesuffix(".git").split("/") if name]
    for marks in (("scm",), ("projects", "repos")):
        if marks[0] not in names:
            continue
        at = names.index(marks[0])
        rest = [name for name in names[at + 1 :] if name != "repos"]
        if len(rest) == 2:
            prefix = "/".join(("", *names[:at]))
            return f"{parts.scheme}://{parts.netloc}{prefix}", rest[0], rest[1]
    raise UnsuitableError(
        "the address names no repository: write https://<host>/scm/<project>/<repository>"
    )
