"""A release as Helm stores it, and the digest by which Flux recognizes it.

A record is the JSON of Helm's ``release/v1.Release``, compressed in a Secret. The caller fetches
and decompresses it, within bounds. The digest is over these fields, in the order of Go's struct and
in Go's JSON (helm-controller ``internal/release/observation.go``): name, version, info, metadata of
the chart, values, manifest, hooks that are not tests, namespace, and the digest of the chart's
artifact. Test hooks are left out, because running tests changes them. JSON that Go wrote is kept
unchanged if Go would write it in the same way again.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final

import msgspec
from msgspec import Raw, Struct

from crds.helm_actions import TestFilter
from crds.helm_status import Snapshot, TestHookStatus
from toolkit.errors import TransientError
from toolkit.release import digest, values

API_VERSION: Final = "v2"
"""The version of the digest since Helm 4; digests of other versions are not compared."""
DEPLOYED: Final = "deployed"
FAILED: Final = "failed"
SUPERSEDED: Final = "superseded"
UNINSTALLED: Final = "uninstalled"
PENDING: Final = frozenset({"pending-install", "pending-upgrade", "pending-rollback"})

_TEST: Final = "test"
_NEVER: Final = "0001-01-01T00:00:00Z"
_NO_TIME: Final = frozenset({"", _NEVER})
_NULL: Final = Raw(b"null")


class RecordError(TransientError):
    """The content in Helm's storage is not a record of a release."""

    default_reason = "StateError"


class Info(Struct, frozen=True, omit_defaults=True):
    """State of a release, in the order of Go's fields."""

    first_deployed: str | None = None
    last_deployed: str | None = None
    deleted: str | None = None
    description: str = ""
    status: str = ""
    rollback_revision: int = 0
    notes: str = ""
    resources: Raw = Raw()


class Run(Struct, frozen=True, omit_defaults=True):
    """Last execution of a hook; ``phase`` is always written."""

    started_at: str | None = None
    completed_at: str | None = None
    phase: str | None = None


class Hook(Struct, frozen=True, omit_defaults=True):
    """One hook, in the order of Go's fields."""

    name: str = ""
    kind: str = ""
    path: str = ""
    manifest: str = ""
    events: tuple[str, ...] = ()
    last_run: Run | None = None
    weight: int = 0
    delete_policies: tuple[str, ...] = ()
    output_log_policies: tuple[str, ...] = ()

    @property
    def is_test(self) -> bool:
        """Tell whether ``helm test`` runs the hook."""
        return _TEST in self.events


class _Chart(Struct, frozen=True):
    metadata: Raw = Raw(b"{}")


class Metadata(Struct, frozen=True, rename="camel"):
    """Name and versions of a chart."""

    name: str = ""
    version: str = ""
    app_version: str = ""


class Record(Struct, frozen=True):
    """One release in Helm's storage."""

    name: str = ""
    info: Info = Info()
    chart: _Chart = _Chart()
    config: Raw = _NULL
    manifest: str = ""
    hooks: tuple[Hook, ...] = ()
    version: int = 0
    namespace: str = ""

    @property
    def metadata(self) -> Metadata:
        """Return name and versions of the chart."""
        return msgspec.json.decode(self.chart.metadata, type=Metadata)

    @property
    def values(self) -> dict[str, Any]:
        """Return the values of the release.

        Raises:
            RecordError, ValuesError: the values are nested too deep, or contain a number that Go
                cannot represent.
        """
        try:
            found = msgspec.json.decode(self.config)
        except (RecursionError, ValueError) as exc:
            raise RecordError("the values of the release in Helm's storage cannot be read") from exc
        return values.as_go(found or {})


class _Observation(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The fields of the digest in the order of Go's struct; only the last one may be left out."""

    name: str
    version: int
    info: Info
    chart_metadata: Raw
    config: Raw
    manifest: str
    hooks: Raw
    namespace: str
    oci_digest: str = ""


_DECODER: Final = msgspec.json.Decoder(Record)


def decode(data: bytes) -> Record:
    """Decode a record, which is untrusted: users who may write Secrets there may have written it.

    Raises:
        RecordError: the data is not a record, or a part of it is invalid.
    """
    try:
        found = _DECODER.decode(data)
        _require_readable(found)
    except (msgspec.DecodeError, ValueError, RecursionError) as exc:
        raise RecordError("the record of the release in Helm's storage cannot be read") from exc
    return found


def _require_readable(found: Record) -> None:
    """Require that the parts that are kept as raw JSON are valid."""
    msgspec.json.decode(found.chart.metadata, type=Metadata)
    msgspec.json.decode(found.config, type=dict[str, Raw] | None)
    runs = [hook.last_run for hook in found.hooks if hook.last_run]
    times = [
        *(found.info.first_deployed, found.info.last_deployed, found.info.deleted),
        *(time for run in runs for time in (run.started_at, run.completed_at)),
    ]
    for time in times:
        _seconds(time)


def digest_of(record: Record, *, oci_digest: str = "") -> str:
    """Return the digest by which Flux recognizes the release."""
    hooks = [_hook(hook) for hook in record.hooks if not hook.is_test]
    return digest.of_json(
        _Observation(
            name=record.name,
            version=record.version,
            info=_info(record.info),
            chart_metadata=record.chart.metadata,
            config=_NULL if bytes(record.config) in {b"{}", b""} else record.config,
            manifest=record.manifest,
            hooks=Raw(msgspec.json.encode(hooks)) if hooks else _NULL,
            namespace=record.namespace,
            oci_digest=oci_digest,
        )
    )


def matches(snapshot: Snapshot, record: Record) -> bool:
    """Tell whether the snapshot was made from this record.

    A snapshot of an older controller does not match: its digest was computed in another way.
    """
    if snapshot.api_version != API_VERSION:
        return True
    return snapshot.digest == digest_of(record, oci_digest=snapshot.oci_digest)


def snapshot(
    record: Record,
    *,
    action: str = "",
    oci_digest: str = "",
    test_hooks: dict[str, TestHookStatus] | None = None,
) -> Snapshot:
    """Return the entry of a record for the status."""
    metadata = record.metadata
    return Snapshot(
        api_version=API_VERSION,
        digest=digest_of(record, oci_digest=oci_digest),
        name=record.name,
        namespace=record.namespace,
        version=record.version,
        status=record.info.status,
        action=action,
        chart_name=metadata.name,
        chart_version=metadata.version,
        app_version=metadata.app_version,
        config_digest=digest.of_values(record.values),
        first_deployed=_seconds(record.info.first_deployed) or _NEVER,
        last_deployed=_seconds(record.info.last_deployed) or _NEVER,
        deleted=_seconds(record.info.deleted),
        test_hooks=test_hooks,
        oci_digest=oci_digest,
    )


def tested(record: Record, filters: Sequence[TestFilter]) -> dict[str, TestHookStatus]:
    """Return the outcomes of the tests that the filters select."""
    return {
        hook.name: TestHookStatus(
            last_started=_seconds(hook.last_run.started_at) if hook.last_run else None,
            last_completed=_seconds(hook.last_run.completed_at) if hook.last_run else None,
            phase=(hook.last_run.phase or "") if hook.last_run else "",
        )
        for hook in record.hooks
        if hook.is_test and _selected(hook.name, filters)
    }


def _selected(name: str, filters: Sequence[TestFilter]) -> bool:
    """Tell whether a test runs: none that is excluded, and where some are named those alone."""
    if any(each.exclude and each.name == name for each in filters):
        return False
    included = [each.name for each in filters if not each.exclude]
    return not included or name in included


def _info(info: Info) -> Info:
    times = ("first_deployed", "last_deployed", "deleted")
    return msgspec.structs.replace(info, **{name: _time(getattr(info, name)) for name in times})


def _hook(hook: Hook) -> Hook:
    run = hook.last_run or Run()
    written = Run(
        started_at=_time(run.started_at),
        completed_at=_time(run.completed_at),
        phase=run.phase or "",
    )
    return msgspec.structs.replace(hook, last_run=written)


def _time(text: str | None) -> str | None:
    return None if text is None or text in _NO_TIME else text


def _seconds(text: str | None) -> str | None:
    """Return a time in whole seconds of UTC, as Kubernetes writes it."""
    found = _time(text)
    if found is None:
        return None
    try:
        moment = datetime.fromisoformat(found).astimezone(UTC)
    except OverflowError as exc:
        raise ValueError("a time is out of range") from exc
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
