"""Which writes to Penstock's kinds plugins are asked about, as a real API server decides it.

The plugins here let everything pass and remember what they were asked; their rules, their
conditions and the webhook that they share are those that are shipped.
"""

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import pytest
import pytest_asyncio

from controlplane.plane import ControlPlane
from tests.contract.webhooks.conftest import Gate, Recorder, opened
from tests.contract.webhooks.tenants import GIT_REPOSITORY, KUSTOMIZATION, Tenant, old
from toolkit.errors import PenstockError
from toolkit.objects import GroupVersionKind, Json, key_of
from webhooks import changes, references, sourcepolicy, tenancy
from webhooks.hints import admission as hints
from webhooks.validation import admission as validation

pytestmark = pytest.mark.asyncio(loop_scope="module")

BY_SPEC: Final = (
    validation.ROW,
    hints.ROW,
    references.ROW,
    tenancy.TENANCY,
    sourcepolicy.ROW,
)
APPLIER: Final = {row.name for row in BY_SPEC if row.webhook}
"""Who is asked about the spec of an applier."""
SOURCE: Final = {row.name for row in BY_SPEC}
"""Who is asked about the spec of a source."""
HELD: Json = {"finalizers": ["example.com/held"]}
"""A finalizer that controllers of other tests do not take."""
OLD: Final = GroupVersionKind(KUSTOMIZATION.group, "v1beta1", KUSTOMIZATION.kind)
OLD_SOURCE: Final = GroupVersionKind(GIT_REPOSITORY.group, "v1beta1", GIT_REPOSITORY.kind)


@dataclass(frozen=True, slots=True)
class Scene:
    """An object that exists, and the plugins that are asked about it."""

    gate: Gate
    plugins: Mapping[str, Recorder]
    obj: Json

    @property
    def asked(self) -> set[str]:
        """Return the names of the plugins that were asked about the object."""
        name = self.obj["metadata"]["name"]
        seen = self.plugins.items()
        return {key for key, each in seen if any(one.name == name for one in each.asked)}

    async def patch(
        self, body: Any, *, gvk: GroupVersionKind | None = None, subresource: str = ""
    ) -> Json:
        key = key_of(self.obj)
        kind = GroupVersionKind.parse(self.obj["apiVersion"], self.obj["kind"])
        return await self.gate.admin.patch(
            gvk or kind,
            key.name,
            key.namespace,
            body,
            strategy="json" if isinstance(body, list) else "merge",
            subresource=subresource,
        )

    async def put(self, **changed: Any) -> Json:
        """Replace the whole object."""
        key = key_of(self.obj)
        resource = await self.gate.admin.mapper.resource(KUSTOMIZATION)
        live = await self.gate.admin.get(KUSTOMIZATION, key.name, key.namespace)
        path = resource.path(key.name, key.namespace)
        return await self.gate.admin.request("PUT", path, body={**live, **changed})


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def remembering(
    control_plane: ControlPlane, definitions: None
) -> AsyncIterator[tuple[Gate, Mapping[str, Recorder]]]:
    """Have plugins asked that remember it."""
    del definitions
    async with opened(control_plane) as gate:
        made = {
            row.name: gate.row(
                row.name, rules=row.rules, conditions=row.conditions, webhook=row.webhook
            )
            for row in BY_SPEC
        }
        plugins = {name: recorder for name, (_, recorder) in made.items()}
        await gate.start(*(row for row, _ in made.values()))
        await gate.converting()
        tenant = Tenant(gate, gate.namespace)
        probes = [tenant.kustomization("probe"), tenant.repository()]
        probes[1]["metadata"]["name"] = "probe"

        async def asked() -> bool:
            for probe in probes:
                with contextlib.suppress(PenstockError):
                    await gate.admin.apply(probe, manager="test", dry_run=True)
            return all(each.probed for each in plugins.values())

        await gate.until(asked)
        yield gate, plugins


async def _scene(
    remembering: tuple[Gate, Mapping[str, Recorder]], make: Callable[[Tenant], Json]
) -> Scene:
    gate, plugins = remembering
    gate = await gate.beside()
    obj = await gate.admin.create(make(Tenant(gate, gate.namespace)))
    scene = Scene(gate, plugins, obj)
    for each in plugins.values():
        each.asked.clear()
    return scene


@pytest_asyncio.fixture(loop_scope="module")
async def applier(remembering: tuple[Gate, Mapping[str, Recorder]]) -> Scene:
    return await _scene(remembering, lambda tenant: tenant.kustomization())


@pytest_asyncio.fixture(loop_scope="module")
async def source(remembering: tuple[Gate, Mapping[str, Recorder]]) -> Scene:
    return await _scene(remembering, lambda tenant: tenant.repository())


async def test_creation_is_asked_about(remembering: tuple[Gate, Mapping[str, Recorder]]) -> None:
    gate, plugins = remembering
    gate = await gate.beside()
    tenant = Tenant(gate, gate.namespace)
    for each in plugins.values():
        each.asked.clear()

    await gate.admin.create(tenant.kustomization())
    await gate.admin.create(tenant.repository())

    assert all(plugins[row.name].asked for row in BY_SPEC)


async def test_metadata_alone_is_not_asked_about(applier: Scene, source: Scene) -> None:
    for scene in (applier, source):
        await scene.patch({"metadata": HELD})
        await scene.patch({"metadata": {"annotations": {"example.com/note": "1"}}})
        await scene.patch({"metadata": {"labels": {"policy.penstock.dev/x": "1"}}})
        await scene.patch({"metadata": {"finalizers": None}})

    assert applier.asked == source.asked == set()


@pytest.mark.parametrize("name", changes.ANNOTATIONS)
async def test_an_annotation_that_belongs_to_a_spec_is_asked_about(
    applier: Scene, name: str
) -> None:
    asked = []
    for value in ("a", "b", "", None):
        await applier.patch({"metadata": {"annotations": {name: value}}})
        asked.append(applier.asked)
        for plugin in applier.plugins.values():
            plugin.asked.clear()
        await applier.patch({"metadata": {"annotations": {"example.com/note": str(value)}}})

    assert asked == [APPLIER] * 4
    assert applier.asked == set()


async def test_what_applies_again_what_is_there_is_not_asked_about(applier: Scene) -> None:
    obj = {key: applier.obj[key] for key in ("apiVersion", "kind", "spec")}
    name, namespace = applier.obj["metadata"]["name"], applier.obj["metadata"]["namespace"]
    body = {**obj, "metadata": {"name": name, "namespace": namespace}}

    await applier.gate.admin.apply(body, manager="another")
    await applier.put()

    assert applier.asked == set()


SPEC: Json = {"serviceAccountName": "cluster-admin"}
Write = Callable[[Scene], Awaitable[Json]]
WRITES: Mapping[str, Write] = {
    "a spec": lambda scene: scene.patch({"spec": SPEC}),
    "a spec and a finalizer": lambda scene: scene.patch({"spec": SPEC, "metadata": HELD}),
    "a spec and an annotation": lambda scene: scene.patch(
        {"spec": SPEC, "metadata": {"annotations": {"reconcile.fluxcd.io/requestedAt": "1"}}}
    ),
    "a spec and a status": lambda scene: scene.patch(
        {"spec": SPEC, "status": {"observedGeneration": 1}}
    ),
    "operations on single fields": lambda scene: scene.patch(
        [
            {"op": "add", "path": "/metadata/finalizers", "value": HELD["finalizers"]},
            {"op": "add", "path": "/spec/serviceAccountName", "value": "cluster-admin"},
        ]
    ),
    "another value": lambda scene: scene.patch({"spec": {"prune": False}}),
    "a whole object": lambda scene: scene.put(spec={**scene.obj["spec"], **SPEC}),
    "another version": lambda scene: scene.patch({"spec": SPEC}, gvk=OLD),
    "a field that only an old version had": lambda scene: scene.patch(
        {"spec": {"validation": "client"}}, gvk=OLD
    ),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
async def test_whatever_changes_the_spec_is_asked_about(applier: Scene, write: Write) -> None:
    await write(applier)

    assert applier.asked == APPLIER


async def test_an_object_of_an_old_version_is_compared_as_it_is_stored(
    remembering: tuple[Gate, Mapping[str, Recorder]],
) -> None:
    scene = await _scene(remembering, lambda tenant: old(tenant.namespace))

    await scene.patch({"metadata": HELD}, gvk=OLD_SOURCE)
    unchanged = scene.asked
    await scene.patch({"spec": {"gitImplementation": None}}, gvk=OLD_SOURCE)

    assert unchanged == set()
    assert scene.asked == SOURCE


async def test_a_spec_that_comes_and_goes_is_asked_about(
    remembering: tuple[Gate, Mapping[str, Recorder]],
) -> None:
    scene = await _scene(
        remembering,
        lambda tenant: {k: v for k, v in tenant.kustomization().items() if k != "spec"},
    )

    await scene.patch({"metadata": HELD})
    without = scene.asked
    await scene.patch({"spec": Tenant(scene.gate, "").kustomization()["spec"]})

    assert (without, scene.asked) == (APPLIER, APPLIER)


async def test_the_status_of_a_source_is_asked_about(source: Scene) -> None:
    artifact = {
        "digest": "sha256:" + "0" * 64,
        "lastUpdateTime": "2026-01-01T00:00:00Z",
        "path": "a",
        "revision": "main@sha1:0",
        "url": "http://source-controller/a.tar.gz",
    }

    await source.patch({"status": {"artifact": artifact}}, subresource="status")

    assert source.asked == {sourcepolicy.ROW.name}


async def test_the_spec_of_a_source_is_asked_about(source: Scene) -> None:
    await source.patch({"spec": {"url": "https://elsewhere.example/app"}, "metadata": HELD})

    assert source.asked == SOURCE
