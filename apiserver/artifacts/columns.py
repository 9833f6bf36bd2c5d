"""The columns of ``kubectl get artifacts``, and the fields for selectors."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final
from urllib.parse import urlsplit

from apiserver.artifacts import shown
from apiserver.cells import shorten, text
from apiserver.resource import Column
from toolkit.objects import Json, dig


def _source(obj: Json) -> str:
    ref = obj["spec"]["sourceRef"]
    return f"{ref['kind']}/{ref['name']}"


def _revision(obj: Json) -> str:
    """Return the revision with hashes shortened to 8 digits, as ``flux get`` does."""
    revision = str(dig(obj, "spec", "revision", default="")) or "<unknown>"
    return shorten(revision)


def _size(obj: Json) -> str:
    size = float(obj["spec"]["size"])
    for unit in _UNITS:
        if size < 1024 or unit == _UNITS[-1]:
            return f"{size:.0f}{unit}" if unit == "B" or size >= 10 else f"{size:.1f}{unit}"
        size /= 1024
    return ""


def _verified(obj: Json) -> str:
    verification = dig(obj, "status", "verification", default={})
    return shown.signer(verification) if verification else ""


def _stored(obj: Json) -> str:
    stored = obj["status"]["stored"]
    if stored.get("backend") == "external":
        return urlsplit(str(stored["url"])).netloc.rpartition("@")[2]
    return str(stored.get("backend", "<unknown>"))


def _used(obj: Json) -> str:
    users = [
        f"{user['kind']}/{user['name']}"
        for user in dig(obj, "status", "usedBy", default=[])
        if user["state"] == "Applied"
    ]
    more = max(len(users) - _SHOWN, 0) + sum(
        int(dig(obj, "status", name, default=0)) for name in ("usedMore", "usedElsewhere")
    )
    told = [*users[:_SHOWN], *([f"+{more}"] if more else [])]
    return ", ".join(told)


def _current(obj: Json) -> str:
    return "true" if obj["status"]["current"] else "false"


def _is_verified(obj: Json) -> str:
    return "true" if dig(obj, "status", "verification") else "false"


_UNITS: Final = ("B", "KiB", "MiB", "GiB")
_SHOWN: Final = 3

FIELDS: Final[Mapping[str, Callable[[Json], str]]] = MappingProxyType(
    {
        "spec.sourceRef.kind": text("spec", "sourceRef", "kind"),
        "spec.sourceRef.name": text("spec", "sourceRef", "name"),
        "spec.revision": text("spec", "revision"),
        "spec.digest": text("spec", "digest"),
        "status.current": _current,
        "status.verified": _is_verified,
        "status.stored.backend": text("status", "stored", "backend"),
    }
)
"""``status.current`` and ``status.verified`` are ``true`` or ``false``."""

COLUMNS: Final = (
    Column(
        name="Name",
        format="name",
        cell=text("metadata", "name"),
        description="Kind and name of the source, and the beginning of the digest.",
    ),
    Column(name="Source", cell=_source, description="Object that the artifact was made for."),
    Column(name="Revision", cell=_revision, description="Upstream revision, shortened."),
    Column(name="Current", cell=_current, description="Whether the source offers it now."),
    Column(name="Size", cell=_size, description="Size of the file."),
    Column(name="Verified", cell=_verified, description="Who signed it, as far as that was asked."),
    Column(
        name="Age",
        type="date",
        cell=text("metadata", "creationTimestamp"),
        description="Time since it was stored.",
    ),
    Column(
        name="Digest",
        cell=text("spec", "digest"),
        priority=1,
        description="Digest of the file.",
    ),
    Column(
        name="Stored",
        cell=_stored,
        priority=1,
        description="Kind of store, or the host that serves an external artifact.",
    ),
    Column(
        name="Used By",
        cell=_used,
        priority=1,
        description="What was applied or made from it last; those of other namespaces are counted.",
    ),
)
