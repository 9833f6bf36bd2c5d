"""The columns of ``get`` between name and readiness, by kind, as in ``flux get``.

A kind that is not listed has a revision, and can be suspended.
"""

import re
from collections.abc import Callable, Mapping
from typing import Final

from apiserver.cells import shorten
from cli import status
from crds import (
    ALERT,
    IMAGE_POLICY,
    IMAGE_REPOSITORY,
    IMAGE_UPDATE_AUTOMATION,
    PROVIDER,
    RECEIVER,
)
from toolkit.objects import Json, dig, key_of

Column = tuple[str, Callable[[Json], str]]
"""A header, and the function that returns the cell of an object."""


def of(kind: str) -> tuple[Column, ...]:
    """Return the columns of a kind."""
    return _OWN.get(kind, COMMON)


def repeats(message: str, revision: str) -> bool:
    """Tell whether a message says no more than which revision was reached: it ends with it."""
    return (
        bool(revision) and re.search(rf"[ :'\"]{re.escape(revision)}['\"]?$", message) is not None
    )


def _at(*path: str) -> Callable[[Json], str]:
    return lambda obj: str(dig(obj, "status", *path, default=""))


def _source(obj: Json) -> str:
    """Return the sources of an applier as ``Kind/namespace/name``."""
    spec = dig(obj, "spec", default={})
    first = spec.get("chartRef") or dig(spec, "chart", "spec", "sourceRef") or spec.get("sourceRef")
    named = [first] if first else spec.get("sourceRefs") or ()
    own = key_of(obj).namespace
    return ", ".join(
        f"{each.get('kind')}/{each.get('namespace') or own}/{each.get('name')}" for each in named
    )


SOURCE: Final[Column] = ("SOURCE", _source)
"""The column that ``--show-source`` adds for appliers."""
_REVISION: Final[Column] = ("REVISION", lambda obj: shorten(status.revision(obj)))
_SUSPENDED: Final[Column] = ("SUSPENDED", lambda obj: str(status.suspended(obj)))
COMMON: Final = (_REVISION, _SUSPENDED)
"""The columns that fit all kinds."""
_OWN: Final[Mapping[str, tuple[Column, ...]]] = {
    ALERT.kind: (_SUSPENDED,),
    PROVIDER.kind: (),
    RECEIVER.kind: (_SUSPENDED,),
    IMAGE_REPOSITORY.kind: (("LAST SCAN", _at("lastScanResult", "scanTime")), _SUSPENDED),
    IMAGE_POLICY.kind: (("IMAGE", _at("latestRef", "name")), ("TAG", _at("latestRef", "tag"))),
    IMAGE_UPDATE_AUTOMATION.kind: (("LAST RUN", _at("lastAutomationRunTime")), _SUSPENDED),
}
