"""What a release changes of the objects of the one before it."""

from typing import Any

from controllers.helm.deciding import differences
from toolkit.objects import Json


def made(name: str, version: str = "v1", **data: Any) -> Json:
    metadata = {"name": name, "namespace": "apps"}
    return {"apiVersion": version, "kind": "ConfigMap", "metadata": metadata, "data": data}


def told(before: list[Json], after: list[Json]) -> tuple[str, ...]:
    return differences.lines(differences.rendered(before), differences.rendered(after))


def test_objects_are_created_configured_and_deleted() -> None:
    before = [made("same", a=1), made("other", a=1), made("gone")]
    after = [made("new"), made("same", a=1), made("other", a=2)]

    assert told(before, after) == (
        "ConfigMap/apps/new created",
        "ConfigMap/apps/other configured",
        "ConfigMap/apps/gone deleted",
    )


def test_the_order_of_fields_is_no_change() -> None:
    assert told([made("a", x=1, y=2)], [made("a", y=2, x=1)]) == ()


def test_another_version_of_the_kind_is_the_same_object() -> None:
    assert told([made("a", "v1beta1")], [made("a", "v1")]) == ("ConfigMap/apps/a configured",)


def test_what_is_kept_holds_no_value() -> None:
    assert "hunter2" not in repr(differences.rendered([made("a", password="hunter2")]))
