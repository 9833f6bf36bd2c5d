"""Kustomizations and what they list, written as controllers would, and all that befalls them.

No controller runs: an administrator writes specs, statuses, applied objects and what others do to
them. Which change comes when is decided by its number, so a run is like the one before.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final

from tests.contract.apiserver.window import Window
from toolkit import inventory
from toolkit.apply import ownership
from toolkit.apply.options import MANAGER
from toolkit.kube.errors import NotFoundError
from toolkit.objects import GroupVersionKind, Json, ObjectRef

_MAPS: Final = 4
_DEPLOYED: Final = 5
"""Of so many apps there is a Deployment."""
_SOURCES: Final = 5
_NOON: Final = "2026-01-01T12:00:00Z"
KUSTOMIZATION: Final = GroupVersionKind("kustomize.toolkit.fluxcd.io", "v1", "Kustomization")
_SOURCE: Final = GroupVersionKind("source.toolkit.fluxcd.io", "v1", "GitRepository")
KINDS: Final = (KUSTOMIZATION, _SOURCE)
"""Controllers of others would see objects of these."""
_MAP: Final = GroupVersionKind("", "v1", "ConfigMap")
_DEPLOYMENT: Final = GroupVersionKind("apps", "v1", "Deployment")


@dataclass
class App:
    """One Kustomization, as its controller sees it."""

    name: str
    refs: tuple[ObjectRef, ...]
    listed: tuple[ObjectRef, ...] = ()
    revision: str = ""
    source: str = ""
    suspended: bool = False


@dataclass
class Fleet:
    """All of them, in the namespace of a window."""

    window: Window
    size: int
    """How many Kustomizations are made at first, and go through the changes."""
    apps: list[App] = field(default_factory=list)

    async def make(self) -> None:
        """Write all there is at first."""
        for number in range(self.size):
            name = f"app-{number:02}"
            refs = [self.ref(_MAP, f"{name}-{index}") for index in range(_MAPS)]
            refs += [self.ref(_DEPLOYMENT, name)] * (number < _DEPLOYED)
            source = f"web-{number % _SOURCES}"
            self.apps.append(App(name=name, refs=tuple(refs), source=source))
        await asyncio.gather(*(publish(self, app, 0) for app in self.apps[:_SOURCES]))
        await asyncio.gather(*(self.applied(ref, 0) for app in self.apps for ref in app.refs))
        await asyncio.gather(*(remake(self, app, 0) for app in self.apps))

    async def add(self, name: str) -> None:
        """Make a Kustomization that lists nothing, and is left alone."""
        self.apps.append(App(name=name, refs=(), source="web-0"))
        await remake(self, self.apps[-1], 0)

    async def remove(self) -> None:
        """Delete the one that was added."""
        await self.forget(self.ref(KUSTOMIZATION, self.apps.pop().name))

    async def change(self, start: int, end: int) -> None:
        """Make the changes of these numbers, one in each app at the same time."""
        for first in range(start, end, self.size):
            numbers = range(first, min(first + self.size, end))
            await asyncio.gather(*(self._one(number) for number in numbers))

    async def _one(self, number: int) -> None:
        turn, app = divmod(number, self.size)
        await CHANGES[(turn + app) % len(CHANGES)](self, self.apps[app], number)

    async def truth(self, resource: str) -> Json:
        """Return what a resource must tell at least, by name, from the API server's own objects."""
        return await {"inventories": self._inventories, "artifacts": self._artifacts}[resource]()

    async def _inventories(self) -> Json:
        """Return how many objects are listed and how many of them are missing, and of when."""
        there = {
            (kind, each["metadata"]["name"])
            for kind in (_MAP, _DEPLOYMENT)
            for each in await self.window.admin.list(kind, self.window.namespace)
        }
        return {
            app.name: (
                len(app.listed),
                sum((ref.gvk, ref.name) not in there for ref in app.listed),
                app.revision,
            )
            for app in self.apps
        }

    async def _artifacts(self) -> Json:
        """Return the revision of each artifact."""
        found = await self.window.admin.list(_SOURCE, self.window.namespace)
        offered = [(each["metadata"]["name"], each["status"]["artifact"]) for each in found]
        return {
            f"gitrepository.{name}.{artifact['digest'][7:19]}": artifact["revision"]
            for name, artifact in offered
        }

    def ref(self, gvk: GroupVersionKind, name: str) -> ObjectRef:
        return ObjectRef(gvk, self.window.namespace, name)

    def made(self, ref: ObjectRef) -> Json:
        metadata = {"name": ref.name, "namespace": ref.namespace}
        return {"apiVersion": ref.gvk.api_version, "kind": ref.gvk.kind, "metadata": metadata}

    async def applied(self, ref: ObjectRef, number: int) -> None:
        """Apply an object as the kustomize-controller does."""
        parts = _deployed(number) if ref.gvk == _DEPLOYMENT else {"data": {"v": f"{number}"}}
        app = ref.name[: len("app-00")]
        obj = ownership.own(
            self.made(ref) | parts, ownership.Owner(namespace=ref.namespace, name=app)
        )
        await self.window.admin.apply(obj, manager=MANAGER)

    async def told(self, obj: Json, status: Json) -> None:
        """Write a status as a controller does."""
        await self.window.admin.apply(
            {**obj, "status": status}, manager="controller", subresource="status"
        )

    async def report(self, app: App, *, ready: bool = True) -> None:
        """Write the status of a Kustomization."""
        condition = {
            "type": "Ready",
            "status": str(ready),
            "reason": "ReconciliationSucceeded" if ready else "BuildFailed",
            "message": f"Applied revision: {app.revision}" if ready else "kustomize build failed",
            "lastTransitionTime": _NOON,
        }
        status = {
            "conditions": [condition],
            "lastAppliedRevision": app.revision,
            "lastAttemptedRevision": app.revision,
            "inventory": {"entries": inventory.encode(app.listed)},
        }
        await self.told(self.made(self.ref(KUSTOMIZATION, app.name)), status)

    async def specify(self, app: App) -> None:
        """Write the spec of a Kustomization."""
        spec = {
            "interval": "1h",
            "prune": True,
            "suspend": app.suspended,
            "sourceRef": {"kind": _SOURCE.kind, "name": app.source},
        }
        obj = self.made(self.ref(KUSTOMIZATION, app.name))
        await self.window.admin.apply(obj | {"spec": spec}, manager="owner")

    async def forget(self, ref: ObjectRef) -> None:
        """Delete an object, if it is there."""
        with contextlib.suppress(NotFoundError):
            await self.window.admin.delete(ref.gvk, ref.name, ref.namespace)


def _deployed(number: int) -> Json:
    labels = {"app": "web"}
    template = {
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "app", "image": "registry.example/app:1"}]},
    }
    selector = {"matchLabels": labels}
    return {"spec": {"replicas": number % 2, "selector": selector, "template": template}}


def _revision(number: int) -> str:
    return f"main@sha1:{number:040x}"


async def publish(fleet: Fleet, app: App, number: int) -> None:
    """Have the app's source offer the next revision."""
    obj = fleet.made(fleet.ref(_SOURCE, app.source))
    spec = {"url": "https://git.example/web", "interval": "1h"}
    await fleet.window.admin.apply(obj | {"spec": spec}, manager="owner")
    path = f"gitrepository/{fleet.window.namespace}/{app.source}/{number}.tar.gz"
    artifact = {
        "digest": f"sha256:{number:012x}{'0' * 52}",
        "lastUpdateTime": _NOON,
        "path": path,
        "revision": _revision(number),
        "size": number,
        # a third party's, so that nobody asks there what else is stored
        "url": f"https://elsewhere.example/{path}",
    }
    await fleet.told(obj, {"artifact": artifact})


async def reconcile(fleet: Fleet, app: App, number: int) -> None:
    """Reach another revision, with all objects in the inventory."""
    app.revision, app.listed = _revision(number), app.refs
    await fleet.report(app)


async def fail(fleet: Fleet, app: App, number: int) -> None:
    """Fail to build."""
    del number
    await fleet.report(app, ready=False)


async def shrink(fleet: Fleet, app: App, number: int) -> None:
    """Have objects leave the inventory."""
    app.listed = app.listed[number % 3 :]
    await fleet.report(app)


async def suspend(fleet: Fleet, app: App, number: int) -> None:
    """Suspend it, or resume it."""
    del number
    app.suspended = not app.suspended
    await fleet.specify(app)


async def remake(fleet: Fleet, app: App, number: int) -> None:
    """Delete it and make it anew."""
    await fleet.forget(fleet.ref(KUSTOMIZATION, app.name))
    await fleet.specify(app)
    await reconcile(fleet, app, number)


async def apply(fleet: Fleet, app: App, number: int) -> None:
    """Apply an object, which corrects it, or makes it, or makes it wait for what it asks for."""
    await fleet.applied(app.refs[number % len(app.refs)], number)


async def drift(fleet: Fleet, app: App, number: int) -> None:
    """Have somebody else change an object."""
    ref = app.refs[number % _MAPS]
    body = {"data": {"v": f"stolen-{number}"}}
    with contextlib.suppress(NotFoundError):
        await fleet.window.admin.patch(
            ref.gvk, ref.name, ref.namespace, body, strategy="merge", manager="thief"
        )


async def delete(fleet: Fleet, app: App, number: int) -> None:
    """Have somebody else delete an object."""
    await fleet.forget(app.refs[number % len(app.refs)])


CHANGES: Final[tuple[Callable[[Fleet, App, int], Awaitable[None]], ...]] = (
    # drift, and what undoes it, more often than the rest
    *(drift, apply, delete, reconcile),
    *(drift, apply, shrink, publish, apply),
    *(delete, fail, apply, suspend, remake, apply),
)
