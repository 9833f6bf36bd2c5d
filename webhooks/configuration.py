"""The webhook configurations and the RBAC, made from ``PLUGINS``.

``python -m webhooks generate|check`` writes them to ``deploy/base/webhooks``: the RBAC to be
installed, the configurations for information. Permissions that only plugins need that disclose go
to a component. The process applies the configurations itself as soon as it serves (``arming``): if
they were installed before, the API server would refuse the matching writes until then.

The defaults of a rule are narrow. Outside Penstock's own kinds, no rule matches in the namespaces
that a cluster needs to start and to recover, and no rule matches leases, events, and reviews of
tokens and access. Deletions by the garbage collector and the namespace controller are never
matched. Nor are updates of objects that are being deleted, if they change only metadata and status.
So finalizers and namespaces can always be removed. Subresources of objects that are being deleted
are matched: a finalizer, which any user can add, keeps such an object, and other controllers
believe its status.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import yaml

from certs import injection, keeper
from crds import KINDS
from toolkit.kube import migration, rbac
from toolkit.objects import GroupVersionKind, Json
from webhooks import joint
from webhooks.plugin import INSTALLED, Condition, Row, Rule

NAME: Final = "webhook"
"""The Deployment, the Service, the account, the lease, the certificates."""
CONFIGURATION: Final = "penstock"
DOMAIN: Final = "admission.penstock.dev"
DIRECTORY: Final = Path("deploy/base/webhooks")
CLUSTER_ROLE: Final = f"penstock-{NAME}"
ADDED: Final = Path("deploy/components/decryption/rbac.yaml")
ADDED_ROLE: Final = f"{CLUSTER_ROLE}-decryption"
API_SERVICES: Final = ("v1alpha1.gitops.penstock.dev",)

_HEADER: Final = "# Generated from webhooks.plugins.PLUGINS by `make generate`; do not edit.\n"
_READ: Final = (
    "# Not to be applied: the process applies them, with its authority, as soon as it serves.\n"
)
_EXEMPT: Final = ("kube-system", "kube-node-lease")
_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_OURS: Final = frozenset(kind.group for kind in KINDS)

_COLLECTOR: Final = (
    "request.userInfo.username in ['system:serviceaccount:kube-system:generic-garbage-collector',"
    " 'system:serviceaccount:kube-system:namespace-controller', 'system:kube-controller-manager']"
)
COLLECTION: Final = Condition("not-collected", f"request.operation != 'DELETE' || !({_COLLECTOR})")
"""False if the cluster itself deletes the object (garbage collection, namespace deletion)."""
REMOVAL: Final = Condition(
    name="not-a-removal",
    expression=(
        "request.operation != 'UPDATE'"
        f" || !({_COLLECTOR}) && (!has(oldObject.metadata.deletionTimestamp)"
        " || has(request.subResource) && request.subResource != '')"
        " || !object.all(k, k in ['metadata', 'status']"
        " || (k in oldObject && object[k] == oldObject[k]))"
        " || !oldObject.all(k, k in object || k == 'status')"
    ),
)
"""False where an object on its way out changes nothing but metadata and status by its own path."""
VITAL: Final = Condition(
    name="not-vital",
    expression=(
        "!(request.resource.group in ['authentication.k8s.io', 'authorization.k8s.io',"
        " 'certificates.k8s.io', 'coordination.k8s.io', 'events.k8s.io'])"
        " && !(request.resource.group == '' && (request.resource.resource == 'events'"
        " || has(request.subResource) && request.subResource == 'token'))"
    ),
)
"""Added to rules that name no group or no resource."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The address of the process for API servers: a Service of its namespace, or a URL.

    ``exempt`` are namespaces that it does not check, besides its own and the cluster's.
    """

    namespace: str
    url: str = ""
    exempt: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        # One that no label can have would keep the API server from taking the configurations.
        if wrong := [name for name in self.exempt if not _LABEL.fullmatch(name)]:
            raise ValueError(
                f"--webhook-exempt-namespaces: '{wrong[0]}' is not a name of a namespace"
            )

    @property
    def hosts(self) -> tuple[str, ...]:
        """Return the names and addresses that the certificate must be for."""
        service = f"{NAME}.{self.namespace}"
        local = ("localhost", "127.0.0.1") if self.url else ()
        return (f"{service}.svc", f"{service}.svc.cluster.local", service, *local)

    def client_config(self, path: str, bundle: str = "") -> Json:
        """Return a ``WebhookClientConfig``; ``bundle`` is PEM in base64."""
        service: Json = {"name": NAME, "namespace": self.namespace, "path": path, "port": 443}
        where: Json = {"url": f"{self.url}{path}"} if self.url else {"service": service}
        return where | ({"caBundle": bundle} if bundle else {})


def full_name(webhook: str) -> str:
    """Return the name that ``kubectl`` prints of a webhook."""
    return f"{webhook}.{DOMAIN}"


def configurations(rows: Sequence[Row], target: Target, *, bundle: str = "") -> list[Json]:
    """Return the configurations for these plugins; one without webhooks is left out.

    Plugins that share a request have one webhook (``joint``).
    """
    return [
        _configuration(kind, [_webhook(row, target, bundle) for row in joint.asked(chosen)])
        for kind, chosen in (
            (injection.MUTATING, [row for row in rows if row.mutating]),
            (injection.VALIDATING, [row for row in rows if not row.mutating]),
        )
        if chosen
    ]


def permissions(rows: Sequence[Row]) -> tuple[rbac.Rule, ...]:
    """Return the cluster permissions of the process, without optional ones.

    They include reading Penstock's kinds for plugins that disclose data: such a plugin may be
    enabled without its own permissions, and the gate is registered only when all caches are
    complete.
    """
    migrating = migration.permissions(KINDS)
    every = (
        *_PERMISSIONS,
        *migrating,
        *_of(row for row in rows if not row.discloses),
        *(rule for rule in _of(row for row in rows if row.discloses) if not _is_core(rule)),
    )
    return tuple(dict.fromkeys(every))


def render(rows: Sequence[Row]) -> dict[str, str]:
    """Return name and content of the generated files."""
    rights = [
        rbac.service_account(NAME),
        *rbac.granted("ClusterRole", NAME, permissions(rows)),
        *rbac.granted("Role", NAME, _NAMESPACE_PERMISSIONS),
    ]
    read = configurations(rows, Target(namespace=rbac.NAMESPACE))
    return {
        "rbac.yaml": _HEADER + yaml.safe_dump_all(rights, sort_keys=False),
        "configurations.yaml": _HEADER + _READ + yaml.safe_dump_all(read, sort_keys=False),
    }


def render_added(rows: Sequence[Row]) -> str:
    """Return the permissions of plugins that disclose data, which an administrator must grant."""
    rules = tuple(filter(_is_core, _of(row for row in rows if row.discloses)))
    role = (
        rbac.role("ClusterRole", ADDED_ROLE, rules),
        rbac.binding("ClusterRole", ADDED_ROLE, NAME),
    )
    return _HEADER + yaml.safe_dump_all(role, sort_keys=False)


def _is_core(rule: rbac.Rule) -> bool:
    """Tell whether a rule is about Secrets and the like."""
    return "" in rule.groups


def _of(rows: Iterable[Row]) -> tuple[rbac.Rule, ...]:
    return tuple(dict.fromkeys(rule for row in rows for rule in row.permissions))


def _configuration(kind: GroupVersionKind, webhooks: list[Json]) -> Json:
    body = rbac.manifest(kind.api_version, kind.kind, CONFIGURATION, namespaced=False)
    body["metadata"]["labels"][injection.LABEL] = NAME
    return body | {"webhooks": webhooks}


def _webhook(row: Row, target: Target, bundle: str) -> Json:
    body: Json = {
        "name": full_name(row.name),
        "admissionReviewVersions": ["v1"],
        "clientConfig": target.client_config(f"/admit/{row.name}", bundle),
        "rules": [_rule(rule) for rule in _gathered(_resolved(row.rules))],
        "matchPolicy": "Equivalent",
        "matchConditions": [
            {"name": each.name, "expression": each.expression.replace(INSTALLED, target.namespace)}
            for each in _conditions(row)
        ],
        "namespaceSelector": _namespaces(row, target),
        "objectSelector": row.object_selector or {},
        "failurePolicy": "Ignore" if row.fail_open else "Fail",
        "sideEffects": "None",
        "timeoutSeconds": row.timeout,
    }
    if row.mutating:
        body["reinvocationPolicy"] = "IfNeeded" if row.reinvocation else "Never"
    return body


def _rule(rule: Rule) -> Json:
    return {
        "apiGroups": list(rule.groups),
        "apiVersions": list(rule.versions),
        "resources": list(rule.resources),
        "operations": list(rule.operations),
        "scope": rule.scope,
    }


def _resolved(rules: Sequence[Rule]) -> Iterator[Rule]:
    """Yield the rules; for Penstock's kinds without a version, with the stored version.

    A rule for every version would get each object as it was written. With a single version, the API
    server converts objects to it (``matchPolicy: Equivalent``).
    """
    for rule in rules:
        if rule.versions != ("*",) or not _OURS.issuperset(rule.groups):
            yield rule
            continue
        for group in rule.groups:
            for version, resources in _versions(group, rule.resources).items():
                yield Rule(
                    groups=(group,),
                    versions=(version,),
                    resources=resources,
                    operations=rule.operations,
                    scope=rule.scope,
                )


def _gathered(rules: Iterable[Rule]) -> Iterator[Rule]:
    """Yield one rule for all resources with the same conditions, without duplicates."""
    found: dict[Rule, dict[str, None]] = {}
    for rule in rules:
        alike = replace(rule, resources=())
        found.setdefault(alike, {}).update(dict.fromkeys(rule.resources))
    for alike, resources in found.items():
        yield replace(alike, resources=tuple(resources))


def _versions(group: str, resources: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Return the resources of a group by the version in which they are stored."""
    found: dict[str, tuple[str, ...]] = {}
    for kind in KINDS:
        if kind.group != group:
            continue
        for each in resources:
            plural, _, subresource = each.partition("/")
            if plural in {kind.plural, "*"}:
                resource = f"{kind.plural}/{subresource}" if subresource else kind.plural
                found[kind.version] = (*found.get(kind.version, ()), resource)
    return found


def _conditions(row: Row) -> Iterator[Condition]:
    # The cheapest first; all are evaluated in the API server.
    if any("*" in rule.groups or _any(rule) for rule in row.rules):
        yield VITAL
    if any("DELETE" in rule.operations for rule in row.rules):
        yield COLLECTION
    if not row.to_the_end and any("UPDATE" in rule.operations for rule in row.rules):
        yield REMOVAL
    yield from row.conditions


def _any(rule: Rule) -> bool:
    return not _OURS.issuperset(rule.groups) and any("*" in each for each in rule.resources)


def _namespaces(row: Row, target: Target) -> Json:
    selector = dict(row.namespace_selector or {})
    ours = all(_OURS.issuperset(rule.groups) for rule in row.rules)
    if row.everywhere or ours:
        return selector
    # Exempt namespaces are for starting Pods; labels of namespaces start none.
    named = () if all(rule.scope == "Cluster" for rule in row.rules) else target.exempt
    exempt: Json = {
        # The API server itself sets this label, and refuses others.
        "key": "kubernetes.io/metadata.name",
        "operator": "NotIn",
        "values": sorted({*_EXEMPT, target.namespace, *named}),
    }
    return selector | {"matchExpressions": [*selector.get("matchExpressions", ()), exempt]}


_REGISTRATIONS: Final = ("validatingwebhookconfigurations", "mutatingwebhookconfigurations")
_PERMISSIONS: Final = (
    # Arming, and the authority in what API servers trust.
    rbac.Rule(
        groups=("admissionregistration.k8s.io",),
        resources=_REGISTRATIONS,
        verbs=("list", "watch"),
    ),
    rbac.Rule(
        groups=("admissionregistration.k8s.io",),
        resources=_REGISTRATIONS,
        verbs=("get", "create", "patch", "delete"),
        names=(CONFIGURATION,),
    ),
    rbac.Rule(
        groups=("apiextensions.k8s.io",),
        resources=("customresourcedefinitions",),
        verbs=("list", "watch"),
    ),
    rbac.Rule(
        groups=("apiextensions.k8s.io",),
        resources=("customresourcedefinitions",),
        verbs=("get", "patch"),
        names=tuple(sorted(kind.crd_name for kind in KINDS)),
    ),
    rbac.Rule(
        groups=("apiregistration.k8s.io",), resources=("apiservices",), verbs=("list", "watch")
    ),
    rbac.Rule(
        groups=("apiregistration.k8s.io",),
        resources=("apiservices",),
        verbs=("get", "patch"),
        names=API_SERVICES,
    ),
    # The owner of the configurations: its deletion deletes them.
    rbac.Rule(
        groups=("rbac.authorization.k8s.io",),
        resources=("clusterroles",),
        verbs=("get",),
        names=(CLUSTER_ROLE,),
    ),
    rbac.Rule(groups=("",), resources=("namespaces",), verbs=("get", "list", "watch")),
    # An event reports a policy that cannot be decoded.
    rbac.Rule(groups=("",), resources=("events",), verbs=("create", "patch")),
    # Permissions of requesters are always checked with the API server.
    rbac.Rule(
        groups=("authorization.k8s.io",), resources=("subjectaccessreviews",), verbs=("create",)
    ),
)
_NAMESPACE_PERMISSIONS: Final = (
    *keeper.permissions(NAME),
    *rbac.lease(NAME),
    rbac.Rule(groups=("discovery.k8s.io",), resources=("endpointslices",), verbs=("list",)),
)
