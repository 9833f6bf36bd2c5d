"""GitHub's REST API (docs.github.com, "Repositories", "Deploy keys", "Teams", "Meta")."""

from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from cli import errors
from cli.bootstrap.hosts import dialect
from cli.bootstrap.hosts.dialect import Dialect, Place, Team
from toolkit.objects import Json
from toolkit.remote.hosting import services

if TYPE_CHECKING:
    from cli.bootstrap.hosts.api import Api

_PUBLIC: Final = "github.com"
_ACCESSES: Final = ("pull", "triage", "push", "maintain", "admin")


async def create(api: "Api", place: Place) -> None:
    """Make a repository of the token's user, or of an organization.

    Raises:
        UsageError: the owner is another user.
        FailedError: GitHub refuses.
    """
    doing = f"create repository {place.full_name}"
    path = f"/orgs/{place.owner}/repos"
    if place.personal:
        await require_user(api, place)
        path = "/user/repos"
    body = {"name": place.name, "private": place.private, "auto_init": False}
    await api.send("POST", path, body, doing=doing)


async def require_user(api: "Api", place: Place) -> None:
    """Require that the token is the owner's.

    Raises:
        UsageError: it is another user's.
    """
    login = str((await api.send("GET", "/user", doing="see whose token it is")).get("login"))
    if login.lower() != place.owner.lower():
        raise errors.UsageError(
            f"--owner {place.owner} is not the user of the token, who is {login}: name that user, "
            "or leave --personal out for an organization"
        )


async def share(api: "Api", place: Place, team: Team) -> bool:
    """Give a team of the organization access, ``maintain`` unless another one is named.

    Raises:
        UsageError: there is no such access.
        FailedError: GitHub refuses.
    """
    access = dialect.access(team, _ACCESSES, default="maintain")
    doing = f"give team {team.name} access to {place.full_name}"
    for found in await api.items(f"/repos/{place.full_name}/teams", doing=doing):
        if found.get("slug") == team.name and found.get("permission") == access:
            return False
    path = f"/orgs/{place.owner}/teams/{quote(team.name, safe='')}/repos/{place.full_name}"
    await api.send("PUT", path, {"permission": access}, doing=doing)
    return True


async def reconcile(api: "Api", place: Place, found: Json) -> bool:
    """Give a repository that exists the visibility of the place.

    Raises:
        FailedError: the service refuses.
    """
    if bool(found.get("private")) == place.private:
        return False
    doing = f"make repository {place.full_name} {place.visibility}"
    await api.send("PATCH", f"/repos/{place.full_name}", {"private": place.private}, doing=doing)
    return True


async def known_hosts(api: "Api", hostname: str) -> bytes:
    """Return the keys that GitHub publishes at ``/meta``; an Enterprise Server publishes none."""
    meta = await api.send("GET", "/meta", doing="read the SSH keys of the host")
    keys = meta.get("ssh_keys") or ()
    return "".join(f"{hostname} {key}\n" for key in keys if isinstance(key, str)).encode()


def _headers(token: str) -> dict[str, str]:
    return {
        "Authorization": f"Bearer {token}",
        "Accept": "application/vnd.github+json",
        "X-GitHub-Api-Version": "2022-11-28",
    }


DIALECT: Final = Dialect(
    title="the GitHub API",
    hostname=_PUBLIC,
    variable="GITHUB_TOKEN",
    base=services.github_base,
    headers=_headers,
    repository=lambda place: f"/repos/{place.full_name}",
    create=create,
    keys=lambda place: f"/repos/{place.full_name}/keys",
    written=dialect.read_only_key,
    read=dialect.from_read_only,
    known_hosts=known_hosts,
    share=share,
    reconcile=reconcile,
)
