"""Gitea and Forgejo: the status of a commit.

Schema: the server's ``/api/swagger``, ``repoCreateStatus`` and ``repoListStatuses``.
"""

import msgspec

from controllers.notification.events.matching import Notice
from controllers.notification.services.git import commit
from controllers.notification.services.git.commit import Repository
from controllers.notification.services.service import Ask, Target, decoded, post


class _Status(msgspec.Struct):
    context: str = ""
    status: str = ""
    description: str = ""


async def send(notice: Notice, target: Target, ask: Ask) -> None:
    """Set the status."""
    found = commit.state(notice, target)
    if found is None:
        return
    base = api(commit.repository(target))
    headers = login(target)
    state = "failure" if found.failed else "success"
    url = f"{base}/statuses/{found.sha}"
    answer = await ask("GET", f"{base}/commits/{found.sha}/statuses", headers=headers)
    body = b"[]" if answer.body.strip() in {b"", b"null"} else answer.body
    known = decoded(body, list[_Status])
    latest = next((each for each in known if each.context == found.name), None)
    if latest and (latest.status, latest.description) == (state, found.description):
        return
    status = {"state": state, "context": found.name, "description": found.description}
    await post(ask, url, status, headers)


def api(repository: Repository) -> str:
    """Return the base of the repository's API."""
    return f"{repository.origin}/api/v1/repos/{repository.path}"


def login(target: Target) -> dict[str, str]:
    """Return the header that signs in."""
    return {"Authorization": f"token {target.token}"}
