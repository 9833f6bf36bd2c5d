"""The name of a release, as Helm takes it and Flux makes it, and those of its records."""

import hashlib
from typing import Final

from toolkit import dnsnames

LONGEST: Final = 53
"""Characters; Helm leaves room for suffixes of objects' names (``validation.go``)."""

_HASH: Final = 12


def release_name(name: str, *, chosen: str = "", target_namespace: str = "") -> str:
    """Return the name of the release of the HelmRelease ``name``.

    ``chosen`` is ``spec.releaseName``. A composed name that is too long keeps its first 40
    characters, and ends in a hash of all (Flux: ``release.ShortenName``).
    """
    return shortened(chosen or "-".join(part for part in (target_namespace, name) if part))


def shortened(name: str) -> str:
    """Return the name, or where it is too long its beginning and a hash of all of it."""
    if len(name) <= LONGEST:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:_HASH]
    return f"{name[: LONGEST - _HASH - 1]}-{digest}"


def record(name: str, version: int) -> str:
    """Return the name of the Secret in which Helm keeps a version of a release."""
    return f"sh.helm.release.v1.{name}.v{version}"


def fits(name: str) -> bool:
    """Tell whether Helm takes the name (``chartutil.ValidateReleaseName``)."""
    return len(name) <= LONGEST and dnsnames.SUBDOMAIN.fullmatch(name) is not None
