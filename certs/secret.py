"""The Secret in which replicas share their authority, and the one that cert-manager writes.

What two replicas write at once is settled by ``resourceVersion``: one wins, the other takes over
what it wrote.
"""

import base64
import binascii
import datetime as dt
from collections.abc import Mapping
from typing import Any, Final

from certs.authority import CertificateError, Pair, facts
from certs.rotation import State
from toolkit.kube.client import Client
from toolkit.kube.errors import AlreadyExistsError, ConflictError, NotFoundError
from toolkit.objects import GroupVersionKind, Json, ObjectKey, dig

SECRET: Final = GroupVersionKind("", "v1", "Secret")
ROTATE: Final = "certs.penstock.dev/rotate"
"""Annotation: another value asks for a new authority."""
_TURNED: Final = "certs.penstock.dev/rotated"
_NEXT_SINCE: Final = "certs.penstock.dev/next-since"
_OLD_SINCE: Final = "certs.penstock.dev/old-since"
_MANAGED: Final = "cert-manager.io/certificate-name"


def asked(secret: Json | None) -> str:
    """Return the newest request for a rotation."""
    return str(dig(secret or {}, "metadata", "annotations", ROTATE, default=""))


def decode(secret: Json) -> State:
    """Read what ``encode`` wrote.

    Raises:
        CertificateError: something is missing or malformed.
    """
    data = _Data(secret)
    notes = dig(secret, "metadata", "annotations", default={})
    state = State(
        authority=data.pair("ca"),
        leaf=data.pair("tls"),
        next=data.pair("next-ca") if data.has("next-ca.crt") else None,
        next_since=_time(notes, _NEXT_SINCE),
        old=data.get("old-ca.crt") if data.has("old-ca.crt") else b"",
        old_since=_time(notes, _OLD_SINCE),
        turned=str(notes.get(_TURNED) or ""),
    )
    for certificate in filter(None, (state.leaf.certificate, state.bundle, state.old)):
        facts(certificate)
    return state


def encode(state: State, key: ObjectKey, before: Json | None) -> Json:
    """Return the Secret that holds ``state``; labels and foreign annotations of ``before`` stay."""
    metadata: Json = {
        "name": key.name,
        "namespace": key.namespace,
        "labels": {
            "app.kubernetes.io/part-of": "penstock",
            "app.kubernetes.io/component": key.name,
        },
    }
    notes = dict(dig(before or {}, "metadata", "annotations", default={}))
    for name, value in (
        (_NEXT_SINCE, _text(state.next_since)),
        (_OLD_SINCE, _text(state.old_since)),
        (_TURNED, state.turned),
    ):
        notes.pop(name, None)
        if value:
            notes[name] = value
    if before is not None:
        metadata["labels"] |= dig(before, "metadata", "labels", default={})
        metadata["resourceVersion"] = before["metadata"]["resourceVersion"]
    pairs = {"ca": state.authority, "tls": state.leaf, "next-ca": state.next}
    data = {"old-ca.crt": state.old} if state.old else {}
    for name, pair in pairs.items():
        if pair:
            data |= {f"{name}.crt": pair.certificate, f"{name}.key": pair.key}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": metadata | {"annotations": notes},
        "type": "Opaque",
        "data": {name: base64.b64encode(value).decode() for name, value in data.items()},
    }


async def read(client: Client, key: ObjectKey) -> Json | None:
    """Return the Secret, or None if there is none."""
    try:
        return await client.get(SECRET, key.name, key.namespace)
    except NotFoundError:
        return None


async def write(client: Client, secret: Json) -> bool:
    """Write the Secret; return False if somebody else did since it was read."""
    metadata = secret["metadata"]
    path = f"/api/v1/namespaces/{metadata['namespace']}/secrets"
    try:
        if "resourceVersion" in metadata:
            await client.request("PUT", f"{path}/{metadata['name']}", body=secret)
        else:
            await client.request("POST", path, body=secret)
    # not found: it was deleted since
    except (ConflictError, AlreadyExistsError, NotFoundError):
        return False
    return True


def is_foreign(secret: Json | None) -> bool:
    """Tell whether cert-manager wrote this Secret, and keeps it."""
    if secret is None or secret.get("type") != "kubernetes.io/tls":
        return False
    return bool(dig(secret, "metadata", "annotations", _MANAGED))


def foreign(secret: Json) -> tuple[Pair, bytes]:
    """Return the serving pair of cert-manager's Secret, and the authority that clients must trust.

    An issuer that names no authority, as a public one does, cannot vouch for a Service anyway.

    Raises:
        CertificateError: something is missing or malformed.
    """
    data = _Data(secret)
    pair = data.pair("tls")
    facts(pair.certificate)
    authority = data.get("ca.crt")
    facts(authority)
    return pair, authority


class _Data:
    """The decoded values of a Secret."""

    def __init__(self, secret: Json) -> None:
        self.name = str(dig(secret, "metadata", "name", default=""))
        self._data = secret.get("data") or {}

    def has(self, key: str) -> bool:
        return bool(self._data.get(key))

    def get(self, key: str) -> bytes:
        if not self.has(key):
            raise CertificateError(f"Secret {self.name} has no {key}")
        try:
            return base64.b64decode(self._data[key], validate=True)
        except (binascii.Error, TypeError, ValueError) as exc:
            raise CertificateError(f"{key} of Secret {self.name} is not base64") from exc

    def pair(self, name: str) -> Pair:
        return Pair(certificate=self.get(f"{name}.crt"), key=self.get(f"{name}.key"))


def _time(notes: Mapping[str, Any], name: str) -> dt.datetime | None:
    text = notes.get(name)
    if not text:
        return None
    try:
        return dt.datetime.fromisoformat(str(text)).astimezone(dt.UTC)
    except ValueError as exc:
        raise CertificateError(f"annotation {name} is not a time") from exc


def _text(moment: dt.datetime | None) -> str:
    return moment.isoformat() if moment else ""
