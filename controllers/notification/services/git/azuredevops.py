"""Azure DevOps: the status of a commit.

Schema: learn.microsoft.com/rest/api/azure/devops/git/statuses/create.
"""

from typing import Final
from urllib.parse import quote

from controllers.notification.events.matching import Notice
from controllers.notification.services.git import commit
from controllers.notification.services.service import Ask, Target, UnsuitableError, bearer, post
from toolkit.remote.proxy import basic

_GENRE: Final = "fluxcd"


async def send(notice: Notice, target: Target, ask: Ask) -> None:
    """Set the status."""
    found = commit.state(notice, target)
    if found is None:
        return
    url = f"{place(target)}/commits/{found.sha}/statuses?api-version=7.1"
    body = {
        "state": "error" if found.failed else "succeeded",
        "description": found.description,
        "context": {"genre": _GENRE, "name": found.name},
    }
    # a personal access token is a password, one of Entra ID a bearer token
    login = bearer(target.token) if target.lent else {"Authorization": basic("", target.token)}
    await post(ask, url, body, login)


def place(target: Target) -> str:
    """Return the address of the repository in the API.

    Raises:
        UnsuitableError: the address is not ``https://<host>/<org>/<project>/_git/<repository>``.
    """
    parts = target.parts()
    project, mark, name = parts.path.strip("/").partition("/_git/")
    if not mark or not project or not name or "/" in name:
        raise UnsuitableError(
            "the address names no repository: write "
            "https://dev.azure.com/<organization>/<project>/_git/<repository>"
        )
    quoted = quote(name, safe="%")
    return f"{parts.scheme}://{parts.netloc}/{project}/_apis/git/repositories/{quoted}"
