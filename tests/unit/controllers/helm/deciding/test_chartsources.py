"""A chart is used when its source is ready, and counts as another version with other content."""

from typing import Any

import msgspec
import pytest

from controllers.helm.deciding import chartsources, progress
from controllers.helm.deciding.chartsources import ChartMutateError, Version
from controllers.helm.deciding.decisions import Action
from crds.source_helm import HelmChart
from tests.fakes.releases import release
from toolkit.errors import WaitingError
from toolkit.objects import ObjectKey

Json = dict[str, Any]

HEX = "0123456789abcdef" * 4
DIGEST = f"sha256:{HEX}"
ARTIFACT: Json = {
    "digest": DIGEST,
    "lastUpdateTime": "2026-01-01T00:00:00Z",
    "path": "p",
    "revision": "1.0.0",
    "url": "http://store/p",
}


def source(**status: Any) -> HelmChart:
    return msgspec.convert(
        {
            "metadata": {"namespace": "team", "name": "team-app", "generation": 2},
            "status": {"observedGeneration": 2, **status},
        },
        HelmChart,
    )


def condition(kind: str, status: str, reason: str = "R") -> Json:
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": "the index cannot be fetched",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }


@pytest.mark.parametrize("reason", ["VerificationError", "AuthenticationFailed", "New"])
def test_another_namespace_is_not_told_about_secrets(reason: str) -> None:
    failed = source(conditions=[condition("Stalled", "True", reason)])
    unseen = source(conditions=[condition("Ready", "False", reason)], observedGeneration=1)

    for found in (failed, unseen):
        with pytest.raises(WaitingError) as caught:
            chartsources.artifact("HelmChart", found, reader="tenant")
        assert str(caught.value) == (
            "HelmChart 'team/team-app' is not ready: its conditions, in the namespace of the"
            " source, say why"
        )
        with pytest.raises(WaitingError, match="the index cannot be fetched"):
            chartsources.artifact("HelmChart", found, reader="team")


def test_another_namespace_is_told_about_the_chart() -> None:
    found = source(conditions=[condition("Stalled", "True", "InvalidChartReference")])

    with pytest.raises(WaitingError, match="the index cannot be fetched"):
        chartsources.artifact("HelmChart", found, reader="tenant")


def test_a_ready_source_gives_its_artifact() -> None:
    found = chartsources.artifact("HelmChart", source(artifact=ARTIFACT), reader="team")

    assert found.revision == "1.0.0"


@pytest.mark.parametrize(
    ("kind", "status", "why"),
    [
        ("HelmChart", {}, "does not have an artifact"),
        (
            "HelmChart",
            {"observedGeneration": 1, "artifact": ARTIFACT},
            "latest generation of object has not been reconciled",
        ),
        (
            "HelmChart",
            {"observedGeneration": 1, "conditions": [condition("Ready", "False")]},
            "the index cannot be fetched",
        ),
        (
            "OCIRepository",
            {"artifact": ARTIFACT, "conditions": [condition("Stalled", "True")]},
            "the index cannot be fetched",
        ),
        ("ExternalArtifact", {}, "does not have an artifact"),
    ],
)
def test_a_source_that_is_not_ready_is_waited_for(kind: str, status: Json, why: str) -> None:
    with pytest.raises(WaitingError) as caught:
        chartsources.artifact(kind, source(**status), reader="team")

    assert caught.value.reason == "SourceNotReady"
    assert str(caught.value) == f"{kind} 'team/team-app' is not ready: {why}"


def test_an_artifact_of_others_is_ready_when_it_is_there() -> None:
    found = source(observedGeneration=0, artifact=ARTIFACT)

    assert chartsources.artifact("ExternalArtifact", found, reader="team").digest == DIGEST


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (
            {"chartRef": {"kind": "OCIRepository", "name": "o"}},
            ("OCIRepository", ObjectKey("team", "o")),
        ),
        (
            {"chartRef": {"kind": "HelmChart", "name": "c", "namespace": "far"}},
            ("HelmChart", ObjectKey("far", "c")),
        ),
        (
            {
                "chartRef": None,
                "chart": {
                    "spec": {"chart": "x", "sourceRef": {"kind": "Bucket", "name": "b"}},
                },
            },
            ("HelmChart", ObjectKey("team", "team-app")),
        ),
        ({"chartRef": None}, None),
    ],
)
def test_a_release_names_its_source(spec: Json, expected: object) -> None:
    assert chartsources.source(release(spec=spec)) == expected


@pytest.mark.parametrize(
    ("chart", "kind", "revision", "expected"),
    [
        ("1.2.3", "HelmChart", "1.2.3", Version(version="1.2.3")),
        (
            "1.2.3",
            "OCIRepository",
            f"1.2.3@{DIGEST}",
            Version(version="1.2.3+0123456789ab", oci_digest=DIGEST),
        ),
        (
            "1.2.3+build",
            "OCIRepository",
            f"1.2.3_build@{DIGEST}",
            Version(version="1.2.3+0123456789ab", oci_digest=DIGEST),
        ),
        (
            "1.2.3",
            "OCIRepository",
            f"latest@{DIGEST}",
            Version(version="1.2.3+0123456789ab", oci_digest=DIGEST),
        ),
        (
            "1.2.3",
            "OCIRepository",
            DIGEST,
            Version(version="1.2.3+0123456789ab", oci_digest=DIGEST),
        ),
        ("1.2.3", "ExternalArtifact", "7", Version(version="1.2.3")),
        (
            "1.2.3",
            "ExternalArtifact",
            DIGEST,
            Version(version="1.2.3+0123456789ab", oci_digest=DIGEST),
        ),
    ],
)
def test_a_digest_is_part_of_the_version(
    chart: str, kind: str, revision: str, expected: Version
) -> None:
    assert chartsources.released(chart, kind, revision) == expected


def test_digests_are_told_and_not_tracked_where_the_gate_says_so() -> None:
    found = chartsources.released("1.2.3", "OCIRepository", f"1.2.3@{DIGEST}", tracks=False)

    assert found == Version(version="1.2.3", oci_digest=DIGEST)


@pytest.mark.parametrize(
    ("chart", "revision", "words"),
    [
        ("1.2.4", f"1.2.3@{DIGEST}", "artifact revision 1.2.3 does not match chart version 1.2.4"),
        ("one", DIGEST, "invalid chart version one"),
        ("1.2.3", "1.2.3", "invalid artifact revision 1.2.3"),
        ("1.2.3", "latest@sha256:01", "invalid artifact revision latest@sha256:01"),
        ("1.2.3", f"latest@a:b:{HEX}", "invalid artifact revision"),
        ("1.2.3", "sha256:../../../../..", "invalid artifact revision"),
    ],
)
def test_a_revision_of_another_version_is_refused(chart: str, revision: str, words: str) -> None:
    with pytest.raises(ChartMutateError) as caught:
        chartsources.released(chart, "OCIRepository", revision)

    assert caught.value.reason == "ChartMutateError"
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("action", "told"),
    [
        (Action.INSTALL, "Running 'install' action with timeout of 2m0s"),
        (Action.ROLLBACK, "Running 'rollback' action with timeout of 5m0s"),
        (Action.CORRECT, "Running 'correct cluster drift' action with timeout of 5m0s"),
    ],
)
def test_an_action_under_way_is_told(action: Action, told: str) -> None:
    assert progress.running(release(spec={"install": {"timeout": "2m"}}), action) == told


def test_the_next_attempt_is_told() -> None:
    assert progress.retrying(300) == "retrying after 5m0s"
