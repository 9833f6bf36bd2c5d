"""GitLab: the status of a commit.

Schema: docs.gitlab.com/api/commits/#set-commit-pipeline-status. A state that is set already is not
set again: GitLab answers 400 to that.
"""

from urllib.parse import quote

import msgspec

from controllers.notification.events.matching import Notice
from controllers.notification.services.git import commit
from controllers.notification.services.git.commit import Repository
from controllers.notification.services.service import Ask, Target, decoded, post


class _Status(msgspec.Struct):
    name: str = ""
    status: str = ""
    description: str | None = None


async def send(notice: Notice, target: Target, ask: Ask) -> None:
    """Set the status."""
    found = commit.state(notice, target)
    if found is None:
        return
    base = api(commit.repository(target))
    headers = login(target)
    state = "failed" if found.failed else "success"
    url = f"{base}/repository/commits/{found.sha}/statuses?name={quote(found.name, safe='')}"
    answer = await ask("GET", url, headers=headers)
    known = decoded(answer.body, list[_Status])
    if any((each.name, each.status) == (found.name, state) for each in known[:1]):
        return
    body = {"state": state, "name": found.name, "description": found.description}
    await post(ask, f"{base}/statuses/{found.sha}", body, headers)


def api(repository: Repository) -> str:
    """Return the base of the project's API."""
    return f"{repository.origin}/api/v4/projects/{quote(repository.path, safe='')}"


def login(target: Target) -> dict[str, str]:
    """Return the header that signs in."""
    return {"PRIVATE-TOKEN": target.token}
