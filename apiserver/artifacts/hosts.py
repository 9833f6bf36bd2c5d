"""The hosts from which artifacts may be fetched: our own server, and hosts of the operator.

The URL of an artifact is in a status, and third parties write that of an ExternalArtifact. Such a
user must not make this process, which can reach networks that tenants cannot, send requests to an
address of their choice. Only our own server gets requests for more than files, because these need a
token. Pure.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from apiserver import status
from apiserver.artifacts.held import Held
from crds.meta import Artifact
from toolkit.artifact import belonging
from toolkit.errors import PenstockError

FLAG: Final = "--artifact-hosts"


def usual(namespace: str) -> tuple[str, ...]:
    """Return the names of the artifact server of an installation in ``namespace``."""
    service = f"source-controller.{namespace}.svc"
    return service, f"{service}.cluster.local"


def own(advertised: str, namespace: str) -> "Hosts":
    """Return the hosts of our artifact server: those advertised, comma-separated, or the default.

    With a Service, all replicas have one host. Without one each replica has its own, and an
    artifact is ours with any of them.
    """
    named = Hosts.of(advertised.split(","))
    return named if named.allowed else Hosts.of(usual(namespace))


@dataclass(frozen=True, slots=True)
class Hosts:
    """The hosts that may be asked, as ``host``, or ``host:port`` where that is not the usual."""

    allowed: frozenset[str]

    @classmethod
    def of(cls, allowed: Sequence[str]) -> "Hosts":
        """Read hosts as an operator writes them."""
        return cls(frozenset(filter(None, (_plain(host) for host in allowed))))

    def __or__(self, other: "Hosts") -> "Hosts":
        """Return the hosts of both."""
        return Hosts(self.allowed | other.allowed)

    def has(self, url: str) -> bool:
        """Tell whether a URL leads to one of the hosts."""
        return _host(url) in self.allowed

    def require(self, artifact: Held) -> str:
        """Return the URL of an artifact that may be fetched.

        Raises:
            StatusError: 403, it may not; the message tells the host and how it would be allowed.
        """
        # 1. It is a plain HTTP URL without user and query.
        host = _host(artifact.url)
        if not host:
            raise _refused(f"the address of artifact '{artifact.name}' is not a plain HTTP URL")
        # 2. Its host is one that the operator named.
        if host not in self.allowed:
            raise _refused(
                f"artifact '{artifact.name}' is served by '{host}', which this server does not "
                f"fetch from: an administrator allows it with {FLAG}"
            )
        # 3. It is the object's own: a status may name a neighbour's.
        try:
            belonging.require_own(_offered(artifact), artifact.owner)
        except PenstockError as exc:
            raise _refused(str(exc)) from exc
        return artifact.url


_PORTS: Final = {"http": 80, "https": 443}


def _host(url: str) -> str:
    """Return ``host`` or ``host:port`` of a plain HTTP URL, and nothing for any other."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return ""
    usual_port = _PORTS.get(parts.scheme)
    if usual_port is None or "@" in parts.netloc or parts.query or parts.fragment:
        return ""
    if not url.isascii() or not url.isprintable() or "\\" in url or " " in url:
        return ""
    host = (parts.hostname or "").rstrip(".")
    if ":" in host:
        host = f"[{host}]"
    return host if port in {None, usual_port} else f"{host}:{port}"


def _plain(host: str) -> str:
    """Return a host as it is compared: in lower case, without final dot and usual port."""
    return _host(f"http://{host.strip()}")


def _offered(artifact: Held) -> Artifact:
    return Artifact(
        digest=artifact.digest,
        last_update_time=artifact.stored,
        path=artifact.path,
        revision=artifact.revision,
        url=artifact.url,
    )


def _refused(message: str) -> status.StatusError:
    return status.StatusError(403, "Forbidden", message)
