"""What a reconcile would change now: the same way as a pass, up to the dry-run, and no further.

The build is the reconciler's own, with its keys and variables; the server is asked as the identity
that would apply, on the cluster that would be applied to. So a plan shows nobody more than the
account of the Kustomization may read, and refuses what a pass would refuse. It writes nothing: no
status, no event, no finalizer, and the memory and the watches of the passes are left alone.

Dependencies and suspension are no obstacle: that is when people ask. Values of Secrets are masked,
and so is every value of another object that holds one, decrypted or substituted.
"""

import asyncio
import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, Protocol

import msgspec

from controllers.applying import redaction
from controllers.kustomize import inputs
from controllers.kustomize.kustomization import KustomizationReconciler
from controllers.kustomize.rendering import Rendered
from controllers.kustomize.settings import Settings
from controllers.kustomize.sources import Sources
from crds.kustomize import Kustomization
from toolkit import inventory
from toolkit.apply import comparison
from toolkit.apply import diff as applying
from toolkit.apply.changes import ApplyError
from toolkit.apply.comparison import Difference
from toolkit.apply.diff import Finding
from toolkit.errors import TransientError
from toolkit.kube.client import Client
from toolkit.kube.reconciliation import require_spec
from toolkit.objects import Json, ObjectRef, ref_of

_SECONDS: Final = 30.0
"""Of the deadline that a build may take."""
_PARALLEL: Final = 8
_MAX_MESSAGE: Final = 2000
_MANY: Final = 20_000
"""Secret values above which every value is masked, rather than looked for."""


class Revisions(Protocol):
    """Finds what is still stored of sources (``planrevisions.Retained``)."""

    async def at(self, sources: Sources, revision: str) -> Sources:
        """Return the sources as they were at a revision, by its name or digest."""
        ...


class Field(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One field that would change; values are JSON, cut and masked."""

    action: Literal["added", "changed", "removed"]
    path: str
    before: str = ""
    after: str = ""


class Change(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """What would happen to one object."""

    api_version: str
    kind: str
    namespace: str = ""
    name: str
    action: applying.Fate
    message: str = ""
    differences: tuple[Field, ...] = ()


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What a reconcile would change, and how many objects it would leave as they are."""

    revision: str
    unchanged: int
    changes: tuple[Change, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Planner:
    """Makes plans from the stages of the passes."""

    stages: KustomizationReconciler
    revisions: Revisions

    async def plan(self, obj: Kustomization, revision: str = "") -> Plan:
        """Return what a reconcile of a revision would change; with none, of the current one.

        Raises a typed error, as a pass would, with a message that shows no secret value.
        """
        require_spec(obj)
        stages = self.stages
        await stages.known()
        stages.accounts.require(obj)
        sources = stages.sources.resolve(obj)
        if revision:
            sources = await self.revisions.at(sources, revision)
            stages.sources.require_allowed(sources)
        admission = stages.admission.decrypts(obj)
        given = await inputs.gather(obj, stages.secrets, stages.decryption, admission=admission)
        async with stages.identities.cluster(obj) as cluster:
            client = stages.identities.impersonated(cluster, obj, sources.origin)
            seconds = min(obj.spec.timeout_seconds, _SECONDS)
            built = await stages.renderer.render(obj, sources, given, seconds=seconds)
            secrets = await asyncio.to_thread(built.redaction.secrets)
            found = await _found(client, obj, built, secrets, stages.settings)
        changes = await asyncio.to_thread(_changes, found, built, secrets)
        told = {finding.ref.identity for finding in found}
        unchanged = sum(ref_of(item).identity not in told for item in built.objects)
        return Plan(revision=sources.revision, unchanged=unchanged, changes=changes)


async def _found(
    client: Client,
    obj: Kustomization,
    built: Rendered,
    secrets: Collection[str],
    settings: Settings,
) -> Sequence[Finding]:
    options = settings.apply_options(obj)
    try:
        return await applying.diff(
            client,
            built.objects,
            options=replace(options, concurrency=max(options.concurrency, _PARALLEL)),
            inventory=_inventory(obj),
            secret=lambda text: _holds(text, secrets),
        )
    except ApplyError as error:
        raise TransientError(built.redaction.text(str(error)), reason=error.reason) from None


def _inventory(obj: Kustomization) -> Sequence[ObjectRef]:
    """Return what would be pruned if it left the build."""
    listed = obj.status.inventory
    if not obj.spec.prune or listed is None:
        return ()
    return inventory.decode(msgspec.to_builtins(listed.entries))


def _changes(
    found: Sequence[Finding], built: Rendered, secrets: Collection[str]
) -> tuple[Change, ...]:
    objects = {ref_of(obj).identity: obj for obj in built.objects}
    return tuple(_change(one, objects.get(one.ref.identity), secrets) for one in found)


def _change(finding: Finding, built: Json | None, secrets: Collection[str]) -> Change:
    ref, failure = finding.ref, finding.failure
    differences = finding.differences
    # what differs was judged whole, when it was compared; here it is about the rest of the object
    if differences and _holds(json.dumps(built, ensure_ascii=False), secrets):
        differences = comparison.masked(differences)
    message = redaction.hide(failure.message, secrets)[:_MAX_MESSAGE] if failure else ""
    return Change(
        api_version=ref.gvk.api_version,
        kind=ref.gvk.kind,
        namespace=ref.namespace,
        name=ref.name,
        action=finding.fate,
        message=message,
        differences=tuple(map(_field, differences)),
    )


def _holds(text: str, secrets: Collection[str]) -> bool:
    """Tell whether a text must not be shown, because some of it is secret, now or then."""
    if not secrets:
        return False
    return len(secrets) > _MANY or redaction.hide(text, secrets) != text


_ACTIONS: Final[dict[str, Literal["added", "changed", "removed"]]] = {
    "+": "added",
    "~": "changed",
    "-": "removed",
}


def _field(difference: Difference) -> Field:
    return Field(
        action=_ACTIONS[difference.op],
        path=difference.path,
        before=difference.old,
        after=difference.new,
    )
