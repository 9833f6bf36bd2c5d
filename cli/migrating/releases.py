"""The schemas of charts that are released now, from Helm's records in the cluster.

The record of a release contains its chart, so nothing is fetched from elsewhere. It does not
contain the chart's dependencies.
"""

import base64
import binascii
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from cli.check import schemas
from cli.check.subjects import Subject
from crds import HELM_RELEASE
from toolkit.apply import bounded
from toolkit.kube import errors
from toolkit.kube.client import Client
from toolkit.objects import GroupVersionKind, Json, dig
from toolkit.release import names

_SECRET: Final = GroupVersionKind("", "v1", "Secret")
_AT_ONCE: Final = 8
_MOST: Final = 64 << 20
"""Bytes of a record; Helm stores up to 1 MiB, compressed."""
_GZIP: Final = 31


@dataclass(frozen=True, slots=True)
class Read:
    """What is not validated for which HelmRelease, and those whose record could not be read."""

    told: dict[str, tuple[str, ...]] = field(default_factory=dict)
    unread: tuple[str, ...] = ()


async def read(api: Client, found: Sequence[Subject]) -> Read:
    """Read the latest record of every HelmRelease that has released something.

    Raises:
        ApiError: the API server cannot be reached.
    """
    of_releases = [each for each in found if each.obj.get("kind") == HELM_RELEASE.kind]
    latest = [(each, place) for each in of_releases if (place := _place(each.obj))]
    charts = await bounded.each(latest, lambda row: _chart(api, row[1]), limit=_AT_ONCE)
    bounded.raise_general(charts)
    told, unread = {}, []
    for (subject, _), chart in zip(latest, charts, strict=True):
        if chart is None or isinstance(chart, errors.ApiError):
            unread.append(str(subject.ref))
        elif messages := tuple(schemas.told([chart])):
            told[str(subject.ref)] = messages
    return Read(told, tuple(unread))


def _place(obj: Json) -> tuple[str, str] | None:
    """Return namespace and name of the Secret with the latest record; None if none is known."""
    history = dig(obj, "status", "history") or ()
    namespace = dig(obj, "status", "storageNamespace")
    if not history or not namespace or not history[0].get("name"):
        return None
    return namespace, names.record(history[0]["name"], history[0].get("version"))


async def _chart(api: Client, place: tuple[str, str]) -> tuple[str, Any] | None:
    """Return name and schema of the chart in a record; None if it cannot be read."""
    namespace, name = place
    secret = await api.get(_SECRET, name, namespace)
    try:
        packed = base64.b64decode(base64.b64decode(dig(secret, "data", "release", default="")))
        record = zlib.decompressobj(_GZIP).decompress(packed, _MOST)
        chart = msgspec.json.decode(record)["chart"]
        schema = base64.b64decode(chart.get("schema") or b"")
        return str(dig(chart, "metadata", "name")), msgspec.json.decode(schema or b"null")
    except (binascii.Error, zlib.error, ValueError, TypeError, KeyError, RecursionError):
        return None
