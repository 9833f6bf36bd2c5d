"""What an object is made from."""

from typing import Any

import pytest

from cli import origins
from toolkit.objects import Json, ObjectKey


def obj(kind: str, **spec: Any) -> Json:
    return {"kind": kind, "metadata": {"name": "app", "namespace": "shop"}, "spec": spec}


REPOSITORY = {"kind": "HelmRepository", "name": "charts"}


@pytest.mark.parametrize(
    ("made", "found"),
    [
        (
            obj(
                "Kustomization",
                sourceRef={"kind": "GitRepository", "name": "fleet", "namespace": "flux-system"},
                sourceRefs=[{"kind": "Bucket", "name": "more", "path": "more"}],
            ),
            [("GitRepository", "flux-system", "fleet"), ("Bucket", "shop", "more")],
        ),
        (obj("Kustomization", sourceRef=None), []),
        (
            obj("HelmRelease", chart={"spec": {"chart": "app", "sourceRef": REPOSITORY}}),
            [("HelmChart", "shop", "shop-app")],
        ),
        (
            obj(
                "HelmRelease",
                chart={"spec": {"chart": "app", "sourceRef": REPOSITORY | {"namespace": "infra"}}},
            ),
            [("HelmChart", "infra", "shop-app")],
        ),
        (
            obj("HelmRelease", chartRef={"kind": "OCIRepository", "name": "app"}),
            [("OCIRepository", "shop", "app")],
        ),
        (obj("HelmChart", sourceRef=REPOSITORY), [("HelmRepository", "shop", "charts")]),
        (obj("GitRepository", url="https://git.example/app"), []),
    ],
)
def test_references_lead_to_the_nearest_sources(
    made: Json, found: list[tuple[str, str, str]]
) -> None:
    assert origins.references(made) == tuple(
        (kind, ObjectKey(namespace, name)) for kind, namespace, name in found
    )


def test_a_chart_alone_is_made_from_another_source() -> None:
    kinds = ("HelmChart", "HelmRepository", "GitRepository", "OCIRepository")

    assert [kind for kind in kinds if origins.derived(kind)] == ["HelmChart"]
