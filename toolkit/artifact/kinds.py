"""The kinds whose objects have artifacts, by the name that they have in paths of the store."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

import crds
from crds.kind import Kind

KINDS: Final[Mapping[str, Kind[Any]]] = MappingProxyType(
    {kind.kind.lower(): kind for kind in crds.KINDS if kind.has_artifact}
)
