"""What a tenant decides about a release or a namespace goes no further than its own objects."""

from typing import Any

import pytest
import yaml

from tests.e2e.conftest import (
    CONFIG_MAP,
    GIT_REPOSITORY,
    KUSTOMIZATION,
    NAMESPACE,
    Space,
    condition,
    config_map,
)
from tests.e2e.helmreleases import at, release, settings, shop
from tests.tools.waiting import until
from toolkit.apply.retention import DEFINITION
from toolkit.kube.errors import NoMatchError, NotFoundError
from toolkit.objects import GroupVersionKind, Json, dig

pytestmark = pytest.mark.asyncio(loop_scope="session")

GROUP = "policy.penstock.dev"
HELM_CHART = GroupVersionKind("source.toolkit.fluxcd.io", "v1", "HelmChart")
RENAMED = yaml.safe_dump({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "any"}})


def kept(obj: Json) -> bool:
    return any(each["type"] == "NamespaceKept" for each in obj["status"].get("conditions", ()))


async def _stays(space: Space) -> None:
    live = await space.world.api.get(NAMESPACE, space.namespace)
    assert "deletionTimestamp" not in live["metadata"]
    await space.get(CONFIG_MAP, "apart")


async def test_commit_that_drops_its_own_namespace_deletes_nothing_else(space: Space) -> None:
    """``targetNamespace`` gives every Namespace in the build this name."""
    repository = space.repository()
    first = repository.commit({"namespace.yaml": RENAMED, "a.yaml": config_map("made")})
    apart = yaml.safe_load(config_map("apart"))
    apart["metadata"]["namespace"] = space.namespace
    await space.world.apply(apart, space.source(repository), space.kustomization())
    await space.ready(revision=first)

    second = repository.commit(
        {"b.yaml": config_map("other"), "namespace.yaml": None, "a.yaml": None}
    )
    await space.request(GIT_REPOSITORY)
    dropped = await space.ready(revision=second)

    assert condition(dropped, "NamespaceKept")["reason"] == "NotDeleted"
    await _stays(space)
    with pytest.raises(NotFoundError):
        await space.get(CONFIG_MAP, "made")
    await space.world.api.delete(KUSTOMIZATION, "app", space.namespace)
    await space.world.gone(KUSTOMIZATION, space.namespace, "app")
    await _stays(space)


def _definition(plural: str) -> Json:
    """Return the definition of a kind of this test alone, in a group of ours."""
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"kind": plural.title(), "plural": plural},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
        },
    }


async def _served(space: Space, obj: Json) -> bool:
    """Apply an object, as soon as its kind is served and this client knows of it."""
    try:
        await space.world.apply(obj)
    except (NoMatchError, NotFoundError):
        return False
    return True


async def test_commit_that_drops_a_definition_of_ours_deletes_no_objects(space: Space) -> None:
    repository, plural = space.repository(), f"k{space.namespace.replace('-', '')}"
    made = GroupVersionKind(GROUP, "v1", plural.title())
    files = {"definition.yaml": yaml.safe_dump(_definition(plural)), "a.yaml": config_map("made")}
    first = repository.commit(files)
    await space.world.apply(space.source(repository), space.kustomization())
    await space.ready(revision=first)
    body = {"metadata": {"name": "one", "namespace": space.namespace}}
    one: Json = {"apiVersion": made.api_version, "kind": made.kind, **body}
    await until(lambda: _served(space, one))

    second = repository.commit({"definition.yaml": None})
    await space.request(GIT_REPOSITORY)
    dropped = await space.ready(revision=second)

    told = condition(dropped, "DefinitionKept")
    assert told["reason"] == "NotDeleted"
    assert f"CustomResourceDefinition/{plural}.{GROUP} is not deleted" in told["message"]
    assert "deletionTimestamp" not in (await space.get(made, "one"))["metadata"]

    await space.world.api.delete(made, "one", space.namespace)
    await space.request(KUSTOMIZATION)
    await space.world.gone(DEFINITION, "", f"{plural}.{GROUP}")


async def test_helmchart_that_others_change_is_corrected_and_not_released(space: Space) -> None:
    repository = space.repository()
    files = {f"charts/shop/{path}": text for path, text in shop("1.0.0").items()}
    repository.commit({**files, "charts/shop/values-dev.yaml": "colour: blue\n"})
    source: dict[str, Any] = {"kind": "GitRepository", "name": "app"}
    template = {"chart": "charts/shop", "sourceRef": source}
    await space.world.apply(space.source(repository), release(space, chart={"spec": template}))
    await at(space, "1.0.0")
    name = f"{space.namespace}-app"
    made = await space.get(HELM_CHART, name)

    def corrected(obj: Json) -> bool:
        settled = dig(obj, "status", "observedGeneration") == obj["metadata"]["generation"]
        later = obj["metadata"]["generation"] > made["metadata"]["generation"] + 1
        return settled and later and obj["spec"] == made["spec"]

    await space.world.api.patch(
        HELM_CHART,
        name,
        space.namespace,
        {"spec": {"valuesFiles": ["charts/shop/values-dev.yaml"], "suspend": True}},
        strategy="merge",
    )
    await space.world.until(HELM_CHART, space.namespace, name, corrected)

    told = await at(space, "1.0.0")
    assert (await settings(space))["colour"] == "red"
    assert told["status"]["history"][0]["version"] == 1
