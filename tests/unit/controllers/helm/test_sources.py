"""Where a HelmRelease may take its chart from, and what it is told otherwise."""

from typing import Any

import msgspec
import pytest

from controllers.helm import uses
from controllers.helm.deciding import charttemplate
from controllers.helm.sources import ChartReader
from crds.helm import HelmRelease
from crds.source_helm import HelmChart
from tests.fakes import granting
from tests.fakes.granting import AnySource, allowing
from tests.fakes.releases import release
from toolkit.errors import AccessDeniedError, StalledError, WaitingError
from toolkit.objects import GroupVersionKind, Json, ObjectKey
from toolkit.policy import origins

GVK = GroupVersionKind("source.toolkit.fluxcd.io", "v1", "HelmChart")
TEMPLATE: Json = {
    "chartRef": None,
    "chart": {"spec": {"chart": "shop", "sourceRef": {"kind": "HelmRepository", "name": "charts"}}},
}
ELSEWHERE: Json = {
    "chartRef": None,
    "chart": {
        "spec": {
            "chart": "shop",
            "sourceRef": {"kind": "HelmRepository", "name": "charts", "namespace": "shared"},
        }
    },
}
REF = {"chartRef": {"kind": "HelmChart", "name": "shop"}}
OTHERS = {"chartRef": {"kind": "HelmChart", "name": "shop", "namespace": "shared"}}


def chart(namespace: str, name: str, spec: Json | None = None, **metadata: str) -> HelmChart:
    """Return a HelmChart, by default the one of ``TEMPLATE``."""
    artifact = {
        "digest": "sha256:" + "0" * 64,
        "lastUpdateTime": "2026-01-01T00:00:00Z",
        "path": f"helmchart/{namespace}/{name}/x.tgz",
        "revision": "1.0.0",
        "url": "http://x.test/x.tgz",
        "metadata": metadata,
    }
    return msgspec.convert(
        {
            "kind": "HelmChart",
            "metadata": {"namespace": namespace, "name": name, "generation": 1},
            "spec": {**desired(release(spec=TEMPLATE)), **(spec or {})},
            "status": {"observedGeneration": 1, "artifact": artifact},
        },
        HelmChart,
    )


def desired(obj: HelmRelease) -> Json:
    """Return the spec of the HelmChart that a HelmRelease makes."""
    wanted = charttemplate.desired(obj)
    assert wanted is not None
    spec: Json = wanted["spec"]
    return spec


def reader(*charts: HelmChart, refused: str = "", grants: Any = ()) -> ChartReader:
    found = {ObjectKey(c.metadata.namespace, c.metadata.name): c for c in charts}
    return ChartReader(
        {"HelmChart": (GVK, found.get)},
        policy=allowing(*grants),
        sources=AnySource(*([refused] if refused else [])),
    )


def grant(kind: str, name: str) -> Any:
    return granting.grant(
        "shared",
        of={"group": "helm.toolkit.fluxcd.io", "kind": "HelmRelease", "namespace": "team"},
        to={"group": granting.SOURCE, "kind": kind, "name": name},
    )


def test_chart_of_a_template_is_the_one_beside_its_source() -> None:
    found = reader(chart("team", "team-app")).resolve(release(spec=TEMPLATE))

    assert str(found.ref) == "HelmChart/team/team-app"
    assert found.owner.path == "helmchart/team/team-app"


@pytest.mark.parametrize(
    "changed",
    [
        {"chart": "other"},
        {"version": "2.x"},
        {"valuesFiles": ["values-dev.yaml"]},
        {"valuesFile": "values-dev.yaml"},
        {"ignoreMissingValuesFiles": True},
        {"reconcileStrategy": "Revision"},
        {"suspend": True},
        {"sourceRef": {"kind": "GitRepository", "name": "charts"}},
        {"verify": {"provider": "cosign"}},
    ],
    ids=lambda changed: next(iter(changed)),
)
def test_chart_that_others_have_chosen_is_not_used(changed: Json) -> None:
    there = reader(chart("team", "team-app", changed))

    with pytest.raises(WaitingError, match=r"its spec differs from spec\.chart") as caught:
        there.resolve(release(spec=TEMPLATE))

    assert caught.value.retry_after == 1.0


def test_interval_of_a_chart_chooses_no_content() -> None:
    there = reader(chart("team", "team-app", {"interval": "1h"}))

    assert there.resolve(release(spec=TEMPLATE)).artifact


def test_chart_that_was_made_for_another_spec_is_not_used() -> None:
    """The spec was corrected, but the source controller could not make the chart again yet."""
    now, before = (chart("team", "team-app", spec) for spec in ({}, {"chart": "other"}))
    made = {
        name: origins.record(origins.own(msgspec.to_builtins(each)), ())
        for name, each in (("now", now), ("before", before))
    }

    with pytest.raises(WaitingError, match="its artifact was made for another spec"):
        reader(chart("team", "team-app", **{origins.RECORD: made["before"]})).resolve(
            release(spec=TEMPLATE)
        )
    current = chart("team", "team-app", **{origins.RECORD: made["now"]})
    assert reader(current).resolve(release(spec=TEMPLATE)).artifact == current.status.artifact


def test_chart_of_a_reference_may_have_any_spec() -> None:
    found = reader(chart("team", "shop", {"chart": "other"})).resolve(release(spec=REF))

    assert str(found.ref) == "HelmChart/team/shop"


@pytest.mark.parametrize("spec", [ELSEWHERE, OTHERS], ids=["chart", "chartRef"])
def test_source_of_another_namespace_needs_a_grant(spec: Json) -> None:
    there = reader(chart("shared", "team-app"), chart("shared", "shop"))

    with pytest.raises(AccessDeniedError, match="no ReferenceGrant in namespace 'shared'"):
        there.resolve(release(spec=spec))


@pytest.mark.parametrize("spec", [ELSEWHERE, OTHERS], ids=["chart", "chartRef"])
def test_denial_does_not_tell_whether_the_source_exists(spec: Json) -> None:
    with pytest.raises(AccessDeniedError, match="no ReferenceGrant in namespace 'shared'"):
        reader().resolve(release(spec=spec))


@pytest.mark.parametrize(
    ("spec", "kind", "name"),
    [(ELSEWHERE, "HelmRepository", "charts"), (OTHERS, "HelmChart", "shop")],
    ids=["chart", "chartRef"],
)
def test_grant_for_what_the_spec_names_is_enough(spec: Json, kind: str, name: str) -> None:
    there = reader(chart("shared", "team-app"), chart("shared", "shop"), grants=[grant(kind, name)])

    assert there.resolve(release(spec=spec)).ref.namespace == "shared"


def test_source_that_a_policy_forbids_is_refused() -> None:
    with pytest.raises(AccessDeniedError, match="'shop' is forbidden"):
        reader(chart("team", "shop"), refused="shop").resolve(release(spec=REF))


def test_artifact_that_a_policy_forbids_is_refused() -> None:
    signed = chart("team", "shop", **{"verify.penstock.dev/identity": "mallory"})

    with pytest.raises(AccessDeniedError, match="somebody else must sign"):
        reader(signed, refused="mallory").resolve(release(spec=REF))


def test_missing_source_is_waited_for() -> None:
    with pytest.raises(WaitingError, match="HelmChart 'team/shop' not found") as caught:
        reader().resolve(release(spec=REF))
    assert caught.value.reason == "ArtifactFailed"


def test_helmchart_that_was_just_created_has_no_artifact_yet() -> None:
    with pytest.raises(WaitingError) as caught:
        reader().resolve(release(spec=TEMPLATE))
    message = "HelmChart 'team/team-app' is not ready: does not have an artifact"
    assert (str(caught.value), caught.value.reason) == (message, "SourceNotReady")


def test_kind_that_is_not_served_stalls() -> None:
    spec = {"chartRef": {"kind": "OCIRepository", "name": "shop"}}

    with pytest.raises(StalledError, match="'OCIRepository'"):
        reader().resolve(release(spec=spec))
    assert uses.used(release(spec=spec), reader()).sources == ()


def test_what_wakes_a_release_are_its_chart_and_the_source_that_needs_a_grant() -> None:
    found = uses.used(release(spec=ELSEWHERE), reader())

    assert [str(ref) for ref in found.sources] == [
        "HelmChart/shared/team-app",
        "HelmChart/shared/helmrelease.team.app",
        "HelmRepository/shared/charts",
    ]
