"""Deleting what has left the build."""

import json
from typing import Any

import pytest

from tests.contract.apply.conftest import permitted
from toolkit.apply import prune
from toolkit.apply.options import MANAGER
from toolkit.apply.ownership import KUSTOMIZE_GROUP, Owner
from toolkit.apply.projection import Live, Projector
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


async def _shown(api: Client, ref: ObjectRef) -> Live:
    """Return the object as a watch shows it now."""
    projector = Projector(gvk=ref.gvk, manager=MANAGER, group=KUSTOMIZE_GROUP)
    return projector.project(await api.get(ref.gvk, ref.name, ref.namespace))


async def test_what_the_watches_show_is_deleted_without_a_read(
    apply: Any, make: Any, api: Client, wire: Any, owner: Owner
) -> None:
    changes = await apply(make.config_map(), make.account())
    shown = {ref: await _shown(api, ref) for ref in changes.refs}
    wire.sent.clear()

    pruned = await prune.prune(api, changes.refs, owner=owner, find=shown.get)

    assert wire.sent == ["DELETE", "DELETE"]
    assert set(pruned.deleted) == set(changes.refs)
    assert await prune.remaining(api, changes.refs) == ()


@pytest.mark.parametrize(
    ("metadata", "fate"),
    [
        ({"annotations": {f"{KUSTOMIZE_GROUP}/prune": "disabled"}}, "protected"),
        ({"labels": {f"{KUSTOMIZE_GROUP}/reconcile": "Disabled"}}, "protected"),
        ({"labels": {f"{KUSTOMIZE_GROUP}/name": "other"}}, "released"),
        ({"annotations": {"example.com/note": "changed"}}, "deleted"),
    ],
)
async def test_what_changed_since_the_watches_showed_it_is_judged_as_it_is(
    apply: Any, make: Any, api: Client, owner: Owner, *, metadata: Json, fate: str
) -> None:
    changes = await apply(make.config_map())
    (ref,) = changes.refs
    shown = await _shown(api, ref)
    await api.patch(ref.gvk, ref.name, ref.namespace, {"metadata": metadata}, strategy="merge")

    pruned = await prune.prune(api, [ref], owner=owner, find=lambda _: shown)

    assert getattr(pruned, fate) == (ref,)
    assert (await prune.remaining(api, [ref]) == ()) is (fate == "deleted")


async def test_a_namesake_of_what_the_watches_showed_is_not_deleted_for_it(
    apply: Any, make: Any, api: Client, owner: Owner
) -> None:
    changes = await apply(make.config_map())
    (ref,) = changes.refs
    shown = await _shown(api, ref)
    await api.delete(ref.gvk, ref.name, ref.namespace)
    await api.create(make("v1", "ConfigMap", ref.name))

    pruned = await prune.prune(api, [ref], owner=owner, find=lambda _: shown)

    assert pruned.released == (ref,)
    assert await prune.remaining(api, [ref]) == (ref,)


@pytest.mark.parametrize(
    "metadata",
    [
        {"annotations": {f"{KUSTOMIZE_GROUP}/prune": "Disabled"}},
        {"labels": {f"{KUSTOMIZE_GROUP}/name": "other"}},
    ],
)
async def test_what_the_watches_show_protected_or_released_is_not_deleted(
    apply: Any, make: Any, api: Client, owner: Owner, metadata: Json
) -> None:
    changes = await apply(make.config_map())
    (ref,) = changes.refs
    await api.patch(ref.gvk, ref.name, ref.namespace, {"metadata": metadata}, strategy="merge")
    shown = await _shown(api, ref)

    pruned = await prune.prune(api, [ref], owner=owner, find=lambda _: shown)

    assert pruned.deleted == ()
    assert await prune.remaining(api, [ref]) == (ref,)


async def test_what_the_watches_show_leaving_tells_what_holds_it(
    apply: Any, make: Any, api: Client, owner: Owner
) -> None:
    held = make.config_map()
    held["metadata"]["finalizers"] = ["example.com/hold"]
    (ref,) = (await apply(held)).refs
    await prune.prune(api, [ref], owner=owner)
    shown = await _shown(api, ref)

    pruned = await prune.prune(api, [ref], owner=owner, find=lambda _: shown)
    freed: Json = {"metadata": {"finalizers": None}}
    await api.patch(ref.gvk, ref.name, ref.namespace, freed, strategy="merge")

    assert pruned.held == ((ref, ("example.com/hold",)),)
