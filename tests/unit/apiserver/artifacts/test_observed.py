"""What is read of objects, no matter who wrote them."""

from typing import Any

import msgspec
import pytest

from apiserver.artifacts import observed
from apiserver.artifacts.observed import Use
from crds import EXTERNAL_ARTIFACT

META = {"name": "x", "namespace": "apps", "resourceVersion": "7", "uid": "u"}


def kustomization(spec: dict[str, Any], revision: str) -> tuple[Use, ...]:
    obj = {"metadata": META, "spec": spec, "status": {"lastAppliedRevision": revision}}
    return observed.kustomization(msgspec.json.encode(obj)).uses


def test_the_namespace_of_a_source_is_the_users_own_unless_it_says_so() -> None:
    ref = {"kind": "GitRepository", "name": "web"}

    own = kustomization({"sourceRef": ref}, "1")
    other = kustomization({"sourceRef": ref | {"namespace": "shared"}}, "1")

    assert [use.source for use in (*own, *other)] == [
        ("GitRepository", "apps", "web"),
        ("GitRepository", "shared", "web"),
    ]


def test_revisions_of_several_sources_are_told_apart() -> None:
    mounted = [
        {"kind": "OCIRepository", "name": "lib", "path": "vendor/lib"},
        {"kind": "Bucket", "name": "data", "path": "data"},
    ]
    root = {"kind": "GitRepository", "name": "web"}
    told = "main@sha1:a, vendor/lib=v1@sha256:b, data=sha256:c"

    with_root = kustomization({"sourceRef": root, "sourceRefs": mounted}, told)
    without = kustomization({"sourceRefs": mounted}, told.partition(", ")[2])

    assert [use.applied for use in with_root] == ["main@sha1:a", "v1@sha256:b", "sha256:c"]
    assert [use.applied for use in without] == ["v1@sha256:b", "sha256:c"]


def test_a_single_source_may_have_a_revision_of_any_form() -> None:
    (use,) = kustomization({"sourceRef": {"kind": "Bucket", "name": "x"}}, "a=b, c=d")

    assert use.applied == "a=b, c=d"


def test_an_object_that_has_done_nothing_uses_nothing() -> None:
    assert kustomization({}, "") == ()


def test_a_chart_is_a_source_and_a_user() -> None:
    obj = {
        "metadata": META,
        "spec": {"sourceRef": {"kind": "HelmRepository", "name": "charts"}},
        "status": {
            "observedSourceArtifactRevision": "sha256:1",
            "artifact": {"digest": "sha256:2", "revision": "1.0.0"},
        },
    }

    source, user = observed.chart(msgspec.json.encode(obj))

    assert source.artifact is not None
    assert source.artifact.revision == "1.0.0"
    assert user.uses[0].source == ("HelmRepository", "apps", "charts")
    assert user.uses[0].applied == "sha256:1"


@pytest.mark.parametrize("artifact", [None, {"digest": "x", "metadata": None, "size": None}])
def test_a_sparse_status_is_read(artifact: dict[str, Any] | None) -> None:
    obj = {"metadata": META, "status": {"artifact": artifact}}

    source = observed.source(EXTERNAL_ARTIFACT, msgspec.json.encode(obj))

    assert source.revision == 7
    assert (source.artifact is None) == (artifact is None)


def offered(**artifact: Any) -> observed.Offered:
    obj = {"metadata": META, "status": {"artifact": {"digest": "sha256:1", **artifact}}}
    found = observed.source(EXTERNAL_ARTIFACT, msgspec.json.encode(obj)).artifact
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("told", "read"),
    [
        ("http://store.example/a", "http://store.example/a"),
        ("http://[", ""),
        ("http://[::1", ""),
        ("http://a\u2100b/", ""),
    ],
)
def test_what_cannot_be_taken_apart_is_no_url(told: str, read: str) -> None:
    assert offered(url=told).url == read


@pytest.mark.parametrize(
    ("told", "read"),
    [
        ("2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z"),
        ("2026-01-01t02:00:00.5+02:00", "2026-01-01T00:00:00Z"),
        # The API server's check of date-time lets these pass; clients in Go stop at them.
        ("2026-01-01t00:00:00zTgarbage", ""),
        ("2026-01-01", "2026-01-01T00:00:00Z"),
        ("0001-01-01T00:00:00+23:59", ""),
        ("0999-01-01T00:00:00Z", "0999-01-01T00:00:00Z"),
        ("", ""),
    ],
)
def test_times_are_written_as_clients_read_them(told: str, read: str) -> None:
    assert offered(lastUpdateTime=told).last_update_time == read


def release(spec: dict[str, Any], **status: Any) -> tuple[Use, ...]:
    metadata = {"name": "app", "namespace": "shop"}
    history = [
        {"chartVersion": "6.6.0", "status": "failed"},
        {"chartVersion": "6.5.0", "status": "deployed"},
        {"chartVersion": "6.4.0", "status": "superseded"},
    ]
    told = {"history": history, "lastAttemptedRevision": "6.6.0", **status}
    obj = {"metadata": metadata, "spec": spec, "status": told}
    return observed.helm_release(msgspec.json.encode(obj)).uses


def test_a_release_uses_the_chart_that_was_made_for_it() -> None:
    found = release({"chart": {"spec": {}}}, helmChart="infra/shop-app")

    assert found == (
        Use(source=("HelmChart", "infra", "shop-app"), applied="6.5.0", attempted="6.6.0"),
    )


def test_a_release_uses_the_source_that_it_names() -> None:
    ref = {"kind": "HelmChart", "name": "podinfo"}

    own = release({"chartRef": ref}, helmChart="shop/shop-app")
    other = release({"chartRef": ref | {"namespace": "infra"}})

    assert own[0].source == ("HelmChart", "shop", "podinfo")
    assert other[0].source == ("HelmChart", "infra", "podinfo")


def test_a_release_tells_the_digest_of_a_chart_from_a_registry() -> None:
    history = [{"chartVersion": "6.5.0+abc", "ociDigest": "sha256:abc", "status": "deployed"}]

    (use,) = release(
        {"chartRef": {"kind": "OCIRepository", "name": "podinfo"}},
        history=history,
        lastAttemptedRevision="6.6.0+def",
        lastAttemptedRevisionDigest="sha256:def",
    )

    assert use.source == ("OCIRepository", "shop", "podinfo")
    assert (use.applied, use.attempted) == ("sha256:abc", "sha256:def")


def test_a_release_without_a_chart_uses_nothing() -> None:
    assert release({"chart": {"spec": {}}}) == ()
