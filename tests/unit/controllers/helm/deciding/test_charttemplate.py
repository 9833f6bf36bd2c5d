"""The HelmChart of a release is the one that Flux would make (``helmchart_template_test.go``)."""

from typing import Any

import pytest

from controllers.helm.deciding import charttemplate
from tests.fakes.releases import release
from toolkit.errors import AccessDeniedError
from toolkit.objects import ObjectKey

Json = dict[str, Any]


def chart(**spec: Any) -> Json:
    source = {"kind": "HelmRepository", "name": "charts"}
    return {"chartRef": None, "chart": {"spec": {"chart": "shop", "sourceRef": source, **spec}}}


FAR = {"kind": "GitRepository", "name": "apps", "namespace": "far"}


def test_a_chart_stands_beside_its_source_and_names_its_owner() -> None:
    assert charttemplate.desired(release(spec=chart())) == {
        "apiVersion": "source.toolkit.fluxcd.io/v1",
        "kind": "HelmChart",
        "metadata": {
            "name": "team-app",
            "namespace": "team",
            "labels": {
                "helm.toolkit.fluxcd.io/name": "app",
                "helm.toolkit.fluxcd.io/namespace": "team",
            },
        },
        "spec": {
            "chart": "shop",
            "version": "*",
            "sourceRef": {"kind": "HelmRepository", "name": "charts"},
            "interval": "5m",
            "reconcileStrategy": "ChartVersion",
        },
    }
    assert charttemplate.key(release(spec=chart(sourceRef=FAR))) == ObjectKey("far", "team-app")


def test_every_field_of_the_template_is_taken() -> None:
    spec = chart(
        version="1.x",
        sourceRef=FAR,
        interval="1h",
        reconcileStrategy="Revision",
        valuesFile="a.yaml",
        valuesFiles=["b.yaml"],
        ignoreMissingValuesFiles=True,
        verify={"provider": "notation", "secretRef": {"name": "keys"}},
    )
    owner = "helm.toolkit.fluxcd.io/name"
    spec["chart"]["metadata"] = {"labels": {"a": "b", owner: "x"}, "annotations": {"c": "d"}}

    found = charttemplate.desired(release(spec=spec))

    assert found is not None
    assert found["metadata"]["annotations"] == {"c": "d"}
    assert found["metadata"]["labels"] == {
        "a": "b",
        owner: "app",
        "helm.toolkit.fluxcd.io/namespace": "team",
    }
    assert found["spec"] == {
        "chart": "shop",
        "version": "1.x",
        "sourceRef": {"kind": "GitRepository", "name": "apps"},
        "interval": "1h",
        "reconcileStrategy": "Revision",
        "valuesFile": "a.yaml",
        "valuesFiles": ["b.yaml"],
        "ignoreMissingValuesFiles": True,
        "verify": {"provider": "notation", "secretRef": {"name": "keys"}},
    }


def test_signatures_are_demanded_of_cosign_where_nothing_else_is_said() -> None:
    found = charttemplate.desired(release(spec=chart(verify={})))

    assert found is not None
    assert found["spec"]["verify"] == {"provider": "cosign"}


def test_a_chart_of_somebody_else_is_not_made() -> None:
    assert charttemplate.desired(release()) is None
    assert charttemplate.key(release()) is None


@pytest.mark.parametrize(
    ("spec", "made", "stale"),
    [
        (chart(), "", None),
        (chart(), "team/team-app", None),
        (chart(sourceRef=FAR), "team/team-app", ObjectKey("team", "team-app")),
        ({}, "team/team-app", ObjectKey("team", "team-app")),
        ({"suspend": True}, "team/team-app", None),
    ],
)
def test_a_chart_of_another_place_is_deleted(
    spec: Json, made: str, stale: ObjectKey | None
) -> None:
    assert charttemplate.stale(release(spec=spec, status={"helmChart": made})) == stale


def test_a_chart_goes_with_its_owner() -> None:
    obj = release(spec=chart(), status={"helmChart": "team/team-app"}, deleted=True)

    assert charttemplate.stale(obj) == ObjectKey("team", "team-app")


def test_a_chart_of_another_release_is_not_taken() -> None:
    mine = release(spec=chart())
    made = charttemplate.desired(mine)
    assert made is not None

    charttemplate.require_owned(None, mine)
    charttemplate.require_owned(made, mine)
    charttemplate.require_owned({"metadata": {"name": "team-app", "namespace": "team"}}, mine)
    made["metadata"]["labels"] = {
        "helm.toolkit.fluxcd.io/name": "team-app",
        "helm.toolkit.fluxcd.io/namespace": "a",
    }
    with pytest.raises(AccessDeniedError) as caught:
        charttemplate.require_owned(made, mine)

    # who the other one is stays untold: it may be of another tenant
    assert str(caught.value) == (
        "HelmChart 'team/team-app' belongs to another HelmRelease: give this one another name"
    )


def test_events_tell_the_chart_and_its_source() -> None:
    template = release(spec=chart()).spec.chart
    assert template is not None
    place = ObjectKey("team", "team-app")

    assert charttemplate.applied_message("created", place, template) == (
        "Created HelmChart/team/team-app with SourceRef 'HelmRepository/team/charts'"
    )
    assert charttemplate.deleted_message(place) == "deleted HelmChart 'team/team-app'"
