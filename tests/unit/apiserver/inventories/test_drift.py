"""Drift, as somebody sees it who did not apply: every history of a small object.

A search goes through all states that writers and observer can get into together, in which stamps
count only by their order. Each is compared with what a dry-run would say.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Final

from apiserver.inventories import drift
from apiserver.inventories.appliers import APPLIERS
from apiserver.inventories.drift import Drift, Observed, State
from apiserver.inventories.observation import project
from apiserver.inventories.rows import Tracked
from tests.fakes.managedfields import Simulated
from tests.unit.apiserver.inventories import scene
from toolkit.apply.ownership import Owner

OURS: Final = scene.APPLIER.manager
LABELS: Final = {
    f"label/{key}": value
    for key, value in Owner(namespace=scene.KEY.namespace, name=scene.KEY.name).labels.items()
}
LABEL: Final = min(LABELS)
Intent = tuple[tuple[str, str], ...]
INTENTS: Final[tuple[Intent, ...]] = tuple(
    tuple(sorted({**LABELS, **data}.items()))
    for data in ({"data/a": "1", "data/b": "1"}, {"data/a": "1"}, {"data/a": "2", "data/b": "1"})
)


@dataclass(frozen=True, slots=True)
class World:
    """An object, its applier's intent, and what the observer knows.

    ``paced`` tells that the applier has written in this second. ``shown`` is what the observer saw
    last, None if the object is out of its sight, and ``missed`` how many writes it has missed since
    its watch broke, None if that works. ``traceless`` fields were removed while nobody looked. A
    ``quiet`` apply cannot be noticed: it only gave up what somebody had taken, for which the server
    writes nothing, or it changed nothing but owners while nobody looked.
    """

    live: Simulated
    intent: Intent
    shown: Simulated | None
    drift: State | None
    paced: bool = True
    missed: int | None = None
    traceless: frozenset[str] = frozenset()
    quiet: bool = False

    @property
    def visible(self) -> bool:
        return LABELS.items() <= dict(self.live.values).items()

    @property
    def differing(self) -> frozenset[str]:
        """Return the fields that an apply would change, or take back, as a dry-run tells."""
        after = self.live.apply(OURS, dict(self.intent), second=NOW)
        before, owned = dict(self.live.values), self.owned
        changed = dict(after.values).items() ^ before.items()
        return frozenset(name for name, _ in changed) | (dict(self.intent).keys() ^ owned)

    @property
    def owned(self) -> frozenset[str]:
        entry = self.live.entry(OURS, "Apply")
        return entry.fields if entry else frozenset()


NOW: Final = 9
DEPTH: Final = 4
Step = tuple[str, World]


def _start() -> World:
    live = Simulated().apply(OURS, dict(INTENTS[0]), second=NOW)
    return World(live, INTENTS[0], live, drift.NONE.state)


@cache
def _observed(live: Simulated) -> Observed:
    return project(scene.CONFIG_MAP, live.json(), APPLIERS[0])


@cache
def _take(known: State | None, shown: Simulated | None, new: Simulated, gap: bool) -> State:  # noqa: FBT001 - hashed
    before = None if known is None else Drift(state=known)
    tracked = Tracked(ref=scene.REF, drift=before, seen=_observed(shown) if shown else None)
    tracked.take(_observed(new), gap=gap)
    assert tracked.drift is not None
    return tracked.drift.state


def _look(world: World, *, gap: bool = False) -> World:
    """Let the observer see the object as it is."""
    world = replace(world, missed=None)
    if not world.visible:
        return replace(world, shown=None)
    late = gap or world.shown is None or world.drift is None
    found = _take(world.drift, world.shown, world.live, gap)
    owned = {name for _, entry in world.live.managers for name in entry.fields}
    traceless = world.traceless & world.differing
    traceless |= world.differing - owned if late else frozenset()
    return replace(world, shown=world.live, drift=found, traceless=traceless)


def _written(world: World, live: Simulated) -> World:
    world = replace(world, live=live)
    return _look(world) if world.missed is None else replace(world, missed=world.missed + 1)


def _apply(world: World, intent: Intent) -> World:
    if world.paced and intent != world.intent:
        world = _tick(world)  # ``toolkit.apply.pace``: another content waits for the next second
    live = world.live.apply(OURS, dict(intent), second=NOW)
    gave_up = live == world.live and (world.quiet or bool(world.differing))
    unseen = world.missed is not None and _stamp(live) == _stamp(world.live)
    return _written(replace(world, intent=intent, paced=True, quiet=gave_up or unseen), live)


def _stamp(live: Simulated) -> int | None:
    entry = live.entry(OURS, "Apply")
    return entry.second if entry else None


def _update(world: World, changes: Mapping[str, str | None]) -> World:
    return _written(world, world.live.update("kubectl", changes, second=NOW))


def _other(world: World, wanted: Mapping[str, str]) -> World:
    return _written(world, world.live.apply("helm", wanted, second=NOW))


def _tick(world: World) -> World:
    """Let a second pass; stamps keep their order and take no more numbers than they need."""
    seconds = {e.second for one in (world.live, world.shown) if one for _, e in one.managers}
    past = sorted((second for second in seconds if second is not None), reverse=True)
    shift: dict[int | None, int | None] = {s: NOW - 1 - rank for rank, s in enumerate(past)}
    shift[None] = None
    shown = world.shown.shifted(shift) if world.shown else None
    return replace(world, live=world.live.shifted(shift), shown=shown, paced=False)


STEPS: Final[Mapping[str, Callable[[World], World]]] = {
    "apply again": lambda world: _apply(world, world.intent),
    "apply a, b": lambda world: _apply(world, INTENTS[0]),
    "apply a": lambda world: _apply(world, INTENTS[1]),
    "apply a of 2, b": lambda world: _apply(world, INTENTS[2]),
    "kubectl: a of 1": lambda world: _update(world, {"data/a": "1"}),
    "kubectl: a of 3": lambda world: _update(world, {"data/a": "3"}),
    "kubectl: no a": lambda world: _update(world, {"data/a": None}),
    "kubectl: no b": lambda world: _update(world, {"data/b": None}),
    "kubectl: label": lambda world: _update(world, {LABEL: LABELS[LABEL]}),
    "kubectl: no label": lambda world: _update(world, {LABEL: None}),
    "helm: b of 1": lambda world: _other(world, {"data/b": "1"}),
    "helm: b of 2": lambda world: _other(world, {"data/b": "2"}),
    "helm: nothing": lambda world: _other(world, {}),
    "status": lambda world: _written(world, world.live),
    "the watch breaks": lambda world: replace(world, missed=world.missed or 0),
    "relist": lambda world: _look(world, gap=True),
    "restart": lambda world: _look(replace(world, shown=None, drift=None)),
    "a second passes": _tick,
}


def _wrong(world: World) -> str:
    """Return what is wrong with what the observer says, if anything."""
    if world.missed is not None or not world.visible:
        return ""
    if world.differing - world.traceless and not world.drift:
        return "drift is not told"
    if world.drift == "Changed" and not (world.differing or world.quiet):
        return "drift is told that is none"
    return ""


def test_every_history_of_a_few_steps_is_told_as_a_dry_run_would() -> None:
    histories: dict[World, tuple[str, ...]] = {_start(): ()}
    latest = list(histories)
    for _ in range(DEPTH):
        reached = []
        for before in latest:
            for name, step in STEPS.items():
                after = step(before)
                if after not in histories:
                    histories[after] = (*histories[before], name)
                    reached.append(after)
        latest = reached

    wrong = {histories[world]: found for world in histories if (found := _wrong(world))}

    assert not wrong
