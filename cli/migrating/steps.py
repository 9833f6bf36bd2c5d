"""The steps of a takeover, in order.

Each can be repeated at any time: it makes its changes, and skips those that are done. Before a step
changes anything, it stores the data for undoing it.
"""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

import msgspec

from cli import progress, session
from cli.installing import manifests, removing, writing
from cli.migrating import connecting, excluding, fleet, stopping, verifying
from cli.migrating.memory import MANAGER, Book
from cli.migrating.survey import Survey
from cli.stack import install
from crds import REFERENCE_GRANT
from toolkit.kube.errors import NoMatchError, NotFoundError
from toolkit.objects import GroupVersionKind, Json, dig, key_of

_GRANT: Final = GroupVersionKind(*REFERENCE_GRANT.gvk)
_NAMED: Final = 5
"""Objects that a line names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Takeover:
    """The inputs of the steps. ``opened`` is a session in the namespace of Penstock."""

    opened: session.Session
    survey: Survey
    book: Book
    choice: manifests.Choice
    grants: bool


Deed: TypeAlias = Callable[[Takeover], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A step: its name and title, what undoing it does, and both deeds."""

    name: str
    title: str
    undone: str
    do: Deed
    undo: Deed


async def _remember(work: Takeover) -> None:
    """Store the state of Flux, unless it is stored already."""
    memory, survey = work.book.memory, work.survey
    first = not work.book.is_written
    await _noted(
        work,
        done=memory.done or (STEPS[0].name,),
        namespace=work.choice.namespace,
        replicas=stopping.replicas(survey, memory.replicas),
        unready=verifying.unready(survey) if first else memory.unready,
    )


async def _forget(work: Takeover) -> None:
    await work.book.erase()


async def _exclude(work: Takeover) -> None:
    parts = excluding.parts(work.survey, work.book.memory.parts)
    await _noted(work, parts=parts)
    await excluding.exclude(work.opened.api, parts)
    progress.success(f"{len(parts)} objects of Flux are left alone")


async def _include(work: Takeover) -> None:
    await excluding.include(work.opened.api, work.book.memory.parts)


async def _stop(work: Takeover) -> None:
    await stopping.stop(work.opened, work.survey.namespace, list(work.book.memory.replicas))


async def _start(work: Takeover) -> None:
    await stopping.start(work.opened, work.survey.namespace, work.book.memory.replicas)


async def _install(work: Takeover) -> None:
    api, namespace = work.opened.api, work.choice.namespace
    fresh = work.book.memory.fresh or await install.is_fresh(api, namespace)
    await _noted(work, fresh=fresh)
    objects = await manifests.build(work.choice)
    await writing.write(work.opened, objects)
    if fresh:  # an interrupted run may have made the namespace, and not the grants
        await install.grant(api, {namespace, install.SHARED})
    await writing.ready(work.opened, objects)


async def _remove(work: Takeover) -> None:
    wish = removing.Wish(keep_namespace=False, custom_resources=False)
    found = await removing.survey(work.opened, wish)
    if found.others:
        names = ", ".join(f"{each.gvk.kind}/{each.name}" for each in found.others[:_NAMED])
        progress.action(
            f"namespace {work.opened.namespace} holds {len(found.others)} objects of yours "
            f"({names}), and stays"
        )
        wish, found = replace(wish, keep_namespace=True), replace(found, others=())
    if found.is_empty(wish):
        return
    removing.require_harmless(found, work.opened.namespace)
    await removing.remove(work.opened, found, wish)


async def _grant(work: Takeover) -> None:
    """Write the grants that references lack, if requested."""
    if not work.grants:
        return
    missing = fleet.missing_grants(work.survey, work.choice.namespace)
    known = dict.fromkeys(work.book.memory.grants)
    names = {(key_of(each).namespace, key_of(each).name): None for each in missing}
    await _noted(work, grants=tuple(known | names))
    for each in missing:
        await work.opened.api.apply(each, manager=MANAGER)
    progress.success(f"{len(missing)} ReferenceGrants written")


async def _revoke(work: Takeover) -> None:
    for namespace, name in work.book.memory.grants:
        with suppress(NotFoundError, NoMatchError):
            live = await work.opened.api.get(_GRANT, name, namespace)
            if _is_of_this_command(live):
                await work.opened.api.delete(_GRANT, name, namespace)


def _is_of_this_command(obj: Json) -> bool:
    entries = dig(obj, "metadata", "managedFields", default=())
    return any(entry.get("manager") == MANAGER for entry in entries)


async def _connect(work: Takeover) -> None:
    await connecting.allow(work.opened.api, work.survey, work.choice.namespace)


async def _disconnect(work: Takeover) -> None:
    await connecting.forbid(work.opened.api, work.opened.namespace)


async def _verify(work: Takeover) -> None:
    await verifying.verify(work.opened, work.survey, work.book.memory.unready)


async def _nothing(work: Takeover) -> None:
    del work


STEPS: Final[Sequence[Step]] = (
    # first, so that all others can be resumed and undone
    Step(
        name="remember",
        title="remember how Flux runs",
        undone="forget it",
        do=_remember,
        undo=_forget,
    ),
    # before controllers stop, so that none of them starts another again
    Step(
        name="exclude",
        title="exclude Flux's own objects from what Git applies",
        undone="include them again",
        do=_exclude,
        undo=_include,
    ),
    # before Penstock starts, so that two controllers never reconcile one object
    Step(
        name="stop",
        title="stop the controllers of Flux that Penstock replaces",
        undone="start them again",
        do=_stop,
        undo=_start,
    ),
    Step(
        name="install",
        title="install Penstock",
        undone="remove Penstock, and leave what it applied",
        do=_install,
        undo=_remove,
    ),
    # once the kind is served
    Step(
        name="grant",
        title="grant the references to other namespaces that there are",
        undone="delete these grants",
        do=_grant,
        undo=_revoke,
    ),
    # when the namespace exists
    Step(
        name="connect",
        title="let what is left of Flux fetch artifacts",
        undone="forbid it",
        do=_connect,
        undo=_disconnect,
    ),
    Step(
        name="verify",
        title="have everything reconciled by Penstock",
        undone="nothing",
        do=_verify,
        undo=_nothing,
    ),
)


def listed(done: Sequence[str]) -> list[Json]:
    """Return the steps for programs, with whether they were begun."""
    return [
        {
            "number": number,
            "name": each.name,
            "title": each.title,
            "undo": each.undone,
            "done": each.name in done,
        }
        for number, each in enumerate(STEPS, 1)
    ]


async def _noted(work: Takeover, **changed: object) -> None:
    await work.book.write(msgspec.structs.replace(work.book.memory, **changed))
