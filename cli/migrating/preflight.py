"""The findings about a cluster of Flux before a migration, each with its remedy. Pure."""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from cli.migrating import findings, fleet, installation
from cli.migrating.findings import Finding
from cli.migrating.request import Request


def find(request: Request) -> list[Finding]:
    """Return all findings, blocking ones first."""
    return findings.ordered(found for check in CHECKS for found in check(request))


CHECKS: Final[Sequence[Callable[[Request], Iterator[Finding]]]] = (
    installation.cluster,  # whether Kubernetes and the rights suffice
    installation.namespaces,  # where Penstock would be
    installation.controllers,  # the controllers of Flux
    installation.keepers,  # objects that would start them again
    fleet.versions,  # which versions are stored
    fleet.refused,  # objects that the gate would refuse, mainly for references
    fleet.schemas,  # what of the values is not validated
    fleet.kinds,  # what Penstock does not reconcile
    installation.arguments,  # settings of Flux's controllers
    installation.networks,  # rules of the network
    installation.bindings,  # bindings to administrators
    fleet.objects,  # suspended and unready objects
    fleet.secrets,  # which Secrets are needed
)
