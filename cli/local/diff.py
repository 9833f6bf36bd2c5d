"""The changes that applying a local build would make in the cluster.

The dry-runs are those of an apply (``toolkit.apply.diff``). Encrypted Secrets are sent as stand-ins
(``cli.local.encrypted``), because no key is read here.
"""

from collections.abc import Sequence
from typing import Final

from cli import differences
from cli.local import encrypted
from controllers.kustomize.settings import Settings
from crds.kustomize import Kustomization
from toolkit import inventory
from toolkit.apply import diff as applying
from toolkit.apply.changes import ApplyError
from toolkit.apply.diff import Finding, StandIns
from toolkit.kube import client
from toolkit.objects import Json, dig

_PARALLEL: Final = 8
_STAND_INS: Final = StandIns(send=encrypted.stand_in, admit=encrypted.admitted)


async def diff(
    api: client.Client, kustomization: Json, obj: Kustomization, objects: Sequence[Json]
) -> tuple[Finding, ...]:
    """Return the changes in the order of the build, deletions last.

    ``kustomization`` is the live object, whose inventory determines deletions.

    Raises:
        ApplyError: the server refuses objects; the message names all of them.
    """
    pruned = dig(kustomization, "spec", "prune", default=False)
    entries = dig(kustomization, "status", "inventory", "entries", default=()) if pruned else ()
    found = await applying.diff(
        api,
        objects,
        options=Settings(concurrent_ssa=_PARALLEL).apply_options(obj),
        inventory=inventory.decode(entries),
        stand_ins=_STAND_INS,
    )
    refused = [finding.failure for finding in found if finding.failure is not None]
    if refused:
        raise ApplyError(refused)
    return found


def text(finding: Finding) -> str:
    """Return a finding as it is printed."""
    fields = (
        line
        for one in finding.differences
        for line in differences.lines(one.op, one.path, one.old, one.new)
    )
    return "\n".join([f"► {finding.ref} {finding.fate}", *(f"  {line}" for line in fields)])
