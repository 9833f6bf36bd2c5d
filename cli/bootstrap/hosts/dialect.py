"""What differs between the APIs of hosting services."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from toolkit.objects import Json

if TYPE_CHECKING:
    from cli.bootstrap.hosts.api import Api


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A repository at a service: ``owner`` is a user if it is ``personal``, else an organization.

    ``private`` is for one that has to be made.
    """

    hostname: str
    owner: str
    name: str
    personal: bool
    private: bool

    @property
    def full_name(self) -> str:
        """Return owner and name, as in URLs."""
        return f"{self.owner}/{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeployKey:
    """A public key, in OpenSSH's format, that may fetch from a repository, or push as well."""

    title: str
    public: str
    read_only: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """How one service is spoken to.

    ``repository`` and ``keys`` return paths below ``base``, ``create`` makes a repository, and
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
