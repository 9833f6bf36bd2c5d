"""Decide what to do with one object, by a dry-run before anything is written.

A dry-run answers with the object as it would be after the write, and its current resourceVersion.
So one request shows whether the object is new, who else owns its fields, whether the live object
forbids changes, and whether anything would change. Nothing here writes.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from toolkit.apply import fields, ignore, migrate, ownership, recreate, structs
from toolkit.apply.changes import Known
from toolkit.apply.clock import ServerClock
from toolkit.apply.options import ApplyOptions
from toolkit.apply.projection import Live
from toolkit.kube import client, errors
from toolkit.objects import Json, ObjectRef, dig, gvk_of, ref_of

Verdict = Literal["leave", "skip", "unchanged", "write", "recreate"]
"""``leave`` is for what the manifest itself wants to be left alone, ``skip`` for what is there."""

Find = Callable[[ObjectRef], Live | None]
"""Returns a live object from a watch, without a request."""


def unseen(_: ObjectRef) -> Live | None:
    """Return nothing: the default without a watch, with which no object counts as unchanged."""
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """The decision about one object.

    - ``answer`` is the answer to the dry-run, usually metadata only. For an unchanged object
      without a dry-run, ``known`` replaces it.
    - ``created`` tells that the object does not exist yet.
    - ``migrate`` tells that fields of other managers must be taken over first.
    """

    ref: ObjectRef
    payload: Json
    digest: str
    verdict: Verdict
    answer: Json | None = None
    known: Known | None = None
    created: bool = False
    migrate: bool = False

    @property
    def writes(self) -> bool:
        """Tell whether the object will be written."""
        return self.verdict in ("write", "recreate")


@dataclass(frozen=True, slots=True, kw_only=True)
class Examiner:
    """Checks the objects of one set for one identity; with ``whole`` the answers are whole."""

    api: client.Client
    options: ApplyOptions
    clock: ServerClock | None = None
    find: Find = unseen
    whole: bool = False

    async def check(self, obj: Json, *, known: Known | None = None) -> Checked:
        """Decide what to do with an object, which must have the labels of its owner.

        Raises:
            ApiError: the server refuses the object.
            StalledError: an ignore rule is invalid.
        """
        owner, obj = self.options.owner, ownership.ceded(obj)
        ignored = ignore.pointers(obj, self.options.ignore)
        draft = Checked(
            ref=ref_of(obj), payload=obj, digest=payload_digest(obj, ignored), verdict="skip"
        )
        if ownership.hands_off(obj, owner):
            return replace(draft, verdict="leave")
        same = known is not None and known.payload_digest == draft.digest
        if same and not self.options.recheck:
            return replace(draft, verdict="unchanged", known=known)
        if owner.retains(draft.ref) and await self._taken(draft.ref):
            return draft
        if ownership.yields(obj, owner) and await self._live(draft.ref):
            return draft
        if ignored:
            draft = await self._reduced(draft, ignored)
        return await self._dry_run(draft, known, same=same)

    async def _taken(self, ref: ObjectRef) -> bool:
        """Tell whether another owner has a namespace that this one must not take over."""
        seen = self.find(ref)
        owner = seen.owner if seen else None
        if owner is None:
            owner = ownership.owner_of(await self._live(ref) or {}, self.options.owner.group)
        return owner not in {None, self.options.owner.key}

    async def _reduced(self, draft: Checked, ignored: tuple[tuple[str, ...], ...]) -> Checked:
        live = await self._live(draft.ref)
        if live is None:
            return draft
        payload = ignore.reduce(draft.payload, live, manager=self.options.manager, ignored=ignored)
        return replace(draft, payload=ownership.own(payload, self.options.owner))

    async def _dry_run(self, draft: Checked, known: Known | None, *, same: bool) -> Checked:
        try:
            draft, applied = await self._applied(draft, known)
        except errors.ApiError as exc:
            return await self._refused(draft, exc)
        manager, answer = self.options.manager, applied.object
        self._require_consumed(answer)
        if applied.created:
            return replace(draft, verdict="write", answer=answer, created=True)
        if ownership.hands_off(answer, self.options.owner):
            return draft
        merged = ownership.marked(draft.payload, self.options.owner, "ssa", "merge")
        takes = not merged and migrate.due(answer, manager, self.options.overridden)
        if not takes and self._leaves_alone(draft.ref, answer, same=same):
            return replace(draft, verdict="unchanged", answer=answer)
        return replace(draft, verdict="write", answer=answer, migrate=takes)

    async def _applied(self, draft: Checked, known: Known | None) -> tuple[Checked, client.Applied]:
        """Dry-run the object, once more with the empty maps that the apply before it sent."""
        manager = self.options.manager
        try:
            applied = await self._sent(draft.payload)
        except errors.InvalidError:
            whole = await self._kept(draft)
            if whole is draft:
                raise
            return whole, await self._sent(whole.payload)
        lost = known is None or known.entry_digest != fields.entry_digest(applied.object, manager)
        if applied.created or not (lost and structs.runs(draft.payload)):
            return draft, applied
        whole = await self._kept(draft)
        return whole, applied if whole is draft else await self._sent(whole.payload)

    async def _sent(self, payload: Json) -> client.Applied:
        return await self.api.apply(
            payload,
            manager=self.options.manager,
            dry_run=True,
            metadata_only=not (self.whole or read_whole(payload)),
        )

    async def _kept(self, draft: Checked) -> Checked:
        live = await self._live(draft.ref)
        if live is None:
            return draft
        payload = structs.kept(draft.payload, live, manager=self.options.manager)
        return draft if payload is draft.payload else replace(draft, payload=payload)

    def _require_consumed(self, answer: Json) -> None:
        """Refuse what no webhook took, before it is written."""
        kept = self.options.consumed.intersection(answer.get("data") or {})
        if ownership.is_secret(answer) and kept:
            raise errors.ForbiddenError(
                f"admission left data.{min(kept)} as it is: the API server did not call the "
                "webhook that decrypts it; was its configuration deleted or changed?"
            )

    def _leaves_alone(self, ref: ObjectRef, answer: Json, *, same: bool) -> bool:
        """Tell whether it is proven that the write would change nothing (ADR 6).

        ``same`` tells that our last apply sent the same payload.
        """
        # 1. The answer is compared with the object that it answers for, not with an earlier one.
        live = self.find(ref)
        if live is None or live.resource_version != dig(answer, "metadata", "resourceVersion"):
            return False
        # 2. We would own what we own. A stamp does not tell that: an apply that changes only
        #    owners keeps it.
        manager = self.options.manager
        stamp = fields.stamp(answer, manager)
        if (live.entry, live.stamp) != (fields.entry_digest(answer, manager), stamp):
            return False
        # 3. No value would change, because a change renews the stamp. A new stamp can only equal
        # the old one within the same second. So the stamp must be in the past, or the payload must
        # be the same.
        return same or (self.clock is not None and self.clock.past(stamp))

    async def _refused(self, draft: Checked, error: errors.ApiError) -> Checked:
        """Make the best of a refusal: the live object may want to be left alone, or recreated."""
        if not isinstance(error, (errors.InvalidError, errors.ForbiddenError)):
            raise error
        owner = self.options.owner
        try:
            live = await self._live(draft.ref)
        except errors.ApiError:
            raise error from None
        if live is not None and ownership.hands_off(live, owner):
            return draft
        forced = self.options.force or ownership.marked(draft.payload, owner, "force", "enabled")
        if live is None or not forced or not recreate.immutable(error):
            raise error
        recreate.permit(draft.payload, owner)
        await recreate.rehearse(self.api, draft.payload)
        return replace(draft, verdict="recreate", answer=live)

    async def _live(self, ref: ObjectRef) -> Json | None:
        try:
            return await self.api.get(ref.gvk, ref.name, ref.namespace)
        except errors.NotFoundError:
            return None


def read_whole(payload: Json) -> bool:
    """Tell whether more than metadata is read of the answer to an apply.

    Of Secrets it is what admission has decrypted, of Jobs whether they delete themselves.
    """
    return ownership.is_secret(payload) or gvk_of(payload).group_kind == ("batch", "Job")


def payload_digest(obj: Json, ignored: tuple[tuple[str, ...], ...] = ()) -> str:
    """Return the digest of the payload and of the fields that are left to others."""
    return fields.digest([obj, ignored] if ignored else obj)


def is_definition(checked: Checked) -> bool:
    """Tell whether the object is a CRD, which changes the served kinds when it is written."""
    return gvk_of(checked.payload).kind == "CustomResourceDefinition"
