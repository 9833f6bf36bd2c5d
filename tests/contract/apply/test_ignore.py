"""Fields that are left to other writers."""

from dataclasses import replace
from typing import Any

import pytest

from toolkit.apply.ignore import IgnoreRule
from toolkit.apply.selector import Selector
from toolkit.objects import Json, dig, gvk_of


@pytest.fixture
def lenient(options: Any) -> Any:
    deployments = Selector(kind="Deployment")
    paths = ("/spec/replicas", "/spec/template/spec/containers/0/image")
    return replace(options, ignore=(IgnoreRule(paths=paths, target=deployments),))


async def _spec(api: Any, obj: Json) -> Json:
    meta = obj["metadata"]
    live = await api.get(gvk_of(obj), meta["name"], meta["namespace"])
    return {
        "replicas": dig(live, "spec", "replicas"),
        "image": dig(live, "spec", "template", "spec", "containers")[-1]["image"],
    }


async def test_a_new_object_gets_the_manifests_values(
    apply: Any, make: Any, api: Any, lenient: Any
) -> None:
    manifest = make.deployment(replicas=2)

    await apply(manifest, options=lenient)

    assert await _spec(api, manifest) == {"replicas": 2, "image": "nginx:1"}


async def test_a_field_that_another_manager_owns_is_left_alone(
    apply: Any, make: Any, api: Any, cluster: Any, lenient: Any
) -> None:
    manifest = make.deployment(replicas=2)
    await apply(manifest, options=lenient)
    cluster("scale", "deployment/web", "--replicas=5")

    changes = await apply(make.deployment(replicas=3, paused=True), options=lenient)

    assert (await _spec(api, manifest))["replicas"] == 5
    assert [entry.action for entry in changes.entries] == ["configured"]


async def test_a_field_that_nobody_else_owns_keeps_its_live_value(
    apply: Any, make: Any, api: Any, lenient: Any
) -> None:
    await apply(make.deployment(replicas=2), options=lenient)

    await apply(make.deployment(replicas=4, image="nginx:9"), options=lenient)

    assert await _spec(api, make.deployment()) == {"replicas": 2, "image": "nginx:1"}


async def test_a_container_is_found_by_its_name_wherever_it_stands(
    apply: Any, make: Any, api: Any, lenient: Any
) -> None:
    manifest = make.deployment()
    await apply(manifest, options=lenient)
    live = await api.get(gvk_of(manifest), "web", manifest["metadata"]["namespace"])
    sidecar = {**live["spec"]["template"]["spec"]["containers"][0], "name": "sidecar"}
    own = {**sidecar, "name": "web", "image": "nginx:patched"}
    await api.patch(
        *(gvk_of(manifest), "web", manifest["metadata"]["namespace"]),
        [{"op": "replace", "path": "/spec/template/spec/containers", "value": [sidecar, own]}],
        strategy="json",
        manager="injector",
    )

    await apply(make.deployment(image="nginx:2"), options=lenient)

    assert (await _spec(api, manifest))["image"] == "nginx:patched"


async def test_other_objects_are_not_concerned(
    apply: Any, make: Any, api: Any, lenient: Any
) -> None:
    await apply(make.config_map(key="one"), options=lenient)

    await apply(make.config_map(key="two"), options=lenient)

    live = await api.get(gvk_of(make.config_map()), "conf", make.namespace)
    assert live["data"] == {"key": "two"}
