"""What an apply would change: live object against dry-run answer, field by field.

For ``penstock diff``; the reconciler needs no comparison. Status and what the server keeps for
itself are left out, and the values of Secrets are replaced by the words that they changed.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from toolkit.apply import bounded, masking, ownership, scope
from toolkit.apply.changes import ApplyError
from toolkit.apply.check import Checked, Examiner
from toolkit.apply.options import ApplyOptions
from toolkit.kube import client, errors
from toolkit.objects import Json, ObjectRef, ref_of

_ABSENT: Final = object()
_SERVER_KEPT: Final = frozenset(
    {"creationTimestamp", "generation", "managedFields", "resourceVersion", "uid"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldChange:
    """One field: ``path`` as a JSON pointer; ``before`` or ``after`` is None where it is absent."""

    path: str
    action: Literal["added", "changed", "removed"]
    before: Any = None
    after: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectDiff:
    """What would happen to one object; ``problem`` is why the server would refuse it."""

    ref: ObjectRef
    action: Literal["created", "configured", "recreated", "unchanged", "skipped", "refused"]
    changes: tuple[FieldChange, ...] = ()
    problem: str = ""


async def diff(
    api: client.Client, objects: Sequence[Json], *, options: ApplyOptions
) -> tuple[ObjectDiff, ...]:
    """Compare every object, which ``ownership.own`` has prepared, with what is live.

    Raises:
        ApplyError: objects are named wrongly.
        ApiError: the server cannot be asked at all.
    """
    scoped, failures = await scope.resolve(api, objects)
    if failures:
        raise ApplyError(failures)
    examiner = Examiner(api=api, options=options)

    async def one(obj: Json) -> ObjectDiff:
        return await _diff(api, await examiner.check(obj))

    results = await bounded.each(scoped, one, limit=options.concurrency)
    bounded.raise_general(results)
    return tuple(
        result if isinstance(result, ObjectDiff) else _refused(obj, result)
        for obj, result in zip(scoped, results, strict=True)
    )


def compare(before: Json, after: Json) -> tuple[FieldChange, ...]:
    """Return the fields in which two versions of an object differ."""
    if ownership.is_secret(after):
        before, after = masking.mask_pair(before, after)
    return tuple(_walk("", _comparable(before), _comparable(after)))


async def _diff(api: client.Client, checked: Checked) -> ObjectDiff:
    ref, answer = checked.ref, checked.answer
    if checked.verdict == "skip" or answer is None:
        return ObjectDiff(ref=ref, action="skipped")
    if checked.verdict == "recreate":
        # the answer is the live object here: the dry-run was refused
        return ObjectDiff(ref=ref, action="recreated", changes=compare(answer, checked.payload))
    if checked.created:
        return ObjectDiff(ref=ref, action="created", changes=compare({}, answer))
    changes = compare(await api.get(ref.gvk, ref.name, ref.namespace), answer)
    return ObjectDiff(
        ref=ref, action="configured" if changes or checked.migrate else "unchanged", changes=changes
    )


def _refused(obj: Json, error: errors.ApiError) -> ObjectDiff:
    return ObjectDiff(ref=ref_of(obj), action="refused", problem=str(masking.failure(obj, error)))


def _comparable(obj: Json) -> Json:
    kept = {key: value for key, value in obj.items() if key != "status"}
    if "metadata" in kept:
        kept["metadata"] = {k: v for k, v in kept["metadata"].items() if k not in _SERVER_KEPT}
    return kept


def _walk(path: str, before: Any, after: Any) -> Iterator[FieldChange]:
    if before is _ABSENT:
        yield FieldChange(path=path, action="added", after=after)
    elif after is _ABSENT:
        yield FieldChange(path=path, action="removed", before=before)
    elif isinstance(before, Mapping) and isinstance(after, Mapping):
        for key in sorted(before.keys() | after.keys()):
            step = f"{path}/{key.replace('~', '~0').replace('/', '~1')}"
            yield from _walk(step, before.get(key, _ABSENT), after.get(key, _ABSENT))
    elif isinstance(before, list) and isinstance(after, list):
        for index in range(max(len(before), len(after))):
            yield from _walk(
                f"{path}/{index}",
                before[index] if index < len(before) else _ABSENT,
                after[index] if index < len(after) else _ABSENT,
            )
    elif before != after:
        yield FieldChange(path=path, action="changed", before=before, after=after)
