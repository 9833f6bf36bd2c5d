"""HelmReleases, and records as Helm keeps them, to decide on."""

from typing import Any

import msgspec

from controllers.helm.deciding.states import Desired
from crds.helm import HelmRelease
from crds.helm_status import Snapshot
from toolkit.release import digest, record
from toolkit.release.record import Record

Json = dict[str, Any]

VALUES: Json = {"replicas": 1}
DESIRED = Desired(chart_name="shop", chart_version="1.0.0", config_digest=digest.of_values(VALUES))


def made(version: int = 1, status: str = "deployed", **changes: Any) -> Record:
    """Return a record in storage."""
    written = {
        "name": "app",
        "namespace": "team",
        "version": version,
        "info": {"status": status, "first_deployed": "2026-01-01T00:00:00Z"},
        "chart": {"metadata": {"name": "shop", "version": "1.0.0"}},
        "config": VALUES,
        "manifest": f"# {version}\n",
    }
    return record.decode(msgspec.json.encode({**written, **changes}))


def snapshot(version: int = 1, status: str = "deployed", **changes: Any) -> Snapshot:
    """Return what the history has of such a record, with its digest."""
    kept = record.snapshot(made(version, status))
    return msgspec.structs.replace(kept, **changes)


def release(
    *,
    spec: Json | None = None,
    status: Json | None = None,
    annotations: Json | None = None,
    metadata: Json | None = None,
    deleted: bool = False,
) -> HelmRelease:
    """Return an object that was observed in its generation."""
    return msgspec.convert(
        {
            "apiVersion": "helm.toolkit.fluxcd.io/v2",
            "kind": "HelmRelease",
            "metadata": {
                "name": "app",
                "namespace": "team",
                "generation": 2,
                "annotations": annotations or {},
                "deletionTimestamp": "2026-01-01T00:00:00Z" if deleted else None,
                **(metadata or {}),
            },
            "spec": {
                "interval": "5m",
                "chartRef": {"kind": "OCIRepository", "name": "shop"},
                **(spec or {}),
            },
            "status": {"observedGeneration": 2, **(status or {})},
        },
        HelmRelease,
    )


def history(*snapshots: Snapshot) -> Json:
    """Return snapshots as part of a status."""
    return {"history": [msgspec.to_builtins(each) for each in snapshots]}
