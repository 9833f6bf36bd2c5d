"""What of a cluster of Flux matters before Penstock takes over, each with its remedy. Pure."""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from cli.migrating import findings, fleet, installation
from cli.migrating.findings import Finding
from cli.migrating.request import Request


def find(request: Request) -> list[Finding]:
    """Return all findings, what blocks first."""
    return findings.ordered(found for check in CHECKS for found in check(request))


CHECKS: Final[Sequence[Callable[[Request], Iterator[Finding]]]] = (
    installation.cluster,  # whether Kubernetes and the rights suffice
    installation.namespaces,  # where Penstock would be
    installation.controllers,  # what Flux runs, and what becomes of it
    installation.keepers,  # who would start it again
    fleet.versions,  # which versions are stored
    fleet.refused,  # what the gate would refuse, references above all
    fleet.kinds,  # what Penstock does not reconcile
    installation.arguments,  # what Flux was told and given
    installation.networks,  # rules of the network
    installation.bindings,  # who is an administrator
    fleet.objects,  # what is suspended or not ready
    fleet.secrets,  # which Secrets are needed
)
