"""The end of a migration: delete the rest of Flux; this cannot be undone.

``flux uninstall`` would delete the namespace, with sources and Kustomizations. Here only Flux's own
objects are deleted. Namespace and CRDs stay. First it checks that no repository has these objects
any more: it would create them again, and with them a second set of controllers.
"""

from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from certs import injection
from cli import errors, progress, session
from cli.installing import flux
from cli.installing.cluster import DEPLOYMENT, NAMESPACE, listed
from cli.migrating import connecting, excluding, verifying
from cli.migrating.memory import Part
from cli.migrating.steps import STEPS, Takeover
from cli.migrating.survey import is_part
from crds import KUSTOMIZATION
from toolkit import inventory
from toolkit.kube.errors import NotFoundError
from toolkit.objects import GroupVersionKind, ObjectKey, ObjectRef, dig

_KEPT: Final = frozenset({NAMESPACE, injection.DEFINITION})
_SERVICE: Final = GroupVersionKind("", "v1", "Service")
_SHOWN: Final = 3


async def deletable(work: Takeover) -> tuple[Part, ...]:
    """Return the parts of Flux to delete.

    While a controller keeps running, these are only the parts of the stopped ones.
    """
    memory, place = work.book.memory, work.survey.namespace
    found = await listed(work.opened.api, DEPLOYMENT, place, label_selector=flux.SELECTOR)
    staying = [each for each in found if not flux.is_replaced(flux.component(each))]
    parts = [each for each in memory.parts if each.ref.gvk not in _KEPT]
    if not staying:
        return tuple(parts)
    return tuple(
        each
        for each in parts
        if each.ref.gvk in {DEPLOYMENT, _SERVICE} and each.name in memory.replicas
    )


async def finish(work: Takeover) -> None:
    """Delete the rest of Flux, and the record of the migration.

    Raises:
        UsageError: the migration has not ended, or a repository still has objects of Flux.
    """
    memory, api = work.book.memory, work.opened.api
    if STEPS[-1].name not in memory.done:
        raise errors.UsageError("the migration has not ended: run it without --finish first")
    appliers = excluding.appliers(memory.parts)
    progress.action(f"releasing {len(memory.parts)} objects of Flux from {len(appliers)} appliers")
    await excluding.release(api, memory.parts)
    await _require_absent(work.opened, appliers, memory.parts)
    gone = await deletable(work)
    progress.action(f"deleting {len(gone)} objects of Flux")
    for part in gone:
        with suppress(NotFoundError):
            live = await api.get(part.ref.gvk, part.name, part.namespace)
            if is_part(live):  # An object that has lost the label meanwhile belongs to a user.
                uid = str(dig(live, "metadata", "uid"))
                await api.delete(part.ref.gvk, part.name, part.namespace, uid=uid)
    deleted = {part.ref for part in gone}
    await excluding.free(api, [part for part in memory.parts if part.ref not in deleted])
    await connecting.forbid(api, work.opened.namespace)
    await work.book.erase()
    progress.success("the migration is finished")


async def _require_absent(
    opened: session.Session, appliers: Sequence[ObjectKey], parts: Sequence[Part]
) -> None:
    """Have the Kustomizations reconciled, after which they list only what their builds hold."""
    wanted = {each.ref.identity for each in parts}
    for key in appliers:
        ref = ObjectRef(GroupVersionKind(*KUSTOMIZATION.gvk), key.namespace, key.name)
        with suppress(NotFoundError):
            await verifying.ask(opened, ref)
            found = await opened.api.get(ref.gvk, ref.name, ref.namespace)
            entries = dig(found, "status", "inventory", "entries", default=())
            held = [each for each in inventory.decode(entries) if each.identity in wanted]
            if held:
                shown = ", ".join(map(str, held[:_SHOWN]))
                raise errors.UsageError(
                    f"{ref} still applies {len(held)} objects of Flux ({shown}): remove them from "
                    "its repository (gotk-components.yaml), and run this again"
                )
