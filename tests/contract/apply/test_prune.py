"""Deleting what has left the build."""

import json
from typing import Any

import pytest

from tests.contract.apply.conftest import permitted
from toolkit.apply import prune
from toolkit.apply.ownership import Owner
from toolkit.kube.client import Client
from toolkit.objects import GroupVersionKind, Json, ObjectRef, ref_of


async def _there(api: Client, obj: Json) -> bool:
    return bool(await prune.remaining(api, [ref_of(obj)]))


async def test_objects_go_and_the_outcome_lists_them(
    apply: Any, make: Any, api: Client, owner: Owner, wire: Any
) -> None:
    changes = await apply(make.config_map(), make.account())
    wire.sent.clear()

    pruned = await prune.prune(api, changes.refs, owner=owner)

    assert pruned.lines == (
        f"ConfigMap/{make.namespace}/conf deleted",
        f"ServiceAccount/{make.namespace}/web deleted",
    )
    assert pruned.survivors == ()
    assert wire.sent == ["GET", "DELETE", "GET", "DELETE"]
    assert not await _there(api, make.config_map())


@pytest.mark.parametrize("mark", ["prune=disabled", "reconcile=disabled", "ssa=Ignore"])
async def test_a_protected_object_survives_and_stays_listed(
    apply: Any, make: Any, api: Client, owner: Owner, mark: str
) -> None:
    name, _, value = mark.partition("=")
    changes = await apply(make.config_map())
    await api.patch(
        *(changes.refs[0].gvk, "conf", owner.namespace),
        {"metadata": {"annotations": {f"kustomize.toolkit.fluxcd.io/{name}": value}}},
        strategy="merge",
    )

    pruned = await prune.prune(api, changes.refs, owner=owner)

    assert pruned.survivors == pruned.protected == changes.refs
    assert await _there(api, make.config_map())


async def test_what_somebody_else_owns_by_now_is_left_and_no_longer_listed(
    apply: Any, make: Any, api: Client, owner: Owner, cluster: Any
) -> None:
    changes = await apply(make.config_map())
    label = "kustomize.toolkit.fluxcd.io/name=other"
    cluster("label", "--overwrite", "configmap", "conf", label)

    pruned = await prune.prune(api, changes.refs, owner=owner)

    assert (pruned.released, pruned.survivors) == (changes.refs, ())
    assert await _there(api, make.config_map())


async def test_what_is_gone_already_is_no_failure(make: Any, api: Client, owner: Owner) -> None:
    unserved = ObjectRef(GroupVersionKind("gone.example.com", "v1", "Widget"), "x", "y")

    pruned = await prune.prune(api, [ref_of(make.config_map()), unserved], owner=owner)

    assert set(pruned.gone) == {ref_of(make.config_map()), unserved}
    assert pruned.lines == ()


async def test_an_object_listed_in_a_version_that_is_served_no_more_is_found(
    apply: Any, make: Any, api: Client, owner: Owner
) -> None:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    spec = {"scaleTargetRef": target, "maxReplicas": 2}
    scaler = make("autoscaling/v2", "HorizontalPodAutoscaler", "web", spec=spec)
    await apply(scaler)
    gvk = GroupVersionKind("autoscaling", "v2beta2", "HorizontalPodAutoscaler")
    listed = ObjectRef(gvk, owner.namespace, "web")

    pruned = await prune.prune(api, [listed], owner=owner)

    assert pruned.deleted == (listed,)
    assert not await _there(api, scaler)


async def test_a_failure_keeps_the_object_listed_and_the_others_going(
    apply: Any, make: Any, api: Client, owner: Owner, cluster: Any
) -> None:
    changes = await apply(make.config_map(), make.account())
    user = f"system:serviceaccount:{make.namespace}:pruner"
    role = ("--verb=get,delete", "--resource=serviceaccounts")
    cluster("create", "role", "pruner", *role)
    cluster("create", "rolebinding", "p", "--role=pruner", f"--user={user}")
    await permitted(api.impersonating(user), make.account())

    pruned = await prune.prune(api.impersonating(user), changes.refs, owner=owner)

    assert [str(ref) for ref in pruned.survivors] == [f"ConfigMap/{make.namespace}/conf"]
    assert [str(ref) for ref in pruned.deleted] == [f"ServiceAccount/{make.namespace}/web"]
    assert f"ConfigMap/{make.namespace}/conf delete failed (Forbidden): " in pruned.message
    assert "cannot get resource" in pruned.message


async def test_an_object_that_waits_for_a_finalizer_remains(
    apply: Any, make: Any, api: Client, owner: Owner, cluster: Any
) -> None:
    held = make("v1", "ConfigMap", "held", metadata={"finalizers": ["example.com/wait"]})
    changes = await apply(held)
    await prune.prune(api, changes.refs, owner=owner)

    before = await prune.remaining(api, changes.refs)
    patch = json.dumps({"metadata": {"finalizers": None}})
    cluster("patch", "configmap", "held", "-p", patch)

    assert before == changes.refs
    assert await prune.remaining(api, changes.refs) == ()


async def test_what_finalizers_hold_stays_listed_until_it_is_gone(
    apply: Any, make: Any, api: Client, owner: Owner
) -> None:
    held = make.config_map()
    held["metadata"]["finalizers"] = ["example.com/hold"]
    changes = await apply(held, make.account())

    first = await prune.prune(api, changes.refs, owner=owner)
    second = await prune.prune(api, first.survivors, owner=owner)
    freed: Json = {"metadata": {"finalizers": None}}
    await api.patch(ref_of(held).gvk, "conf", owner.namespace, freed, strategy="merge")
    third = await prune.prune(api, second.survivors, owner=owner)

    ref = ref_of(held)
    assert first.held == second.held == ((ref, ("example.com/hold",)),)
    assert (first.survivors, second.terminating, third.gone) == ((ref,), (ref,), (ref,))
    assert len(first.lines) == 2
    assert second.lines == third.survivors == ()
