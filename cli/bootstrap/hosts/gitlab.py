"""GitLab's REST API, version 4 (docs.gitlab.com).

The pages "Projects", "Namespaces", "Deploy keys", "Deploy tokens" and "Groups".
"""

from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from cli import errors
from cli.bootstrap.hosts import dialect
from cli.bootstrap.hosts.dialect import DeployKey, Dialect, Place, Team
from toolkit.objects import Json
from toolkit.remote.hosting import services

if TYPE_CHECKING:
    from cli.bootstrap.hosts.api import Api


_ACCESSES: Final = {"reporter": 20, "developer": 30, "maintainer": 40, "owner": 50}
_FETCHING: Final = "read_repository"


async def create(api: "Api", place: Place) -> None:
    """Make a project in the namespace of a user or of a group.

    Raises:
        UsageError: the namespace is of the other sort.
        FailedError: GitLab refuses.
    """
    doing = f"create project {place.full_name}"
    found = await api.send("GET", f"/namespaces/{quote(place.owner, safe='')}", doing=doing)
    if (found.get("kind") == "user") != place.personal:
        remedy = "leave --personal out" if place.personal else "use --personal"
        raise errors.UsageError(f"--owner {place.owner} is a {found.get('kind')}: {remedy}")
    body = {
        "name": place.name,
        "path": place.name,
        "namespace_id": found.get("id"),
        "visibility": place.visibility,
    }
    await api.send("POST", "/projects", body, doing=doing)


async def share(api: "Api", place: Place, team: Team) -> bool:
    """Share a project with a group, as maintainers unless another access is named.

    Raises:
        UsageError: there is no such access.
        FailedError: GitLab refuses.
    """
    access = dialect.access(team, _ACCESSES, default="maintainer")
    doing = f"give group {team.name} access to {place.full_name}"
    group = await api.send("GET", f"/groups/{quote(team.name, safe='')}", doing=doing)
    wanted = {"group_id": group.get("id"), "group_access": _ACCESSES[access]}
    project = await api.send("GET", _project(place), doing=doing)
    for found in project.get("shared_with_groups") or ():
        if found.get("group_id") == wanted["group_id"]:
            if found.get("group_access_level") == wanted["group_access"]:
                return False
            path = f"{_project(place)}/share/{wanted['group_id']}"
            await api.send("DELETE", path, doing=doing)
    await api.send("POST", f"{_project(place)}/share", wanted, doing=doing)
    return True


async def reconcile(api: "Api", place: Place, found: Json) -> bool:
    """Give a project that exists the visibility of the place.

    Raises:
        FailedError: GitLab refuses.
    """
    if found.get("visibility") == place.visibility:
        return False
    doing = f"make project {place.full_name} {place.visibility}"
    await api.send("PUT", _project(place), {"visibility": place.visibility}, doing=doing)
    return True


async def deploy_token(api: "Api", place: Place, title: str, user: str) -> tuple[str, str] | None:
    """Create a token for fetching; it replaces another one with that title.

    Returns None if the active token with that title is this user's; the cluster has it already.

    Raises:
        FailedError: GitLab refuses.
    """
    path, doing = f"{_project(place)}/deploy_tokens", f"make deploy token '{title}'"
    for found in await api.items(path, doing=doing):
        if found.get("name") != title:
            continue
        gone = found.get("revoked") or found.get("expired")
        if not gone and found.get("username") == user:
            return None
        await api.send("DELETE", f"{path}/{found.get('id')}", doing=doing)
    made = await api.send("POST", path, {"name": title, "scopes": [_FETCHING]}, doing=doing)
    return str(made.get("username")), str(made.get("token"))


def _project(place: Place) -> str:
    return f"/projects/{quote(place.full_name, safe='')}"


def _written(key: DeployKey) -> Json:
    return {"title": key.title, "key": key.public, "can_push": not key.read_only}


def _read(answer: Json) -> DeployKey:
    return DeployKey(
        title=str(answer.get("title")),
        public=str(answer.get("key")),
        read_only=not answer.get("can_push"),
    )


DIALECT: Final = Dialect(
    title="the GitLab API",
    hostname="gitlab.com",
    variable="GITLAB_TOKEN",
    base=services.gitlab_base,
    headers=lambda token: {"PRIVATE-TOKEN": token, "Accept": "application/json"},
    repository=_project,
    create=create,
    keys=lambda place: f"{_project(place)}/deploy_keys",
    written=_written,
    read=_read,
    known_hosts=dialect.none_published,
    share=share,
    reconcile=reconcile,
    deploy_token=deploy_token,
)
