"""Who may ask what: an identity as an action in a worker has it.

An action runs templates of tenants, so its worker is believed nothing. What it asks as the release
goes out under the release's identity and can do what that may. What it asks as the storage goes
out under ours, so only the records of its own release pass.
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
    """Let every request through: the API server knows what the identity may do."""
    return True


def records(*, namespace: str, release: str) -> Callable[[str, str, bytes], bool]:
    """Let through what reads and writes the records of one release, and nothing else.

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
            return False  # no name of ours needs it, and servers may differ in how they read it
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
