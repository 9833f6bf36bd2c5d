"""The objects of a tenant: namespaces, an account in each, and the account's permissions.

As in ``flux create tenant``: a label names the tenant, and Kustomizations apply as the account.
"""

import re
from typing import Final

from cli import errors
from cli.creating import flags, objects
from cli.creating.flags import Flag, Values
from toolkit.objects import Json

LABEL: Final = "toolkit.fluxcd.io/tenant"
_RBAC: Final = "rbac.authorization.k8s.io"
_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")

FLAGS: Final = (
    Flag(
        name="with-namespace",
        several=True,
        required=True,
        help="Namespace of the tenant; may be given several times.",
    ),
    Flag(
        name="cluster-role",
        default="cluster-admin",
        help="ClusterRole of the account in these namespaces.",
    ),
    Flag(name="with-service-account", help="Name of the account. Defaults to the tenant's."),
    Flag(
        name="skip-namespace", type=bool, help="Do not create the namespaces; they exist already."
    ),
)


def manifests(tenant: str, values: Values) -> list[Json]:
    """Return the objects, those of one namespace after those of another.

    Raises:
        UsageError: a name cannot be one.
    """
    account = values.get("with_service_account") or tenant
    namespaces = flags.words(values["with_namespace"])
    for name in (tenant, account, *namespaces):
        if not _NAME.fullmatch(name):
            raise errors.UsageError(
                f"{name!r} is not a name: use at most 63 lower-case letters, digits and dashes"
            )
    labels = (*values["label"], f"{LABEL}={tenant}")
    made: list[Json] = []
    for namespace in namespaces:
        made += _of_namespace(namespace, tenant, account, values["cluster_role"], labels)
    return [obj for obj in made if not (values["skip_namespace"] and obj["kind"] == "Namespace")]


def _of_namespace(
    namespace: str, tenant: str, account: str, role: str, labels: tuple[str, ...]
) -> list[Json]:
    return [
        {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": objects.metadata(namespace, "", labels),
        },
        {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": objects.metadata(account, namespace, labels),
        },
        {
            "apiVersion": f"{_RBAC}/v1",
            "kind": "RoleBinding",
            "metadata": objects.metadata(f"{tenant}-reconciler", namespace, labels),
            "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": role},
            "subjects": [
                {"apiGroup": _RBAC, "kind": "User", "name": f"gotk:{namespace}:reconciler"},
                {"kind": "ServiceAccount", "name": account, "namespace": namespace},
            ],
        },
    ]
