"""Labels and annotations that tell us what not to do."""

from typing import Any

import pytest

from toolkit.objects import dig


def _data(cluster: Any) -> str:
    return str(cluster("get", "configmap", "conf", "-o", "jsonpath={.data.key}"))


@pytest.mark.parametrize("mark", [{"reconcile": "disabled"}, {"ssa": "Ignore"}, {"ssa": "ignore"}])
async def test_a_manifest_that_wants_to_be_left_alone_is_not_asked_about(
    apply: Any, make: Any, wire: Any, mark: dict[str, str]
) -> None:
    changes = await apply(make.marked(make.config_map(), **mark))

    assert wire.sent == []
    assert changes.lines == (f"ConfigMap/{make.namespace}/conf skipped",)
    assert changes.known == {}
    assert changes.refs == ()
    assert [ref.name for ref in changes.left] == ["conf"]


@pytest.mark.parametrize("place", ["label", "annotate"])
async def test_a_live_object_that_wants_to_be_left_alone_is_not_written(
    apply: Any, make: Any, cluster: Any, wire: Any, place: str
) -> None:
    await apply(make.config_map(key="before"))
    cluster(
        *(place, "configmap", "conf"),
        "kustomize.toolkit.fluxcd.io/reconcile=Disabled",
    )
    wire.sent.clear()

    changes = await apply(make.config_map(key="after"))

    assert wire.sent == ["PATCH dry"]
    assert [entry.action for entry in changes.entries] == ["skipped"]
    assert [ref.name for ref in changes.refs] == ["conf"]
    assert _data(cluster) == "before"


async def test_a_live_object_that_wants_to_be_left_alone_may_be_unfit_for_the_manifest(
    apply: Any, make: Any, cluster: Any
) -> None:
    await apply(make.deployment())
    cluster(
        *("annotate", "deployment", "web"),
        "kustomize.toolkit.fluxcd.io/reconcile=disabled",
    )
    other = make.deployment()
    other["spec"]["selector"] = {"matchLabels": {"app": "web", "new": "label"}}
    other["spec"]["template"]["metadata"]["labels"] = {"app": "web", "new": "label"}

    changes = await apply(other)

    assert [entry.action for entry in changes.entries] == ["skipped"]


async def test_if_not_present_creates_once_and_never_touches_again(
    apply: Any, make: Any, cluster: Any, wire: Any
) -> None:
    once = make.marked(make.config_map(key="first"), ssa="IfNotPresent")
    created = await apply(once)
    cluster("patch", "configmap", "conf", "-p", '{"data":{"key":"edited"}}')
    wire.sent.clear()

    again = await apply(make.marked(make.config_map(key="second"), ssa="IfNotPresent"))

    assert created.entries[0].action == "created"
    assert again.entries[0].action == "skipped"
    assert wire.sent == ["GET"]
    assert _data(cluster) == "edited"


async def test_common_metadata_and_owner_labels_are_on_the_object(
    apply: Any, make: Any, api: Any
) -> None:
    changes = await apply(make.config_map())

    live = await api.get(changes.refs[0].gvk, "conf", make.namespace)

    assert dig(live, "metadata", "labels") == {
        "kustomize.toolkit.fluxcd.io/name": "app",
        "kustomize.toolkit.fluxcd.io/namespace": make.namespace,
    }
