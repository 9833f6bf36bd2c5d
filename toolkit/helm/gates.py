"""The requests that an action in a worker may send, per identity.

An action renders templates of tenants, so its worker is untrusted. Requests of the release are sent
with the identity of the release, so RBAC limits them. Requests for Helm's storage are sent with
Penstock's identity, so only requests for the records of this release are allowed.
"""

import re
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeAlias
from urllib.parse import parse_qsl, unquote

import msgspec

Response: TypeAlias = tuple[int, Mapping[str, str], AsyncIterator[bytes]]
"""Status, headers, and chunks of the body."""

_TYPE: Final = "helm.sh/release.v1"
_OWNER: Final = ("owner", "helm")


class Exchanging(Protocol):
    """Sends what another client has written (``toolkit.kube.client.Client``)."""

    def exchange(
        self, method: str, target: str, *, headers: Mapping[str, str], body: bytes
    ) -> AbstractAsyncContextManager[Response]:
        """Send a request as this identity, and give the answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """A client, and which requests may use it: method, target and body."""

    client: Exchanging
    allows: Callable[[str, str, bytes], bool]


def anything(method: str, target: str, body: bytes) -> bool:  # noqa: ARG001 - one of two gates
    """Allow every request: the API server authorizes the identity."""
    return True


def records(*, namespace: str, release: str) -> Callable[[str, str, bytes], bool]:
    """Return a filter that allows only reads and writes of the records of one release.

    The names are Helm's (``pkg/storage/storage.go`` makeKey, ``driver/secrets.go``).
    """
    collection = f"/api/v1/namespaces/{namespace}/secrets"
    name = re.compile(rf"sh\.helm\.release\.v1\.{re.escape(release)}\.v[0-9]{{1,10}}")

    def of_collection(method: str, query: str, body: bytes) -> bool:
        if method == "POST":
            return not query and _is_record(body, name=name, release=release)
        return method == "GET" and _selects(query, release)

    def of_one(method: str, query: str, body: bytes) -> bool:
        if method == "PUT":
            return not query and _is_record(body, name=name, release=release)
        return method in {"GET", "DELETE"} and not query

    def allows(method: str, target: str, body: bytes) -> bool:
        path, _, query = target.partition("?")
        if path != unquote(path):
            return False  # No valid name needs an escape, and servers may decode it differently.
        if path == collection:
            return of_collection(method, query, body)
        head, _, last = path.rpartition("/")
        return head == collection and bool(name.fullmatch(last)) and of_one(method, query, body)

    return allows


def _selects(query: str, release: str) -> bool:
    pairs = parse_qsl(query, keep_blank_values=True)
    if len(pairs) != 1 or pairs[0][0] != "labelSelector":
        return False
    terms = [term.partition("=")[::2] for term in pairs[0][1].split(",")]
    return _OWNER in terms and ("name", release) in terms


def _is_record(body: bytes, *, name: re.Pattern[str], release: str) -> bool:
    try:
        secret: Any = msgspec.json.decode(body, type=dict[str, Any])
    except (ValueError, RecursionError):
        return False
    metadata = secret.get("metadata")
    if not isinstance(metadata, Mapping) or not isinstance(metadata.get("name"), str):
        return False
    labels = metadata.get("labels")
    return (
        secret.get("type") == _TYPE
        and bool(name.fullmatch(metadata["name"]))
        and isinstance(labels, Mapping)
        and labels.get("owner") == "helm"
        and labels.get("name") == release
    )
