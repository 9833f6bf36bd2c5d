"""The structs that the kinds of ``source.toolkit.fluxcd.io/v1beta1`` are made of.

And how its artifacts are converted: a SHA-256 was told as ``checksum``, a Git revision as
``branch/commit``. An artifact that the newest version cannot hold, because it lacks a digest, is
none there: the source is fetched again.
"""

import re
from typing import Any, Final

from msgspec import field

from crds import meta
from crds.change import ABSENT, Change, duration, revision_down, revision_up


class Artifact(meta.ApiStruct, frozen=True, kw_only=True):
    """What a source produced last, and where to get it."""

    path: str
    """Path of the file below the storage root."""
    url: str
    """Address at which consumers inside the cluster fetch the file."""
    revision: str = ""
    """Upstream revision that the artifact holds, as `<branch>/<commit>` for Git."""
    checksum: str = ""
    """SHA-256 of the file in hexadecimal."""
    last_update_time: meta.Timestamp | None = None
    """When this artifact was stored."""


class SourceStatus(meta.ApiStruct, frozen=True, kw_only=True):
    """What was fetched last, and how that went."""

    observed_generation: meta.Count = 0
    conditions: meta.Conditions = field(default_factory=list)
    url: str = ""
    """Address of the newest artifact."""
    artifact: Artifact | None = None
    last_handled_reconcile_at: str = ""


def durations() -> tuple[Change, ...]:
    """Return the changes of ``interval`` and ``timeout``."""
    return duration("spec", "interval"), duration("spec", "timeout", hours=False)


def artifact_up(value: Any) -> Any:
    """Return the artifact with a digest; ABSENT where it has none."""
    if not isinstance(value, dict):
        return value
    found = dict(value)
    checksum = found.get("checksum")
    if "digest" not in found and isinstance(checksum, str) and _SHA256.fullmatch(checksum):
        found["digest"] = f"sha256:{found.pop('checksum')}"
    if "revision" in found:
        found["revision"] = revision_up(found["revision"])
    return found if found.keys() >= _REQUIRED else ABSENT


def artifact_down(value: Any) -> Any:
    """Return the artifact with a checksum, where its digest is a SHA-256."""
    if not isinstance(value, dict):
        return value
    found = dict(value)
    algorithm, _, text = str(found.get("digest", "")).partition(":")
    if "checksum" not in found and algorithm == "sha256" and _SHA256.fullmatch(text):
        found["checksum"] = text
        del found["digest"]
    if "revision" in found:
        found["revision"] = revision_down(found["revision"])
    return found


def artifacts_up(value: Any) -> Any:
    """Return the artifacts with digests; ABSENT where one of them has none."""
    if not isinstance(value, list):
        return value
    found = [artifact_up(each) for each in value]
    return ABSENT if ABSENT in found else found


def artifacts_down(value: Any) -> Any:
    """Return the artifacts with checksums."""
    return [artifact_down(each) for each in value] if isinstance(value, list) else value


_SHA256: Final = re.compile(r"[0-9a-f]{64}")
_REQUIRED: Final = frozenset({"digest", "lastUpdateTime", "path", "revision", "url"})

ARTIFACT: Final = Change(path=("status", "artifact"), up=artifact_up, down=artifact_down)
ARTIFACTS: Final = Change(
    path=("status", "includedArtifacts"), up=artifacts_up, down=artifacts_down
)
