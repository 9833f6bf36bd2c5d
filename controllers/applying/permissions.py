"""What the components of appliers may do; ``controllers.rbac`` writes the RBAC from it."""

from typing import Any, Final

from crds.kind import Kind
from toolkit.kube import impersonation, rbac
from toolkit.kube.rbac import Rule

TENANT: Final = (
    # Act as the account that an object names.
    Rule(groups=("",), resources=("serviceaccounts",), verbs=("impersonate",)),
)
"""What they need in each namespace that they work for; see ``deploy/components/by-namespace``."""
WORKLOAD_IDENTITY: Final = (
    # Sign in as accounts at key services, and at clusters that trust our issuer
    # (spec.kubeConfig.configMapRef).
    Rule(groups=("",), resources=("serviceaccounts/token",), verbs=("create",)),
)
"""Granted by the component ``workload-identity`` alone: who has them can be any account."""


def cluster(kind: Kind[Any]) -> tuple[Rule, ...]:
    """Return what the component of a kind needs in the whole cluster."""
    return (
        # The objects themselves; patch puts the finalizer.
        Rule(
            groups=(kind.group,), resources=(kind.plural,), verbs=("get", "list", "watch", "patch")
        ),
        Rule(
            groups=(kind.group,),
            resources=(f"{kind.plural}/status",),
            verbs=("get", "patch", "update"),
        ),
        # Drift and health of what was applied are seen by watching it, and so are records of
        # releases. Nothing else is written: every write is impersonated. Not `get`: with `*` it
        # includes subresources, and who may get nodes/proxy can run commands in every container.
        Rule(groups=("*",), resources=("*",), verbs=("list", "watch")),
        # What specs name: values, kubeconfigs, keys, and the account that a deletion acts as.
        Rule(groups=("",), resources=("configmaps", "secrets", "serviceaccounts"), verbs=("get",)),
        # Say from which revision a write comes; whose write it is, is in ``TENANT``.
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
    """Return what a component with this account needs in its own namespace."""
    return (
        *rbac.lease(account),
        # The store asks who wants to know what it keeps.
        *rbac.own_token(account),
    )
