"""An applier applies the namespace that it lives in, but never deletes or takes it."""

import dataclasses
from typing import Any

import pytest

from toolkit.apply import prune
from toolkit.apply.options import ApplyOptions
from toolkit.apply.ownership import KUSTOMIZE_GROUP, Owner
from toolkit.apply.projection import Live, Projector
from toolkit.apply.retention import Retention
from toolkit.kube.client import Client
from toolkit.objects import GroupVersionKind, Json, ObjectRef, ref_of

NAMESPACE = GroupVersionKind("", "v1", "Namespace")


def home(namespace: str, **labels: str) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": namespace, "labels": labels},
    }


@pytest.fixture
def options(owner: Owner) -> ApplyOptions:
    return ApplyOptions(
        owner=dataclasses.replace(owner, keeps=Retention(namespaces=frozenset({owner.namespace})))
    )


async def _live(api: Client, namespace: str) -> Json:
    found = await api.get(NAMESPACE, namespace)
    assert "deletionTimestamp" not in found["metadata"]
    return found


async def test_the_namespace_is_applied_and_not_pruned(
    apply: Any, make: Any, api: Client, options: ApplyOptions
) -> None:
    changes = await apply(home(make.namespace, team="a"), make.config_map())

    pruned = await prune.prune(api, changes.refs, owner=options.owner)

    assert pruned.lines == (f"ConfigMap/{make.namespace}/conf deleted",)
    assert pruned.survivors == pruned.kept == (ObjectRef(NAMESPACE, "", make.namespace),)
    assert (await _live(api, make.namespace))["metadata"]["labels"]["team"] == "a"


async def test_the_namespace_that_a_watch_shows_is_not_pruned(
    apply: Any, make: Any, api: Client, options: ApplyOptions
) -> None:
    """A watch saves the read of an object before its deletion."""
    changes = await apply(home(make.namespace))
    projector = Projector(gvk=NAMESPACE, manager=options.manager, group=KUSTOMIZE_GROUP)
    seen = projector.project(await _live(api, make.namespace))

    def find(_: ObjectRef) -> Live:
        return seen

    pruned = await prune.prune(api, changes.refs, owner=options.owner, find=find)

    assert pruned.kept == changes.refs
    await _live(api, make.namespace)


async def test_another_namespace_is_pruned(
    apply: Any, make: Any, api: Client, options: ApplyOptions
) -> None:
    other = home(f"{make.namespace}-other")
    changes = await apply(other)

    pruned = await prune.prune(api, changes.refs, owner=options.owner)

    assert pruned.deleted == (ref_of(other),)


async def test_the_namespace_of_another_applier_is_not_taken_over(
    apply: Any, make: Any, api: Client, options: ApplyOptions
) -> None:
    """The field manager is the same, so labels of the other applier would be removed."""
    platform = dataclasses.replace(options, owner=Owner(namespace="platform", name="tenants"))
    await apply(home(make.namespace, tier="tenant"), options=platform)

    changes = await apply(home(make.namespace, tier="admin"), make.config_map())

    assert changes.skipped == (ObjectRef(NAMESPACE, "", make.namespace),)
    labels = (await _live(api, make.namespace))["metadata"]["labels"]
    assert labels["tier"] == "tenant"
    assert labels["kustomize.toolkit.fluxcd.io/name"] == "tenants"
    pruned = await prune.prune(api, changes.refs, owner=options.owner)
    assert pruned.released == changes.skipped
    await _live(api, make.namespace)
