"""What an apply of a set would change, found by dry-runs. Nothing is written.

Each object goes through the same checks as in an apply (``check``), so skip marks, forcing and
ignored fields have the same effect. The field-by-field comparison is for users only. Values of
Secrets are compared but never shown.

A caller that cannot decrypt sends stand-ins for encrypted Secrets, and computes what admission
makes of the answer.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from toolkit.apply import bounded, comparison, masking, order, ownership, retention, scope
from toolkit.apply.changes import ApplyError, Failure
from toolkit.apply.check import Checked, Examiner
from toolkit.apply.options import ApplyOptions
from toolkit.apply.ownership import Owner
from toolkit.kube import client, errors
from toolkit.objects import Json, ObjectRef, dig, gvk_of, key_of, ref_of

Fate = Literal["created", "drifted", "recreated", "deleted", "refused"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The result for one object: its fate and its differences; ``failure`` is a refusal."""

    ref: ObjectRef
    fate: Fate
    differences: tuple[comparison.Difference, ...] = ()
    failure: Failure | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StandIns:
    """Replaces an object before it is sent, given the live one, and converts the answer."""

    send: Callable[[Json, Json | None], Json]
    admit: Callable[[Json, Json, Json], Json]


_TRIES: Final = 3
AS_IS: Final = StandIns(send=lambda obj, _live: obj, admit=lambda answer, _obj, _live: answer)


async def diff(  # noqa: PLR0913 - the inputs of a comparison
    api: client.Client,
    objects: Sequence[Json],
    *,
    options: ApplyOptions,
    inventory: Sequence[ObjectRef] = (),
    stand_ins: StandIns = AS_IS,
    secret: Callable[[str], bool] = lambda _: False,
    deletes: Callable[[Json], bool] | None = None,
) -> tuple[Finding, ...]:
    """Return the changes in the order of the objects, deletions last.

    ``objects`` must be prepared by ``ownership.own``. Objects of ``inventory`` that are not among
    them would be deleted if the owner may prune them, or if ``deletes`` returns true for the live
    object. ``secret`` is as in ``comparison.compare``, and is called in a thread.

    Raises:
        ApplyError: the names of objects are invalid.
        ApiError: the server cannot be reached.
    """
    scoped, failures = await scope.resolve(api, objects)
    if failures:
        raise ApplyError(failures)
    examination = _Examination(
        api=api,
        examiner=Examiner(api=api, options=options, whole=True),
        coming=_Coming.of(scoped),
        stand_ins=stand_ins,
        secret=secret,
    )
    found = await bounded.each(scoped, examination.of, limit=options.concurrency)
    bounded.raise_general(found)
    kept = {ref_of(obj).identity for obj in scoped}
    stale = [ref for ref in inventory if ref.identity not in kept]
    owner = options.owner
    ours = deletes or (lambda live: owner.owns(live) and ownership.prunable(live, owner))
    gone = await bounded.each(
        stale, lambda ref: _deletion(api, ref, owner, ours), limit=options.concurrency
    )
    bounded.raise_general(gone)
    return tuple(finding for finding in (*found, *gone) if isinstance(finding, Finding))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Coming:
    """Namespaces and kinds that the set itself creates; the server cannot check their users yet."""

    namespaces: frozenset[str]
    kinds: frozenset[tuple[str, str]]

    @classmethod
    def of(cls, objects: Iterable[Json]) -> "_Coming":
        objects = tuple(objects)
        names = (key_of(o).name for o in objects if gvk_of(o).group_kind == ("", "Namespace"))
        kinds = (order.defined_kind(o) for o in objects)
        return cls(namespaces=frozenset(names), kinds=frozenset(kind for kind in kinds if kind))

    def explains(self, obj: Json, error: errors.ApiError) -> bool:
        """Tell whether the object is refused only because something of the set is not there."""
        if isinstance(error, errors.NoMatchError):
            return gvk_of(obj).group_kind in self.kinds
        missing = isinstance(error, errors.NotFoundError)
        return missing and key_of(obj).namespace in self.namespaces


@dataclass(frozen=True, slots=True, kw_only=True)
class _Examination:
    """Looks at one object after the other."""

    api: client.Client
    examiner: Examiner
    coming: _Coming
    stand_ins: StandIns
    secret: Callable[[str], bool]

    async def of(self, obj: Json) -> Finding | None:
        ref = ref_of(obj)
        try:
            return await self._examined(ref, obj)
        except errors.ApiError as exc:
            bounded.raise_general([exc])
            if self.coming.explains(obj, exc):
                return Finding(ref=ref, fate="created")
            failure = await asyncio.to_thread(masking.failure, obj, exc)
            return Finding(ref=ref, fate="refused", failure=failure)

    async def _examined(self, ref: ObjectRef, obj: Json) -> Finding | None:
        live, checked = await self._at_once(ref, obj)
        if checked.verdict in ("leave", "skip"):
            return None
        if live is None:
            return Finding(ref=ref, fate="created")
        recreated = checked.verdict == "recreate"
        answer = checked.payload if recreated else checked.answer or live
        wanted = self.stand_ins.admit(answer, obj, live)
        differences = await asyncio.to_thread(comparison.compare, live, wanted, secret=self.secret)
        if recreated:
            return Finding(ref=ref, fate="recreated", differences=differences)
        return Finding(ref=ref, fate="drifted", differences=differences) if differences else None

    async def _at_once(self, ref: ObjectRef, obj: Json) -> tuple[Json | None, Checked]:
        """Return the live object and the answer to a dry-run, of the same moment if possible.

        A dry-run answers at the resourceVersion that the object has. In between, its controller
        may have written to it, which would look like our doing.
        """
        for _ in range(_TRIES):
            live = await _live(self.api, ref)
            checked = await self.examiner.check(self.stand_ins.send(obj, live))
            answered = checked.verdict in ("write", "unchanged") and not checked.created
            if not answered or _version(live) == _version(checked.answer):
                break
        return live, checked


async def _deletion(
    api: client.Client, ref: ObjectRef, owner: Owner, ours: Callable[[Json], bool]
) -> Finding | None:
    """Return the finding for an object that left the set, if it exists and is ours to delete."""
    if owner.retains(ref):
        return None
    try:
        live = await _live(api, ref)
    except errors.NoMatchError:
        return None
    except errors.ForbiddenError as exc:
        failure = Failure(ref=ref, step="prune", reason=exc.api_reason, message=str(exc))
        return Finding(ref=ref, fate="refused", failure=failure)
    if live is None or not ours(live):
        return None
    if owner.keeps.guards(ref) and await retention.in_use(api, ref.name):
        return None
    return Finding(ref=ref, fate="deleted")


async def _live(api: client.Client, ref: ObjectRef) -> Json | None:
    try:
        return await api.get(ref.gvk, ref.name, ref.namespace)
    except errors.NotFoundError:
        return None


def _version(obj: Json | None) -> object:
    return dig(obj or {}, "metadata", "resourceVersion")
