"""GitLab's REST API, version 4 (docs.gitlab.com, "Projects", "Namespaces", "Deploy keys")."""

from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from cli import errors
from cli.bootstrap.hosts import dialect
from cli.bootstrap.hosts.dialect import DeployKey, Dialect, Place
from toolkit.objects import Json
from toolkit.remote.hosting import services

if TYPE_CHECKING:
    from cli.bootstrap.hosts.api import Api


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
        "visibility": "private" if place.private else "public",
    }
    await api.send("POST", "/projects", body, doing=doing)


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
)
