"""The REST API of Gitea and Forgejo (their own ``/api/swagger``): GitHub's words, mostly."""

from typing import Final

from cli.bootstrap.hosts import dialect, github
from cli.bootstrap.hosts.dialect import Dialect
from toolkit.remote.hosting import services

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
)
