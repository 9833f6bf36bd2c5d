"""The REST API of Gitea and Forgejo (their own ``/api/swagger``): GitHub's words, mostly."""

from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from cli import errors
from cli.bootstrap.hosts import dialect, github
from cli.bootstrap.hosts.dialect import Dialect, Place, Team
from toolkit.remote.hosting import services

if TYPE_CHECKING:
    from cli.bootstrap.hosts.api import Api


async def share(api: "Api", place: Place, team: Team) -> bool:
    """Give a team of the organization access; the settings of the team define which.

    Raises:
        UsageError: the flag names an access.
        FailedError: Gitea refuses.
    """
    if team.access:
        raise errors.UsageError(
            f"--team {team.name}:{team.access}: a team of Gitea has one access to all of its "
            "repositories: set it there, and leave it out here"
        )
    path, doing = f"/repos/{place.full_name}/teams", f"give team {team.name} access"
    if any(found.get("name") == team.name for found in await api.items(path, doing=doing)):
        return False
    await api.send("PUT", f"{path}/{quote(team.name, safe='')}", doing=doing)
    return True


DIALECT: Final = Dialect(
    title="the Gitea API",
    hostname="gitea.com",
    variable="GITEA_TOKEN",
    base=services.gitea_base,
    headers=lambda token: {"Authorization": f"token {token}", "Accept": "application/json"},
    repository=lambda place: f"/repos/{place.full_name}",
    create=github.create,
    keys=lambda place: f"/repos/{place.full_name}/keys",
    written=dialect.read_only_key,
    read=dialect.from_read_only,
    known_hosts=dialect.none_published,
    share=share,
    reconcile=github.reconcile,
)
