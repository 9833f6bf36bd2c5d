"""The REST API of Bitbucket Data Center, 1.0 (developer.atlassian.com/server/bitbucket/rest).

A repository is in a project, which has a key and a name; a user's own project is ``~user``.
"""

from dataclasses import replace
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from cli import errors
from cli.bootstrap.hosts import dialect
from cli.bootstrap.hosts.dialect import DeployKey, Dialect, Place, Team
from toolkit.objects import Json, dig

if TYPE_CHECKING:
    from cli.bootstrap.hosts.api import Api

_SSH_PORT: Final = 7999
_ACCESSES: Final = {"read": "REPO_READ", "write": "REPO_WRITE", "admin": "REPO_ADMIN"}


async def resolve(api: "Api", place: Place) -> Place:
    """Return the place with the key of the project that has the owner's key or name.

    Raises:
        UsageError: there is no such project, or the token may not see it.
        FailedError: Bitbucket refuses.
    """
    if place.personal:
        return replace(place, owner=f"~{place.owner.removeprefix('~')}")
    doing = f"look for project {place.owner}"
    found = await api.find(f"/api/1.0/projects/{quote(place.owner, safe='')}", doing=doing)
    if found is None:
        named = await api.items(
            f"/api/1.0/projects?name={quote(place.owner, safe='')}", doing=doing
        )
        found = next((each for each in named if each.get("name") == place.owner), None)
    if found is None:
        raise errors.UsageError(
            f"--owner {place.owner}: there is no project of that key or name, or the token may not "
            "see it; use --personal for a user"
        )
    return replace(place, owner=str(found.get("key")))


async def create(api: "Api", place: Place) -> None:
    """Make a repository in the project.

    Raises:
        FailedError: Bitbucket refuses.
    """
    body = {"name": place.name, "scmId": "git", "public": not place.private}
    path = f"/api/1.0/projects/{_owner(place)}/repos"
    await api.send("POST", path, body, doing=f"create repository {place.full_name}")


async def share(api: "Api", place: Place, team: Team) -> bool:
    """Give a group access, to write unless another access is named.

    Raises:
        UsageError: there is no such access.
        FailedError: Bitbucket refuses.
    """
    access = dialect.access(team, _ACCESSES, default="write", option="--group")
    path, doing = f"{_repository(place)}/permissions/groups", f"give group {team.name} access"
    for found in await api.items(path, doing=doing):
        same = dig(found, "group", "name") == team.name
        if same and found.get("permission") == _ACCESSES[access]:
            return False
    wanted = f"permission={_ACCESSES[access]}&name={quote(team.name, safe='')}"
    await api.send("PUT", f"{path}?{wanted}", doing=doing)
    return True


async def reconcile(api: "Api", place: Place, found: Json) -> bool:
    """Give a repository that exists the visibility of the place.

    Raises:
        FailedError: Bitbucket refuses.
    """
    if bool(found.get("public")) is not place.private:
        return False
    doing = f"make repository {place.full_name} {place.visibility}"
    await api.send("PUT", _repository(place), {"public": not place.private}, doing=doing)
    return True


def _owner(place: Place) -> str:
    return quote(place.owner, safe="~")


def _repository(place: Place) -> str:
    return f"/api/1.0/projects/{_owner(place)}/repos/{quote(place.name, safe='')}"


def _ssh(place: Place, host: str) -> str:
    """Return the SSH URL on a host; Bitbucket's SSH server has a separate port."""
    if host == place.hostname:
        host = f"{host.partition(':')[0]}:{_SSH_PORT}"
    return f"{host}/{place.owner.lower()}/{place.name}.git"


def _written(key: DeployKey) -> Json:
    permission = "REPO_READ" if key.read_only else "REPO_WRITE"
    return {"key": {"text": key.public, "label": key.title}, "permission": permission}


def _read(answer: Json) -> DeployKey:
    return DeployKey(
        title=str(dig(answer, "key", "label")),
        public=str(dig(answer, "key", "text")),
        read_only=answer.get("permission") == "REPO_READ",
    )


DIALECT: Final = Dialect(
    title="the Bitbucket API",
    hostname="",
    variable="BITBUCKET_TOKEN",
    base=lambda host: f"https://{host}/rest",
    headers=lambda token: {"Authorization": f"Bearer {token}", "Accept": "application/json"},
    repository=_repository,
    create=create,
    keys=lambda place: f"/keys/1.0/projects/{_owner(place)}/repos/{quote(place.name, safe='')}/ssh",
    written=_written,
    read=_read,
    known_hosts=dialect.none_published,
    share=share,
    reconcile=reconcile,
    key_number=lambda item: dig(item, "key", "id"),
    resolve=resolve,
    https=lambda place: f"{place.hostname}/scm/{place.owner.lower()}/{place.name}.git",
    ssh=_ssh,
)
