"""Where the objects of a build are written."""

import pytest

from cli.check import origins
from cli.check.subjects import Place, Subject
from toolkit.objects import Json


def obj(name: str, namespace: str = "", *, origin: str = "") -> Json:
    metadata: Json = {"name": name, "namespace": namespace}
    if origin:
        metadata["annotations"] = {"config.kubernetes.io/origin": f"path: {origin}\n"}
    return {"apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease", "metadata": metadata}


WRITTEN = origins.Origins(
    [
        Subject(obj=obj("web", "blue"), place=Place(file="apps/blue.yaml", line=1, document=1)),
        Subject(obj=obj("web", "red"), place=Place(file="apps/red.yaml", line=1, document=1)),
        Subject(obj=obj("db", "red"), place=Place(file="apps/red.yaml", line=9, document=2)),
    ]
)


@pytest.mark.parametrize(
    ("built", "place"),
    [
        (obj("web", "red"), "apps/red.yaml:1"),
        (obj("web", "any", origin="../apps/red.yaml"), "apps/red.yaml:1"),
        (obj("x-db-y", "any", origin="../apps/red.yaml"), "apps/red.yaml:9"),
        (obj("web", "red", origin="generated.yaml"), ""),
        (obj("other", "red"), ""),
        (obj("web", "red", origin="[a"), "apps/red.yaml:1"),
    ],
)
def test_the_file_of_an_object_is_found(built: Json, place: str) -> None:
    assert str(WRITTEN.place(built, "overlay")) == place


def test_an_origin_that_nobody_has_asked_for_is_removed() -> None:
    built = obj("web", origin="a.yaml")

    assert "annotations" not in origins.without(built, {})["metadata"]
    assert origins.without(built, origins.asked({})) == built
