"""Settings of Flux's pods besides flags: identities, variables, volumes. Pure.

An administrator added them with a patch, usually for credentials at a cloud or for a proxy.
Penstock's pods need the same.
"""

from collections.abc import Iterator
from typing import Final

from cli.installing import flux
from cli.migrating.findings import Finding
from toolkit.objects import Json, dig, key_of, ref_of

_VARIABLES: Final = frozenset({"RUNTIME_NAMESPACE", "GOMAXPROCS", "GOMEMLIMIT", "TUF_ROOT"})
_VOLUMES: Final = frozenset({"data", "temp", "tmp"})
_IDENTITIES: Final = (
    "eks.amazonaws.com/role-arn",
    "iam.gke.io/gcp-service-account",
    "azure.workload.identity/client-id",
)


def judge(deployment: Json) -> Iterator[Finding]:
    """Yield findings about parts of the pod template that Flux's manifests do not have."""
    pod = dig(deployment, "spec", "template", "spec", default={})
    containers = pod.get("containers") or ()
    variables = {str(row.get("name")) for each in containers for row in each.get("env") or ()}
    volumes = {str(row.get("name")) for row in pod.get("volumes") or ()}
    for what, names in (("variables", variables - _VARIABLES), ("volumes", volumes - _VOLUMES)):
        if names and flux.is_replaced(flux.component(deployment)):
            yield Finding(
                result="warning",
                check="pods",
                object=str(ref_of(deployment)),
                message=f"has {what} of its own: {', '.join(sorted(names))}",
                remedy="add them to the Deployment of Penstock, in an overlay "
                "(docs/install.md#with-manifests)",
            )


def identities(account: Json) -> Iterator[Finding]:
    """Yield findings about the cloud identity of a ServiceAccount of Flux."""
    notes = dig(account, "metadata", "annotations", default={})
    for name in _IDENTITIES:
        if name in notes:
            yield Finding(
                result="warning",
                check="identities",
                object=str(ref_of(account)),
                message=f"signs in at a cloud by the annotation {name}",
                remedy=f"give ServiceAccount {key_of(account).name} of Penstock's namespace the "
                "same annotation, and trust it at the cloud (docs/passwordless.md)",
            )
