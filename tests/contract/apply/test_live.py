"""Drift and health as the watches show them."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from tests.tools.waiting import SECONDS, until
from toolkit.apply.changes import Known
from toolkit.apply.health import Health, Status, rules_of
from toolkit.apply.live import LiveSet
from toolkit.apply.options import MANAGER, ApplyOptions
from toolkit.apply.order import Identity
from toolkit.apply.ownership import Owner
from toolkit.expressions.evaluator import Evaluator
from toolkit.kube.client import Client
from toolkit.objects import Json, ObjectKey, ObjectRef, gvk_of, ref_of

_CURRENT = Health(Status.CURRENT, "current expression is true")


class Watched:
    """A running live set, and what it has reported."""

    def __init__(self, api: Client, apply: Any, make: Any, evaluates: Evaluator) -> None:
        self._api = api
        self._apply = apply
        self._make = make
        self.drifts: asyncio.Queue[tuple[ObjectRef, tuple[str, ...], bool]] = asyncio.Queue()
        self.healths: asyncio.Queue[ObjectRef] = asyncio.Queue()
        self.live = LiveSet(
            api,
            manager=MANAGER,
            evaluates=evaluates,
            on_drift=self._drift,
            on_health=self._health,
        )

    def _drift(
        self, owner: ObjectKey, ref: ObjectRef, *, managers: tuple[str, ...], deleted: bool
    ) -> None:
        del owner
        self.drifts.put_nowait((ref, managers, deleted))

    def _health(self, owner: ObjectKey, ref: ObjectRef) -> None:
        del owner
        self.healths.put_nowait(ref)

    async def drift(self) -> tuple[ObjectRef, tuple[str, ...], bool]:
        async with asyncio.timeout(SECONDS):
            return await self.drifts.get()

    async def quiet(self) -> bool:
        """Tell whether nothing drifts before what is made to drift now.

        A watch tells of one change after another, so all that came before has been seen then.
        """
        marker = Owner(namespace=self._make.namespace, name="marker")
        last = self._make.config_map("marker"), self._make.deployment("marker")
        await _apply(self._apply, self, marker, *last)
        for obj in last:
            await self._api.delete(gvk_of(obj), obj["metadata"]["name"], marker.namespace)
        return {(await self.drift())[0] for _ in last} == {ref_of(obj) for obj in last}

    async def known(self, owner: Owner, count: int) -> dict[Identity, Known]:
        """Return what is seen untouched, once the watches have shown that many objects."""
        async with asyncio.timeout(SECONDS):
            while len(known := self.live.known(owner.key)) < count:  # noqa: ASYNC110 - no event
                await asyncio.sleep(0.01)
        return known

    async def until(self, owner: Owner, obj: Json, status: Status) -> None:
        async with asyncio.timeout(SECONDS):
            while True:
                health = self.live.health(owner.key, ref_of(obj))
                if health and health.status is status:
                    return
                await self.healths.get()


@pytest.fixture
async def watched(
    api: Client, apply: Any, make: Any, evaluates: Evaluator
) -> AsyncIterator[Watched]:
    made = Watched(api, apply, make, evaluates)
    async with _running(made.live):
        yield made


@contextlib.asynccontextmanager
async def _running(live: LiveSet) -> AsyncIterator[None]:
    task = asyncio.create_task(live.run())
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


@pytest.fixture
async def deployed(apply: Any, make: Any, owner: Owner, watched: Watched) -> tuple[Json, Json]:
    """Apply a Deployment and a ConfigMap, and watch them."""
    deployment = make.deployment()
    deployment["metadata"]["labels"] = {"ours": "yes"}
    config = make.config_map()
    await _apply(apply, watched, owner, deployment, config)
    return deployment, config


async def _apply(apply: Any, watched: Watched, owner: Owner, *objects: Json) -> Any:
    watched.live.ensure(owner.key, {gvk_of(obj) for obj in objects})
    watched.live.hold(owner.key, {ref_of(each).identity for each in objects})
    known = watched.live.known(owner.key)
    changes = await apply(*objects, known=known, options=ApplyOptions(owner=owner))
    watched.live.expect(owner.key, changes.known)
    assert await watched.live.wait_synced(owner.key, timeout=SECONDS)
    return changes


_DRIFT = {
    "set image": ("set", "image", "deployment/web", "web=other"),
    "scale": ("scale", "deployment/web", "--replicas=3"),
    "label changed": ("label", "deployment/web", "ours=no", "--overwrite"),
    "label removed": ("label", "deployment/web", "ours-"),
    "env value": ("set", "env", "deployment/web", "A=2"),
    "config key changed": ("patch", "configmap/conf", "-p", '{"data":{"key":"theirs"}}'),
    "config key removed": ("patch", "configmap/conf", "-p", '{"data":{"key":null}}'),
    "owner label removed": ("label", "configmap/conf", "kustomize.toolkit.fluxcd.io/name-"),
    "owner label changed": (
        *("label", "configmap/conf", "--overwrite"),
        "kustomize.toolkit.fluxcd.io/name=thief",
    ),
    "deleted": ("delete", "configmap/conf"),
}


@pytest.mark.usefixtures("deployed")
@pytest.mark.parametrize("command", _DRIFT.values(), ids=_DRIFT.keys())
async def test_our_fields_changed_is_drift(
    watched: Watched, cluster: Any, command: tuple[str, ...]
) -> None:
    await asyncio.to_thread(cluster, *command)

    ref, _, _ = await watched.drift()
    assert f"{ref.gvk.kind}/{ref.name}".lower() in " ".join(command)


_NO_DRIFT = {
    "annotation": ("annotate", "deployment/web", "theirs=1"),
    "label": ("label", "deployment/web", "theirs=1"),
    "env entry": ("set", "env", "deployment/web", "THEIRS=1"),
    "config key": ("patch", "configmap/conf", "-p", '{"data":{"theirs":"1"}}'),
    "same value": ("patch", "configmap/conf", "-p", '{"data":{"key":"value"}}'),
}


@pytest.mark.usefixtures("deployed")
@pytest.mark.parametrize("command", _NO_DRIFT.values(), ids=_NO_DRIFT.keys())
async def test_foreign_fields_are_no_drift(
    watched: Watched, cluster: Any, command: tuple[str, ...]
) -> None:
    await asyncio.to_thread(cluster, *command)

    assert await watched.quiet()


async def test_a_replace_that_wipes_managed_fields_is_drift(
    deployed: Any, watched: Watched, api: Client, namespace: str
) -> None:
    config = deployed[1]

    await api.patch(
        *(gvk_of(config), "conf", namespace),
        [{"op": "replace", "path": "/metadata/managedFields", "value": [{}]}],
        strategy="json",
    )

    ref, _, deleted = await watched.drift()
    assert (ref, deleted) == (ref_of(config), False)


async def test_what_is_only_created_may_be_changed_and_is_drift_if_deleted(
    watched: Watched, apply: Any, make: Any, owner: Owner, cluster: Any
) -> None:
    once = make.marked(make.config_map("once", key="first"), ssa="IfNotPresent")
    await _apply(apply, watched, owner, once)

    await asyncio.to_thread(cluster, "patch", "configmap/once", "-p", '{"data":{"key":"mine"}}')
    assert await watched.quiet()

    await asyncio.to_thread(cluster, "delete", "configmap/once")
    ref, _, deleted = await watched.drift()
    assert (ref, deleted) == (ref_of(once), True)


async def test_an_object_made_anew_is_drift(deployed: Any, watched: Watched, cluster: Any) -> None:
    manifest = json.dumps(deployed[1])

    def replace() -> None:
        cluster("replace", "--force", "-f", "-", stdin=manifest)

    await asyncio.to_thread(replace)

    _, _, deleted = await watched.drift()
    assert deleted


@pytest.mark.usefixtures("deployed")
async def test_the_one_who_changed_it_is_named(watched: Watched, cluster: Any) -> None:
    patch = ("patch", "configmap/conf", "--field-manager=intruder", "-p", '{"data":{"key":"x"}}')
    await asyncio.to_thread(cluster, *patch)

    _, managers, deleted = await watched.drift()

    assert (managers, deleted) == (("intruder",), False)


async def test_healing_ends_the_drift_and_restores_the_digest(
    deployed: Any, watched: Watched, cluster: Any, apply: Any, owner: Owner
) -> None:
    before = await watched.known(owner, len(deployed))
    await asyncio.to_thread(cluster, "scale", "deployment/web", "--replicas=3")
    await watched.drift()

    changes = await _apply(apply, watched, owner, *deployed)

    assert changes.lines == (f"Deployment/{owner.namespace}/web configured",)
    assert {key: known.entry_digest for key, known in changes.known.items()} == {
        key: known.entry_digest for key, known in before.items()
    }
    assert await watched.quiet()


async def test_what_admission_rewrites_is_no_drift(
    apply: Any, make: Any, owner: Owner, watched: Watched, kubectl: Any
) -> None:
    name = owner.namespace
    kubectl("apply", "-f", "-", stdin=_MUTATION.format(name=name))
    try:
        await _rewritten(apply, make, kubectl)
        await _apply(apply, watched, owner, make.config_map(key="value"))
        unmoved = await watched.quiet()
        again = await apply(make.config_map(key="value"))
    finally:
        kubectl("delete", "mutatingadmissionpolicy,mutatingadmissionpolicybinding", name)

    assert unmoved
    assert [entry.action for entry in again.entries] == ["unchanged"]


async def test_our_own_changes_are_no_drift(
    deployed: Any, watched: Watched, apply: Any, owner: Owner, make: Any
) -> None:
    for key in "abcde":
        await _apply(apply, watched, owner, deployed[0], make.config_map(**{key: "1"}))

    assert await watched.quiet()


async def test_a_change_between_apply_and_expectation_is_not_lost(
    apply: Any, make: Any, owner: Owner, watched: Watched, cluster: Any
) -> None:
    config = make.config_map()
    watched.live.ensure(owner.key, {gvk_of(config)})
    watched.live.hold(owner.key, {ref_of(config).identity})
    changes = await apply(config)
    patch = ("patch", "configmap/conf", "-p", '{"data":{"key":"theirs"}}')
    await asyncio.to_thread(cluster, *patch)
    assert await watched.quiet()

    watched.live.expect(owner.key, changes.known)

    assert (await watched.drift())[0] == ref_of(config)


async def test_a_change_before_the_watch_began_is_not_lost(  # noqa: PLR0917 - fixtures
    apply: Any, make: Any, owner: Owner, api: Client, cluster: Any, evaluates: Evaluator
) -> None:
    config = make.config_map()
    late = Watched(api, apply, make, evaluates)
    late.live.ensure(owner.key, {gvk_of(config)})
    changes = await apply(config)
    late.live.expect(owner.key, changes.known)
    cluster("patch", "configmap/conf", "-p", '{"data":{"key":"theirs"}}')

    async with _running(late.live):
        assert (await late.drift())[0] == ref_of(config)


async def test_a_deletion_before_the_watch_began_is_not_lost(  # noqa: PLR0917 - fixtures
    apply: Any, make: Any, owner: Owner, api: Client, cluster: Any, evaluates: Evaluator
) -> None:
    config = make.config_map()
    late = Watched(api, apply, make, evaluates)
    late.live.ensure(owner.key, {gvk_of(config)})
    changes = await apply(config)
    late.live.expect(owner.key, changes.known)
    cluster("delete", "configmap/conf")

    async with _running(late.live):
        ref, _, deleted = await late.drift()

    assert (ref, deleted) == (ref_of(config), True)


async def test_only_untouched_objects_are_known(
    deployed: Any, watched: Watched, cluster: Any, owner: Owner
) -> None:
    await watched.until(owner, deployed[0], Status.CURRENT)
    known = await watched.known(owner, len(deployed))
    before = {ref.ref.gvk.kind for ref in known.values()}

    await asyncio.to_thread(cluster, "delete", "configmap/conf")
    await watched.drift()

    assert before == {"Deployment", "ConfigMap"}
    assert {known.ref.gvk.kind for known in watched.live.known(owner.key).values()} == {
        "Deployment"
    }


async def test_owned_objects_are_those_that_we_applied(
    deployed: Any, watched: Watched, owner: Owner, api: Client
) -> None:
    copied = {**deployed[1], "metadata": {**deployed[1]["metadata"], "name": "copy"}}
    copied["metadata"]["labels"] = owner.labels
    await api.create(copied)
    await watched.known(owner, len(deployed))
    await watched.quiet()

    owned = watched.live.owned(owner.key)

    assert owned == {ref_of(obj) for obj in deployed}


async def test_a_kind_that_may_not_be_watched_is_reported(
    api: Client, apply: Any, owner: Owner, make: Any, evaluates: Evaluator
) -> None:
    nobody = api.impersonating(f"system:serviceaccount:{owner.namespace}:nobody")
    tenant = Watched(nobody, apply, make, evaluates)
    kind = gvk_of(make.config_map())
    async with _running(tenant.live):
        tenant.live.ensure(owner.key, {kind})
        assert not await tenant.live.wait_synced(owner.key, timeout=1)
        await until(lambda: tenant.live.unwatched(owner.key) == {kind})

    assert tenant.live.known(owner.key) == {}


async def test_a_deployment_becomes_healthy(deployed: Any, watched: Watched, owner: Owner) -> None:
    await watched.until(owner, deployed[0], Status.CURRENT)
    await watched.until(owner, deployed[1], Status.CURRENT)


async def test_health_is_unknown_until_the_watch_has_seen_the_apply(
    deployed: Any, watched: Watched, owner: Owner
) -> None:
    await watched.until(owner, deployed[1], Status.CURRENT)
    ahead = {
        identity: replace(known, resource_version=str(2**62))
        for identity, known in watched.live.known(owner.key).items()
    }

    watched.live.expect(owner.key, ahead)

    assert watched.live.health(owner.key, ref_of(deployed[1])) is None
    assert watched.live.known(owner.key) == {}


async def test_the_event_of_an_apply_is_told_although_health_stays(
    deployed: Any, watched: Watched, owner: Owner, apply: Any, make: Any
) -> None:
    config = deployed[1]
    await watched.until(owner, config, Status.CURRENT)
    while not watched.healths.empty():
        watched.healths.get_nowait()

    # until its event arrives nobody knows the object's health, so somebody may wait for it
    await _apply(apply, watched, owner, deployed[0], make.config_map(key="2"))

    async with asyncio.timeout(SECONDS):
        while await watched.healths.get() != ref_of(config):
            pass


async def test_rules_given_later_are_applied_to_what_was_seen_before(
    deployed: Any, watched: Watched, owner: Owner
) -> None:
    await watched.until(owner, deployed[1], Status.CURRENT)
    never = {"apiVersion": "v1", "kind": "ConfigMap", "current": "data.key == 'never'"}

    watched.live.set_rules(owner.key, rules_of([never]))

    await watched.until(owner, deployed[1], Status.IN_PROGRESS)


async def test_rules_are_not_evaluated_on_what_others_have_labelled(
    deployed: Any, watched: Watched, owner: Owner, make: Any, cluster: Any
) -> None:
    """Everybody may set the labels: the owner's rules would judge their objects in its turns."""
    rule = {"apiVersion": "v1", "kind": "ConfigMap", "current": "data.key == 'changed'"}
    watched.live.set_rules(owner.key, rules_of([rule]))
    await watched.until(owner, deployed[1], Status.IN_PROGRESS)
    foreign, changed = make.config_map("foreign"), make.config_map()
    foreign["metadata"]["labels"] = owner.labels
    await asyncio.to_thread(cluster, "apply", "-f", "-", stdin=json.dumps(foreign))
    name, patch = changed["metadata"]["name"], json.dumps({"data": {"key": "changed"}})
    await asyncio.to_thread(cluster, "patch", "configmap", name, "--type=merge", "-p", patch)

    seen = set()
    async with asyncio.timeout(SECONDS):
        while watched.live.health(owner.key, ref_of(changed)) != _CURRENT:
            seen.add(await watched.healths.get())
    while not watched.healths.empty():
        seen.add(watched.healths.get_nowait())

    assert watched.live.find(ref_of(foreign))
    assert ref_of(foreign) not in seen


@pytest.mark.usefixtures("deployed")
async def test_the_health_of_somebody_elses_object_can_be_observed(
    watched: Watched, owner: Owner, make: Any, cluster: Any
) -> None:
    foreign = make.deployment("foreign")
    watched.live.observe(owner.key, [ref_of(foreign)])
    await asyncio.to_thread(cluster, "apply", "-f", "-", stdin=json.dumps(foreign))

    await watched.until(owner, foreign, Status.CURRENT)
    await asyncio.to_thread(cluster, "delete", "deployment/foreign")

    await watched.until(owner, foreign, Status.NOT_FOUND)


async def test_forgetting_the_last_owner_ends_the_watches(
    deployed: Any, watched: Watched, owner: Owner
) -> None:
    watched.live.forget(owner.key)
    await asyncio.sleep(0)

    assert watched.live.find(ref_of(deployed[0])) is None
    assert not watched.live.current(ref_of(deployed[0]))


_MUTATION = """
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {{name: {name}}}
spec:
  failurePolicy: Fail
  reinvocationPolicy: Never
  matchConstraints:
    resourceRules:
    - apiGroups: [""]
      apiVersions: [v1]
      operations: [CREATE, UPDATE]
      resources: [configmaps]
  mutations:
  - patchType: ApplyConfiguration
    applyConfiguration:
      expression: 'Object{{data: {{"key": "rewritten"}}}}'
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {{name: {name}}}
spec:
  policyName: {name}
  matchResources:
    namespaceSelector: {{matchLabels: {{kubernetes.io/metadata.name: {name}}}}}
"""


async def _rewritten(apply: Any, make: Any, kubectl: Any) -> None:
    """Wait until the policy is in force: a known value comes back rewritten."""
    for attempt in range(100):
        probe = make.config_map(f"probe-{attempt}", key="x")
        await apply(probe)
        if "rewritten" in kubectl(
            "-n", make.namespace, "get", "configmap", f"probe-{attempt}", "-o", "yaml"
        ):
            return
        await asyncio.sleep(0.1)
    pytest.fail("the policy never came into force")
