"""Writing one object that has passed its dry-run."""

from dataclasses import dataclass
from typing import Final

from toolkit.apply import fields, health, migrate, ownership, recreate
from toolkit.apply.changes import Action, Change
from toolkit.apply.check import Checked, read_whole
from toolkit.apply.options import ApplyOptions
from toolkit.apply.pace import Pace
from toolkit.kube import client, errors
from toolkit.objects import Json, dig

_MIGRATION_ATTEMPTS: Final = 5


@dataclass(frozen=True, slots=True)
class Written:
    """The outcome, and the object as it is now where that was learnt."""

    change: Change
    object: Json | None = None


async def write(
    api: client.Client,
    checked: Checked,
    options: ApplyOptions,
    pace: Pace | None = None,
    *,
    whole: bool = True,
) -> Written:
    """Write as the check decided, and return the outcome, ``whole`` or with metadata only.

    Raises:
        ApiError: the server refuses the write.
    """
    if checked.verdict == "leave":
        return Written(Change(ref=checked.ref, action="skipped", left=True))
    if checked.verdict == "skip":
        return Written(Change(ref=checked.ref, action="skipped"))
    if checked.verdict == "unchanged":
        return Written(_unchanged(checked, options))
    if checked.verdict == "recreate" and checked.answer is not None:
        await recreate.remove(api, checked.answer, timeout=options.recreate_timeout)
    if checked.migrate and checked.answer is not None:
        await _migrate(api, checked, checked.answer, options)
    if pace is not None and not checked.created:
        await pace.wait(checked.ref.identity, checked.digest)
    metadata_only = not (whole or read_whole(checked.payload))
    applied = await api.apply(checked.payload, manager=options.manager, metadata_only=metadata_only)
    if pace is not None:
        pace.note(checked.ref.identity, checked.digest)
    same = _version(applied.object) == _version(checked.answer or {})
    action: Action = "created" if applied.created else "unchanged" if same else "configured"
    change = _change(checked, applied.object, options, action)
    return Written(change, applied.object)


def _unchanged(checked: Checked, options: ApplyOptions) -> Change:
    known = checked.known
    if known is None:
        return _change(checked, checked.answer or {}, options, "unchanged")
    return Change(
        ref=checked.ref,
        action="unchanged",
        payload_digest=checked.digest,
        entry_digest=known.entry_digest,
        uid=known.uid,
        resource_version=known.resource_version,
        vanishing=known.vanishing,
        yielded=known.yielded,
        stamp=known.stamp,
    )


def _change(checked: Checked, obj: Json, options: ApplyOptions, action: Action) -> Change:
    return Change(
        ref=checked.ref,
        action=action,
        payload_digest=checked.digest,
        entry_digest=fields.entry_digest(obj, options.manager),
        uid=str(dig(obj, "metadata", "uid", default="")),
        resource_version=_version(obj),
        vanishing=health.vanishes(obj),
        yielded=ownership.yields(checked.payload, options.owner),
        stamp=fields.stamp(obj, options.manager),
    )


async def _migrate(
    api: client.Client, checked: Checked, answer: Json, options: ApplyOptions
) -> None:
    """Take over fields of other managers; after a concurrent write, read the object again."""
    ref, manager = checked.ref, options.manager
    for attempt in range(1, _MIGRATION_ATTEMPTS + 1):
        live = await api.get(ref.gvk, ref.name, ref.namespace)
        body = migrate.patch(live, answer=answer, manager=manager, overridden=options.overridden)
        if not body:
            return
        try:
            await api.patch(
                ref.gvk, ref.name, ref.namespace, body, strategy="json", manager=manager
            )
        except (errors.ConflictError, errors.InvalidError):
            # 409: the object changed, 422: a tested entry did
            if attempt == _MIGRATION_ATTEMPTS:
                raise
        else:
            return


def _version(obj: Json) -> str:
    return str(dig(obj, "metadata", "resourceVersion", default=""))
