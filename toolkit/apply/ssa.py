"""Applying a set of objects: everything is judged before anything is written.

1. Every object is dry-run, so that all refusals are reported together and nothing is half done.
   Only an object that cannot be judged yet, because its CRD, Namespace or another definition
   comes in the same set, waits for that.
2. Stage by stage, rank by rank, the objects are written; those that the dry-run (or what is known
   of them) proves unchanged are not. Objects of one rank go together.
3. Definitions and classes are waited for before the next stage.

The caller keeps the outcome: the inventory, and what ``live`` is to expect. This is the only module
that sends users' objects to a cluster.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from toolkit.apply import bounded, health, masking, order
from toolkit.apply.changes import ApplyError, Change, ChangeSet, Failure, Known
from toolkit.apply.check import Checked, Examiner, Find, is_definition, unseen
from toolkit.apply.clock import ServerClock
from toolkit.apply.health import Health, Status
from toolkit.apply.options import ApplyOptions
from toolkit.apply.order import Identity, Stage
from toolkit.apply.pace import Pace
from toolkit.apply.scope import resolve
from toolkit.apply.write import Written, write
from toolkit.kube import client, errors
from toolkit.objects import Json, ObjectRef, ref_of

Refusal = tuple[Json, errors.ApiError]
Announce = Callable[[Sequence[ObjectRef]], Awaitable[None]]

_NOTHING_KNOWN: Final[Mapping[Identity, Known]] = MappingProxyType({})
_FIRST_PAUSE: Final = 0.05
_MAX_PAUSE: Final = 2.0
_SETTLE_SECONDS: Final = 5.0
"""How long a new kind, schema or namespace may take until all parts of the server know it."""
_UNSETTLED: Final = ("field not declared in schema", "error looking up service account")


async def _ignore(_: Sequence[ObjectRef]) -> None:
    """Do nothing: the default ``announce``."""


async def apply(  # noqa: PLR0913 - the objects, and the caches
    api: client.Client,
    objects: Sequence[Json],
    *,
    options: ApplyOptions,
    known: Mapping[Identity, Known] = _NOTHING_KNOWN,
    clock: ServerClock | None = None,
    find: Find = unseen,
    pace: Pace | None = None,
    announce: Announce = _ignore,
) -> ChangeSet:
    """Apply the objects, which ``ownership.own`` has prepared, and return the changes.

    - ``known`` are earlier applied objects without drift: if the payload is the same, no request is
      sent (with ``options.recheck`` a dry-run).
    - ``find``, with a shared ``clock``, saves the write of objects that a dry-run shows as
      unchanged.
    - A shared ``pace`` keeps two contents of an object out of one second.
    - ``announce`` gets the objects that are about to be written, after the dry-runs and before the
      first write; if it fails, nothing is written.

    Raises:
        ApplyError: objects were refused; ``changes`` has the objects written until then.
        ApiError: the server cannot be reached.
    """
    if clock is not None:
        await clock.learn(api)
    scoped, failures = await resolve(api, objects)
    if failures:
        raise ApplyError(failures)
    run = _Run(
        api=api,
        options=options,
        known=known,
        examiner=Examiner(api=api, options=options, clock=clock, find=find),
        pace=pace,
        stages=order.stages(scoped, custom=options.custom_stage_kinds),
    )
    await run.examine()
    if writing := run.writing():
        await announce(writing)
    try:
        for stage in run.stages:
            await run.perform(stage)
    except errors.ApiError as exc:
        raise ApplyError([], changes=run.changes, message=str(exc)) from exc
    return ChangeSet(entries=tuple(run.changes))


@dataclass(slots=True, kw_only=True)
class _Run:
    """One apply in progress: its decisions and its results so far."""

    api: client.Client
    options: ApplyOptions
    known: Mapping[Identity, Known]
    examiner: Examiner
    pace: Pace | None
    stages: tuple[Stage, ...]
    checked: dict[Identity, Checked] = field(default_factory=dict)
    changes: list[Change] = field(default_factory=list)

    async def examine(self) -> None:
        """Check every object that can be checked before anything is written.

        Earlier stages go first, because the objects that they create determine which others cannot
        be checked yet.
        """
        definitions = {
            kind: _identity(obj)
            for stage in self.stages
            for obj in stage.objects
            if (kind := order.defined_kind(obj))
        }
        refused: list[Refusal] = []
        for stage in self.stages:
            pending = {identity for identity, one in self.checked.items() if _opens(one)}
            # Later objects may be refused without the objects that the operator wants written
            # first.
            lenient = stage.name == "resources" and self._opens_custom()
            found = await self._judge(
                [o for o in stage.objects if pending.isdisjoint(order.needs(o, definitions))]
            )
            refused += [] if lenient else found
        await self._raise(refused, step="dry-run")

    def writing(self) -> tuple[ObjectRef, ...]:
        """Return the objects that will be written, and those that cannot be checked yet."""
        objects = (ref_of(obj) for stage in self.stages for obj in stage.objects)
        checked = self.checked
        return tuple(
            ref for ref in objects if ref.identity not in checked or checked[ref.identity].writes
        )

    async def perform(self, stage: Stage) -> None:
        """Judge what had to wait for earlier stages, write the stage, wait until it is ready."""
        await self._judge_late([obj for obj in stage.objects if _identity(obj) not in self.checked])
        written: list[Written] = []
        for together in order.by_rank(stage.objects):
            written += await self._write(together, whole=stage.awaited)
        if stage.awaited:
            await self._wait(written)

    def _checked(self, stage: Stage) -> list[Checked]:
        return [self.checked[i] for i in map(_identity, stage.objects) if i in self.checked]

    def _opens_custom(self) -> bool:
        custom = (stage for stage in self.stages if stage.name == "custom")
        return any(_opens(one) for stage in custom for one in self._checked(stage))

    async def _judge(self, objects: Sequence[Json]) -> list[Refusal]:
        """Check the objects; return the refusals of the server."""

        async def check(obj: Json) -> Checked:
            return await self.examiner.check(obj, known=self.known.get(_identity(obj)))

        results = await bounded.each(objects, check, limit=self.options.concurrency)
        bounded.raise_general(results)
        refused = []
        for obj, result in zip(objects, results, strict=True):
            if isinstance(result, Checked):
                self.checked[result.ref.identity] = result
            else:
                refused.append((obj, result))
        return refused

    async def _judge_late(self, objects: Sequence[Json]) -> None:
        """Check the postponed objects; the server may need a moment to see those just written."""
        deadline = time.monotonic() + _SETTLE_SECONDS
        pause = _FIRST_PAUSE
        refused = await self._judge(objects)
        while any(_settling(error) for _, error in refused) and time.monotonic() < deadline:
            await asyncio.sleep(pause)
            pause = min(2 * pause, _MAX_PAUSE)
            self.api.mapper.invalidate()
            refused = await self._judge([obj for obj, _ in refused])
        await self._raise(refused, step="dry-run")

    async def _write(self, objects: Sequence[Json], *, whole: bool) -> list[Written]:
        async def one(obj: Json) -> Written:
            checked = self.checked[_identity(obj)]
            return await write(self.api, checked, self.options, self.pace, whole=whole)

        results = await bounded.each(objects, one, limit=self.options.concurrency)
        written = [result for result in results if isinstance(result, Written)]
        self.changes += [one.change for one in written]
        refused = [
            (obj, result)
            for obj, result in zip(objects, results, strict=True)
            if isinstance(result, errors.ApiError)
        ]
        await self._raise(refused, step="apply")
        return written

    async def _wait(self, written: Iterable[Written]) -> None:
        """Wait until the written objects are Current."""
        deadline = time.monotonic() + self.options.stage_timeout
        for one in written:
            if one.object is None or one.change.action == "unchanged":
                continue
            found = await self._ready(one.change.ref, one.object, deadline)
            if found.status is not Status.CURRENT:
                failure = Failure(
                    ref=one.change.ref,
                    step="wait",
                    reason=found.status.value,
                    message=found.message,
                )
                raise ApplyError([failure], changes=self.changes)

    async def _ready(self, ref: ObjectRef, obj: Json, deadline: float) -> Health:
        found, pause = health.assess(obj), _FIRST_PAUSE
        while found.status is Status.IN_PROGRESS and time.monotonic() < deadline:
            await asyncio.sleep(pause)
            pause = min(2 * pause, _MAX_PAUSE)
            found = health.assess(await self.api.get(ref.gvk, ref.name, ref.namespace))
        return found

    async def _raise(self, refused: Sequence[Refusal], *, step: str) -> None:
        """Report all refusals of a step together, if there are any."""
        if refused:
            failures = await asyncio.to_thread(_failures, refused, step)
            raise ApplyError(failures, changes=self.changes)


def _failures(refused: Sequence[Refusal], step: str) -> list[Failure]:
    """Return what to report; this may take long, because Secrets may have many values."""
    return sorted((masking.failure(obj, error, step=step) for obj, error in refused), key=str)


def _identity(obj: Json) -> Identity:
    return ref_of(obj).identity


def _opens(checked: Checked) -> bool:
    """Tell whether others can be judged only after this object has been written."""
    defines = is_definition(checked) and checked.writes
    return checked.created or checked.verdict == "recreate" or defines


def _settling(error: errors.ApiError) -> bool:
    missing = isinstance(error, (errors.NoMatchError, errors.NotFoundError))
    return missing or any(text in str(error) for text in _UNSETTLED)
