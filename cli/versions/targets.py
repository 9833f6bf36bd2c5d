"""Which version of each kind manifests are to be written in. Pure.

Penstock serves every version, Flux only the newest ones of its time. So the newest that both have
is the default: manifests in it can go to either.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from cli import errors
from crds import KINDS

OURS: Final = "penstock"
"""Names the versions that Penstock stores."""
_STORED: Final = {(kind.group, kind.kind): kind.version for kind in KINDS if kind.older}
_NOTIFYING: Final = {
    (kind.group, kind.kind): old.version for kind in KINDS for old in kind.older if old.current
}
_IMAGES: Final = dict.fromkeys((key for key in _STORED if key[0].startswith("image.")), "v1beta2")
_FLUX: Final = {**_STORED, **_NOTIFYING}
TABLES: Final[Mapping[str, Mapping[tuple[str, str], str]]] = MappingProxyType(
    {
        # Alert and Provider have no v1 in Flux
        "2.9": _FLUX,
        "2.8": _FLUX,
        "2.7": _FLUX,
        # before the kinds of images had v1
        "2.6": {**_FLUX, **_IMAGES},
        OURS: _STORED,
    }
)
DEFAULT: Final = "2.9"
_ORDER: Final = {
    (kind.group, kind.kind): (kind.version, *(old.version for old in kind.older)) for kind in KINDS
}
"""The versions of each kind, newest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The versions to write; ``exact`` is whether a newer one is taken back, too."""

    versions: Mapping[tuple[str, str], str]
    exact: bool

    @classmethod
    def named(cls, version: str) -> "Target":
        """Return the target of a Flux version; empty is the default, and never goes back.

        Raises:
            UsageError: the version is unknown.
        """
        table = TABLES.get(version or DEFAULT)
        if table is None:
            raise errors.UsageError(
                f"--version: {version} is not known: choose {', '.join(TABLES)}"
            )
        return cls(versions=table, exact=bool(version))

    def version(self, group: str, version: str, kind: str) -> str:
        """Return the version to write instead of this one; the same one if it is right."""
        wanted = self.versions.get((group, kind), version)
        order = _ORDER.get((group, kind), ())
        if version not in order:
            return version
        newer = order.index(wanted) < order.index(version)
        return wanted if newer or self.exact else version


def is_unknown(group: str, version: str, kind: str) -> bool:
    """Tell whether it is a version of one of our kinds without a conversion."""
    order = _ORDER.get((group, kind))
    return order is not None and version not in order
