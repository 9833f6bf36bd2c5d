"""What the applier itself concludes from managedFields: every history of a small object.

A search goes through all states that an applier, others, and a watch that may be late get into
together. The examiner, the write and the drift watch are the real ones; the API server is a model.
A pass must leave what a write would leave, and drift must be told when a dry-run shows it, and only
then.
"""

from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any, Final, TypeVar, cast

from tests.fakes.managedfields import Simulated
from toolkit.apply.changes import ChangeSet, Known
from toolkit.apply.check import Examiner, Find
from toolkit.apply.clock import ServerClock
from toolkit.apply.drift import DriftWatch
from toolkit.apply.options import MANAGER, ApplyOptions
from toolkit.apply.ownership import KUSTOMIZE_GROUP, Owner
from toolkit.apply.projection import Live, Projector
from toolkit.apply.write import write
from toolkit.kube.client import Applied
from toolkit.objects import GroupVersionKind, Json, ObjectRef

REF: Final = ObjectRef(GroupVersionKind("", "v1", "ConfigMap"), "shop", "conf")
OWNER: Final = Owner(namespace="shop", name="app")
LABEL: Final = min(f"label/{key}" for key in OWNER.labels)
T = TypeVar("T")
Intent = tuple[tuple[str, str], ...]
INTENTS: Final[tuple[Intent, ...]] = (
    (("a", "1"), ("b", "1")),
    (("a", "1"),),
    (("a", "2"), ("b", "1")),
)
NOW: Final = 9
DEPTH: Final = 4


@dataclass(frozen=True, slots=True)
class Stored:
    """An object at a version of the API server."""

    object: Simulated
    version: int

    def put(self, changed: Simulated) -> "Stored":
        """Write it; what changes nothing makes no version."""
        return self if changed == self.object else Stored(changed, self.version + 1)

    def apply(self, intent: Intent) -> "Stored":
        """Apply what the applier wants."""
        wanted = {f"data/{key}": value for key, value in intent}
        wanted |= {f"label/{key}": value for key, value in OWNER.labels.items()}
        return self.put(self.object.apply(MANAGER, wanted, second=NOW))

    @property
    def json(self) -> Json:
        """Return the object as the API server shows it."""
        obj = self.object.json()
        metadata = obj["metadata"] | {"name": REF.name, "resourceVersion": str(self.version)}
        return {"apiVersion": "v1", "kind": "ConfigMap", **obj, "metadata": metadata}

    @property
    def visible(self) -> bool:
        """Tell whether the applier's watch selects it."""
        return LABEL in dict(self.object.values)


Edit = Callable[[Stored], Stored]


@dataclass(frozen=True, slots=True)
class World:
    """An object, what its applier wants, and what that knows.

    ``shown`` is what the applier's watch showed last, ``late`` that newer events are under way.
    ``known`` is what the last pass left, None in a process that has just started. A pass that
    ``left`` a difference did so although nobody disturbed it, and it knew or asked.
    """

    live: Stored
    intent: Intent
    shown: Stored | None
    known: Known | None = None
    told: bool = False
    late: bool = False
    left: bool = False

    @property
    def differs(self) -> bool:
        """Tell whether an apply would change anything, as a dry-run shows."""
        return self.live.apply(self.intent) != self.live


class Server:
    """An API server that holds one object; ``edit`` happens before the call of that number."""

    def __init__(self, stored: Stored, edit: Edit, *, at: int) -> None:
        self.stored = stored
        self.calls = 0
        self._edit = edit
        self._at = at

    async def apply(
        self, payload: Json, *, manager: str, dry_run: bool = False, metadata_only: bool
    ) -> Applied:
        assert manager == MANAGER
        del metadata_only
        self.turn()
        after = self.stored.apply(tuple(payload["data"].items()))
        if not dry_run:
            self.stored = after
        shown = replace(after, version=self.stored.version)
        return Applied(object=shown.json, created=False)

    def turn(self) -> None:
        """Let the others have their turn."""
        if self.calls == self._at:
            self.stored = self._edit(self.stored)
        self.calls += 1


class Applier:
    """The applier as it is in a world."""

    def __init__(self, world: World) -> None:
        self.told = False
        self._now = 0.0
        self._shown: Live | None = None
        self._watch = DriftWatch(self, self._on_drift, monotonic=self._later)
        if world.known:
            self._watch.expect(OWNER.key, {REF.identity: world.known})
            if world.told:
                drifted = replace(_seen(world.live), resource_version="99", entry="drifted")
                self._watch.seen(REF, drifted, None)
        self._shown = _seen(world.shown) if world.shown else None

    def find(self, _: ObjectRef) -> Live | None:
        return self._shown

    def current(self, _: ObjectRef) -> bool:
        return True

    def show(self, stored: Stored) -> Stored | None:
        """Let an event arrive; without its label the object is out of sight."""
        shown = stored if stored.visible else None
        old, self._shown = self._shown, _seen(stored) if shown else None
        self._watch.seen(REF, self._shown, old)
        self._watch.sweep()
        return shown

    def run(self, world: World, server: Server, *, recheck: bool) -> World:
        """Let a pass run."""
        known = self._watch.known(OWNER.key).get(REF.identity)
        self._watch.hold(OWNER.key, ())
        change = _finished(_pass(server, world.intent, self.find, known, recheck=recheck))
        asked = server.calls > 0
        undisturbed = server.stored
        server.turn()
        shown = world.shown if world.late else self.show(server.stored)
        self.told = False
        self._watch.expect(OWNER.key, {REF.identity: change})
        if not world.late:
            self._watch.sweep()
        after = replace(world, live=server.stored, shown=shown, known=change, told=self.told)
        relied = asked or not world.late
        left = replace(after, live=undisturbed).differs and undisturbed == server.stored and relied
        return replace(after, left=left)

    def _later(self) -> float:
        """Return a time at which no correction has to pause."""
        self._now += 1000.0
        return self._now

    def _on_drift(self, *_: object, **__: object) -> None:
        self.told = True


async def _pass(
    server: Server, intent: Intent, find: Find, known: Known | None, *, recheck: bool
) -> Known:
    options = ApplyOptions(owner=OWNER, recheck=recheck)
    examiner = Examiner(api=server, options=options, clock=CLOCK, find=find)
    metadata = {"name": REF.name, "namespace": REF.namespace, "labels": OWNER.labels}
    payload = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": dict(intent)}
    checked = await examiner.check(payload, known=known)
    written = await write(server, checked, options)
    (left,) = ChangeSet(entries=(written.change,)).known.values()
    return left


def _finished(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run what never has to wait."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        return cast("T", done.value)
    raise AssertionError


class Times:
    """A server whose clock is at the end of the second ``NOW``, as far as it is relied on."""

    async def request(self, *_: object, **__: object) -> Json:
        return {"metadata": {"creationTimestamp": f"2026-01-01T00:01:{NOW:02}Z"}}


CLOCK: Final = ServerClock(monotonic=lambda: 0.0)


@cache
def _seen(stored: Stored) -> Live:
    projector = Projector(gvk=REF.gvk, manager=MANAGER, group=KUSTOMIZE_GROUP)
    return projector.project(stored.json)


def _reconcile(
    world: World, intent: Intent | None = None, *, recheck: bool = False, edit: int = -1
) -> World:
    """Let a pass run; an edit at 0 is before the dry-run's answer, one at 1 or 2 after it."""
    world = replace(world, intent=intent or world.intent)
    server = Server(world.live, partial(_edited, changes={"data/a": "3"}), at=edit)
    return Applier(world).run(world, server, recheck=recheck)


def _written(world: World, live: Stored) -> World:
    world = replace(world, live=live, left=False)
    return world if world.late else _catch_up(world)


def _catch_up(world: World) -> World:
    applier = Applier(world)
    applier.told = world.told
    shown = applier.show(world.live)
    return replace(world, shown=shown, late=False, told=applier.told, left=False)


def _edited(stored: Stored, changes: Mapping[str, str | None]) -> Stored:
    return stored.put(stored.object.update("editor", changes, second=NOW))


def _edit(world: World, **data: str | None) -> World:
    changes = {f"data/{key}": value for key, value in data.items()}
    return _written(world, _edited(world.live, changes))


def _label(world: World, value: str | None) -> World:
    return _written(world, _edited(world.live, {LABEL: value}))


def _helm(world: World, **data: str) -> World:
    wanted = {f"data/{key}": value for key, value in data.items()}
    return _written(world, world.live.put(world.live.object.apply("helm", wanted, second=NOW)))


def _tick(world: World) -> World:
    """Let a second pass; stamps keep their order and take no more numbers than they need."""
    both = [one for one in (world.live, world.shown) if one]
    seconds = {entry.second for one in both for _, entry in one.object.managers}
    past = sorted((second for second in seconds if second is not None), reverse=True)
    shift: dict[int | None, int | None] = {s: NOW - 1 - rank for rank, s in enumerate(past)}
    shift[None] = None
    live, shown = (
        replace(one, object=one.object.shifted(shift)) if one else None
        for one in (world.live, world.shown)
    )
    assert live
    return replace(world, live=live, shown=shown)


def _ranked(world: World) -> World:
    """Give the versions new numbers, because they count only by their order."""
    versions = {one.version for one in (world.live, world.shown) if one}
    versions |= {int(world.known.resource_version)} if world.known else set()
    rank = {version: 10 + n for n, version in enumerate(sorted(versions))}
    known = world.known
    return replace(
        world,
        live=replace(world.live, version=rank[world.live.version]),
        shown=replace(world.shown, version=rank[world.shown.version]) if world.shown else None,
        known=replace(known, resource_version=str(rank[int(known.resource_version)]))
        if known
        else None,
    )


STEPS: Final[Mapping[str, Callable[[World], World]]] = {
    "a pass": _reconcile,
    "a requested pass": partial(_reconcile, recheck=True),
    "a pass: a, b": partial(_reconcile, intent=INTENTS[0]),
    "a pass: a": partial(_reconcile, intent=INTENTS[1]),
    "a pass: a of 2, b": partial(_reconcile, intent=INTENTS[2]),
    "an edit before a requested pass asks": partial(_reconcile, recheck=True, edit=0),
    "an edit after a requested pass asked": partial(_reconcile, recheck=True, edit=1),
    "an edit after a pass asked": partial(_reconcile, intent=INTENTS[0], edit=1),
    "an edit after a pass wrote": partial(_reconcile, intent=INTENTS[2], edit=2),
    "editor: a of 1": partial(_edit, a="1"),
    "editor: a of 3": partial(_edit, a="3"),
    "editor: no a": partial(_edit, a=None),
    "editor: no b": partial(_edit, b=None),
    "editor: label": partial(_label, value=OWNER.labels[LABEL.partition("/")[2]]),
    "editor: no label": partial(_label, value=None),
    "helm: b of 1": partial(_helm, b="1"),
    "helm: b of 2": partial(_helm, b="2"),
    "helm: nothing": _helm,
    "status": lambda world: _written(world, replace(world.live, version=world.live.version + 1)),
    "the watch is late": lambda world: replace(world, late=True, left=False),
    "the watch catches up": _catch_up,
    "restart": lambda world: replace(
        world,
        known=None,
        told=False,
        late=False,
        left=False,
        shown=world.live if world.live.visible else None,
    ),
    "restart, nothing seen": lambda world: replace(
        world, known=None, told=False, late=True, left=False, shown=None
    ),
    "a second passes": _tick,
}


def _wrong(world: World) -> str:
    """Return what is wrong with what the applier believes, if anything."""
    if world.left:
        return "a pass has left a difference"
    if world.late or not world.known:
        return ""
    if world.differs and not world.told:
        return "drift is not told"
    if world.told and not world.differs:
        return "drift is told that is none"
    return ""


def test_every_history_of_a_few_steps_is_judged_as_a_dry_run_would() -> None:
    _finished(CLOCK.learn(Times()))
    empty = World(Stored(Simulated(), 1), INTENTS[0], None)
    histories: dict[World, tuple[str, ...]] = {_ranked(_reconcile(empty)): ()}
    latest = list(histories)
    for _ in range(DEPTH):
        reached = []
        for before in latest:
            for name, step in STEPS.items():
                after = _ranked(step(before))
                if after not in histories:
                    histories[after] = (*histories[before], name)
                    reached.append(after)
        latest = reached

    wrong = {histories[world]: found for world in histories if (found := _wrong(world))}

    assert not wrong
