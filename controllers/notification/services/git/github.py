"""GitHub: the status of a commit.

Schema: docs.github.com/rest/commits/statuses. A state that is set already is not set again.
"""

from typing import Final

import msgspec

from controllers.notification.events.matching import Notice
from controllers.notification.services.git import commit
from controllers.notification.services.git.commit import Repository
from controllers.notification.services.service import Ask, Target, bearer, decoded, post

_PUBLIC: Final = "github.com"


class _Status(msgspec.Struct):
    context: str = ""
    state: str = ""
    description: str | None = None


async def send(notice: Notice, target: Target, ask: Ask) -> None:
    """Set the status."""
    found = commit.state(notice, target)
    if found is None:
        return
    repository = commit.repository(target)
    base = f"{api(repository)}/repos/{repository.path}"
    state = "failure" if found.failed else "success"
    headers = login(target)
    answer = await ask("GET", f"{base}/commits/{found.sha}/statuses", headers=headers)
    known = decoded(answer.body, list[_Status])
    latest = next((each for each in known if each.context == found.name), None)
    if latest and (latest.state, latest.description) == (state, found.description):
        return
    body = {"state": state, "context": found.name, "description": found.description}
    await post(ask, f"{base}/statuses/{found.sha}", body, headers)


def api(repository: Repository) -> str:
    """Return the base of the API: github.com's, or that of an own server."""
    if repository.host == _PUBLIC:
        return "https://api.github.com"
    return f"{repository.origin}/api/v3"


def login(target: Target) -> dict[str, str]:
    """Return the headers of a request."""
    return {
        "Accept": "application/vnd.github+json",
        "X-GitHub-Api-Version": "2022-11-28",
        **bearer(target.token),
    }
