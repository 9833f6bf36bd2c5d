"""What a Kustomization means beyond its fields."""

import msgspec
import pytest

from crds import kustomize


def spec(**fields: object) -> kustomize.KustomizationSpec:
    required: dict[str, object] = {"interval": "10m", "prune": True}
    return msgspec.convert(required | fields, kustomize.KustomizationSpec)


@pytest.mark.parametrize(
    ("fields", "seconds"),
    [
        ({"interval": "10m"}, 570),
        ({"interval": "1m"}, 30),
        ({"interval": "10s"}, 30),
        ({"interval": "10m", "timeout": "2m"}, 120),
        ({"interval": "10m", "timeout": "5s"}, 30),
        ({"interval": "1m", "timeout": "1h"}, 3600),
    ],
)
def test_the_timeout_is_the_interval_less_thirty_seconds_and_never_under_thirty(
    fields: dict[str, str], seconds: float
) -> None:
    assert spec(**fields).timeout_seconds == seconds


def test_a_failure_is_retried_after_the_interval_unless_told_otherwise() -> None:
    assert spec().retry_seconds == 600
    assert spec(retryInterval="30s").retry_seconds == 30


def test_one_source_is_mounted_at_the_root() -> None:
    mounts = spec(sourceRef={"kind": "GitRepository", "name": "fleet"}).mounts

    assert {path: ref.name for path, ref in mounts.items()} == {"": "fleet"}


def test_further_sources_are_mounted_at_their_paths_after_the_root() -> None:
    mounts = spec(
        sourceRefs=[
            {"kind": "Bucket", "name": "b", "path": "vendor/b", "namespace": "shared"},
            {"kind": "OCIRepository", "name": "o", "path": "vendor/o"},
        ],
        sourceRef={"kind": "GitRepository", "name": "fleet"},
    ).mounts

    assert list(mounts) == ["", "vendor/b", "vendor/o"]
    assert mounts["vendor/b"] == kustomize.SourceReference(
        kind="Bucket", name="b", namespace="shared"
    )


def test_without_a_root_only_the_mounted_sources_count() -> None:
    mounts = spec(sourceRefs=[{"kind": "Bucket", "name": "b", "path": "b"}]).mounts

    assert list(mounts) == ["b"]


@pytest.mark.parametrize(
    "path", ["", "/abs", "../up", "a/../b", "./a", "a//b", "a/", ".git", "a/.."]
)
def test_a_mount_point_that_could_leave_the_tree_is_refused(path: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=r"path"):
        spec(sourceRefs=[{"kind": "Bucket", "name": "b", "path": path}])


def test_an_explicit_null_in_a_json_patch_is_kept() -> None:
    operations = [{"op": "add", "path": "/a", "value": None}, {"op": "remove", "path": "/b"}]
    patch = {"patch": operations, "target": {"kind": "ConfigMap"}}

    encoded = msgspec.to_builtins(spec(patchesJson6902=[patch]))

    assert encoded["patchesJson6902"] == [patch]


def test_fields_that_v1_dropped_upstream_survive() -> None:
    dropped = {
        "validation": "client",
        "patchesStrategicMerge": [{"kind": "ConfigMap", "data": {"a": "b"}}],
    }

    encoded = msgspec.to_builtins(spec(**dropped))

    assert dropped.items() <= encoded.items()


def test_fields_that_no_version_knows_are_ignored() -> None:
    raw = b'{"metadata":{"name":"a","x":1},"spec":{"interval":"1m","prune":false,"new":{"a":1}}}'

    decoded = msgspec.json.decode(raw, type=kustomize.Kustomization)

    assert decoded.spec == kustomize.KustomizationSpec(interval="1m", prune=False)
