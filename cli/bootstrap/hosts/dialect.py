"""The differences between the APIs of hosting services."""

from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from cli import errors
from toolkit.objects import Json

if TYPE_CHECKING:
    from cli.bootstrap.hosts.api import Api


USER: Final = "git"
"""Services only check the token, and accept any user name."""
PRIVATE: Final = "private"
PUBLIC: Final = "public"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A repository at a service: ``owner`` is a user if ``personal``, else an organization.

    ``visibility`` is for a repository that is created or reconciled.
    """

    hostname: str
    owner: str
    name: str
    personal: bool
    visibility: str = PRIVATE

    @property
    def full_name(self) -> str:
        """Return owner and name, as in URLs."""
        return f"{self.owner}/{self.name}"

    @property
    def private(self) -> bool:
        """Tell whether the repository is not public."""
        return self.visibility != PUBLIC


@dataclass(frozen=True, slots=True, kw_only=True)
class DeployKey:
    """A public key, in OpenSSH's format, that may fetch from a repository, or push as well."""

    title: str
    public: str
    read_only: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Team:
    """A team with access to a repository; empty ``access`` means the default of the service."""

    name: str
    access: str = ""


def access(team: Team, known: Collection[str], *, default: str, option: str = "--team") -> str:
    """Return the access of a team.

    Raises:
        UsageError: the service has no such access.
    """
    wanted = team.access or default
    if wanted not in known:
        raise errors.UsageError(
            f"{option} {team.name}: no access {wanted!r}; there are {', '.join(known)}"
        )
    return wanted


async def same(api: "Api", place: Place) -> Place:  # noqa: ARG001  # a row of ``Dialect``
    """Return the place: owners are called in paths as users call them."""
    return place


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """The API of one service.

    ``repository`` and ``keys`` return paths below ``base``, ``create`` creates a repository, and
    ``known_hosts`` returns the SSH keys that the service publishes, empty if it publishes none.
    """

    title: str
    hostname: str
    variable: str
    """Names the environment variable with the token."""
    base: Callable[[str], str]
    headers: Callable[[str], Mapping[str, str]]
    repository: Callable[[Place], str]
    create: Callable[["Api", Place], Awaitable[None]]
    keys: Callable[[Place], str]
    written: Callable[[DeployKey], Json]
    read: Callable[[Json], DeployKey]
    known_hosts: Callable[["Api", str], Awaitable[bytes]]
    share: Callable[["Api", Place, Team], Awaitable[bool]]
    """Gives a team access; tells whether it did not have it."""
    reconcile: Callable[["Api", Place, Json], Awaitable[bool]]
    """Gives a repository that exists the visibility of the place; tells whether it had another."""
    key_number: Callable[[Json], object] = lambda item: item.get("id")
    resolve: Callable[["Api", Place], Awaitable[Place]] = same
    """Finds the name of the owner in paths."""
    https: Callable[[Place], str] = lambda place: f"{place.hostname}/{place.full_name}.git"
    ssh: Callable[[Place, str], str] = lambda place, host: f"{host}/{place.full_name}.git"
    """Address below the host that is fetched from over SSH; without one, the service's own."""
    deploy_token: Callable[["Api", Place, str, str], Awaitable[tuple[str, str] | None]] | None = (
        None
    )
    """Returns user and token that may fetch, under a title, unless the user has such a one."""


async def none_published(api: "Api", hostname: str) -> bytes:  # noqa: ARG001  # a row of ``Dialect``
    """Return no keys: the service's API has none."""
    return b""


def read_only_key(key: DeployKey) -> Json:
    """Return a deploy key as GitHub and Gitea take it."""
    return {"title": key.title, "key": key.public, "read_only": key.read_only}


def from_read_only(answer: Json) -> DeployKey:
    """Return a deploy key as GitHub and Gitea list it."""
    return DeployKey(
        title=str(answer.get("title")),
        public=str(answer.get("key")),
        read_only=bool(answer.get("read_only")),
    )
