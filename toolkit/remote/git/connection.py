"""A repository at its server: connect, list references, and receive a pack.

``fetch`` and ``push`` use it. Errors name the address without its user information, and quote
nothing that is not Git's protocol.
"""

import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from dulwich.client import GitClient
from dulwich.errors import GitProtocolError
from dulwich.objects import ObjectID
from dulwich.refs import Ref

from toolkit.remote.dialling import Known, Reach
from toolkit.remote.git.auth import GitAuth
from toolkit.remote.git.dial import Dial
from toolkit.remote.git.errors import GitError
from toolkit.remote.git.limits import Budget
from toolkit.remote.git.pack import Pack
from toolkit.remote.git.service import FETCH, Service
from toolkit.remote.git.url import GitUrl
from toolkit.remote.proxy import Proxy, from_environment

Choice = Callable[[Mapping[Ref, ObjectID]], Sequence[ObjectID]]
"""Returns the objects to request, given the references of a server."""


@dataclass(frozen=True, slots=True)
class Repository:
    """The address of a repository, its credentials, and its connections."""

    url: GitUrl
    auth: GitAuth
    dial: Dial

    @classmethod
    def at(cls, url: GitUrl, auth: GitAuth, known: Known) -> "Repository":
        """Return the repository as its user names it."""
        proxy = _proxy(url, auth.proxy)
        return cls(url, auth, Dial(reach=Reach.NOT_METADATA, known=known, proxy=proxy))

    def named_by(self, parent: "Repository") -> None:
        """Bound it by the reach of another one that names it.

        Raises:
            GitError: it is out of that reach.
        """
        self.dial.reach = parent.dial.reach
        self.dial.lead(parent.url.host, self.url.host)


@contextmanager
def connected(
    repository: Repository, timeout: float, *, service: Service = FETCH
) -> Iterator[GitClient]:
    """Give a client for the repository; ``timeout`` bounds each wait for the server, in seconds."""
    with closing(_client(repository, timeout, service)) as client:
        yield client


def _proxy(url: GitUrl, given: Proxy | None) -> Proxy | None:
    """Return the proxy to use: the given one, or for HTTP the one that the environment names.

    ``HTTPS_PROXY``, ``HTTP_PROXY`` and ``NO_PROXY`` are the operator's setting for the process.
    """
    if given is not None or url.scheme == "ssh":
        return given
    return from_environment(url.scheme, url.host, url.port)


def _client(repository: Repository, timeout: float, service: Service) -> GitClient:
    url, auth, dial = repository.url, repository.auth, repository.dial
    if url.scheme == "ssh":
        # asyncssh takes half a second to load, and most repositories are fetched over HTTP.
        from toolkit.remote.git.ssh import SshClient  # noqa: PLC0415

        return SshClient(url, auth, dial=dial, timeout=timeout, service=service)
    from toolkit.remote.git.http import HttpClient  # noqa: PLC0415  # as above

    return HttpClient(url, auth, dial=dial, timeout=timeout, service=service)


def list_refs(client: GitClient, url: GitUrl, prefixes: Sequence[str]) -> dict[str, str]:
    """Return the references with one of the prefixes, and the object that each names."""
    with translated(client, url):
        result = client.get_refs(
            url.path.encode(), ref_prefix=[prefix.encode() for prefix in prefixes]
        )
    if result.object_format not in {None, "sha1"}:
        raise GitError(f"'{url}' has object ids of the kind {result.object_format}: not supported")
    return {
        name.decode("utf-8", "replace"): oid.decode()
        for name, oid in result.refs.items()
        if oid is not None
    }


def receive(  # noqa: PLR0913  # the parts of a request for a pack
    client: GitClient,
    url: GitUrl,
    choice: Choice,
    path: Path,
    budget: Budget,
    *,
    prefixes: Sequence[str],
    alone: bool,
    keep: Path | None = None,
) -> Pack | None:
    """Receive the chosen objects into a file at ``path``; None if the server sent nothing.

    ``alone`` requests commits without their history. Afterwards the file is removed, or moved to
    ``keep``.
    """

    def choose(refs: Mapping[Ref, ObjectID], depth: int | None = None) -> list[ObjectID]:  # noqa: ARG001  # dulwich's signature
        return list(choice(refs))

    with path.open("wb") as file:

        def store(data: bytes) -> int:
            budget.spend("bytes in packs", len(data))
            return file.write(data)

        with translated(client, url):
            client.fetch_pack(
                url.path,
                choose,
                _NoHistory(),
                store,
                depth=1 if alone else None,
                ref_prefix=[prefix.encode() for prefix in prefixes],
            )
    try:
        found = Pack(path, limits=budget.limits) if path.stat().st_size else None
        if found is not None and keep is not None:
            path.rename(keep)
        return found
    finally:
        path.unlink(missing_ok=True)


class _NoHistory:
    """Tells a server that we have nothing (dulwich's ``GraphWalker``)."""

    shallow: frozenset[ObjectID] = frozenset()

    def __next__(self) -> None:
        return None

    def ack(self, oid: ObjectID) -> None:
        """Ignore that something is common: nothing is."""

    def nak(self) -> None:
        """Ignore that nothing is common."""


# dulwich's messages that quote what came instead of Git's protocol.
_QUOTING: Final = (
    "Invalid pkt-line",
    "Length of pkt",
    "invalid shallow line",
    "unknown command",
    "Invalid content-type",
    "Redirected from",
    "unexpected http resp",
)


@contextmanager
def translated(client: GitClient, url: GitUrl, *, service: Service = FETCH) -> Iterator[None]:
    """Convert the errors of dulwich for a broken conversation into our errors."""
    try:
        yield
    except GitProtocolError as exc:
        said = "it does not speak Git's protocol" if str(exc).startswith(_QUOTING) else str(exc)
        complaint = getattr(client, "complaint", str)()
        told = complaint or said
        if complaint and service.remedy:
            told = complaint.rstrip(".") + service.remedy
        raise GitError(f"cannot {service.verb} '{url}': {told}") from exc
    except (AssertionError, IndexError, KeyError, ValueError) as exc:
        if not _raised_by_dulwich(exc):
            raise  # This is a bug of ours, not an error of the server.
        # The answer is not quoted: the address may be that of any service.
        raise GitError(f"'{url}' does not speak Git's protocol") from exc


def _raised_by_dulwich(error: BaseException) -> bool:
    """Tell whether dulwich raised an error, and not one of our functions that it called."""
    frames = traceback.walk_tb(error.__traceback__)
    names = (str(frame.f_globals.get("__name__")).partition(".")[0] for frame, _ in frames)
    return [name for name in names if name in ("dulwich", "toolkit")][-1:] == ["dulwich"]
