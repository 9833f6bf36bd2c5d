"""Permissions of the components of appliers; ``controllers.rbac`` generates the RBAC from them."""

from typing import Any, Final

from crds.kind import Kind
from toolkit.kube import impersonation, rbac
from toolkit.kube.rbac import Rule

TENANT: Final = (
    # Act as the service account of an object.
    Rule(groups=("",), resources=("serviceaccounts",), verbs=("impersonate",)),
)
"""Permissions in each namespace with appliers; see ``deploy/components/by-namespace``."""
WORKLOAD_IDENTITY: Final = (
    # Authenticate as service accounts at key services, and at clusters that trust the issuer of
    # this cluster (spec.kubeConfig.configMapRef).
    Rule(groups=("",), resources=("serviceaccounts/token",), verbs=("create",)),
)
"""Only the component ``workload-identity`` grants these: they allow acting as any account."""


def cluster(kind: Kind[Any]) -> tuple[Rule, ...]:
    """Return the cluster-wide permissions of the component of a kind."""
    return (
        # The objects themselves; patch sets the finalizer.
        Rule(
            groups=(kind.group,), resources=(kind.plural,), verbs=("get", "list", "watch", "patch")
        ),
        Rule(
            groups=(kind.group,),
            resources=(f"{kind.plural}/status",),
            verbs=("get", "patch", "update"),
        ),
        # Watch applied objects for drift and health, and watch Helm's records. No write verbs:
        # every write is impersonated. No `get`: with `*` it includes subresources, and `get` on
        # nodes/proxy allows running commands in every container.
        Rule(groups=("*",), resources=("*",), verbs=("list", "watch")),
        # Objects that specs name: values, kubeconfigs, keys, and the account for a deletion.
        Rule(groups=("",), resources=("configmaps", "secrets", "serviceaccounts"), verbs=("get",)),
        # State the revision that a write comes from; ``TENANT`` has the account.
        Rule(
            groups=("authentication.k8s.io",),
            resources=tuple(
                f"userextras/{impersonation.PREFIX}{claim}" for claim in impersonation.CLAIMS
            ),
            verbs=("impersonate",),
        ),
        Rule(groups=("",), resources=("events",), verbs=("create", "patch")),
    )


def namespace(account: str) -> tuple[Rule, ...]:
    """Return the permissions of a component with this account in its own namespace."""
    return (
        *rbac.lease(account),
        # The artifact store authenticates clients that list retained revisions.
        *rbac.own_token(account),
    )
