"""The verbs of ``penstock``, a module each; this table is the order in which help lists them."""

from typing import Final

from cli.commands import (
    apply,
    build,
    events,
    get,
    logs,
    reconcile,
    seal,
    secrets,
    suspend,
    trace,
    tree,
    up,
)

COMMANDS: Final = (
    # what is there
    get.get,
    tree.tree,
    trace.trace,
    events.events,
    logs.logs,
    # what would be there
    build.build,
    build.diff,
    # encrypted Secrets, without a Kustomization
    seal.seal,
    apply.apply,
    secrets.secrets,
    # what to do now
    reconcile.reconcile,
    suspend.suspend,
    suspend.resume,
    # all of it on this machine
    up.up,
    up.down,
    up.status,
)
