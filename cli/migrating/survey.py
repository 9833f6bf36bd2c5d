"""The objects of Flux and of a fleet in a cluster, before anything is changed."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from certs import injection
from cli import errors
from cli.check import cluster
from cli.check.subjects import Subject
from cli.installing import flux, inspection
from cli.installing.cluster import DEPLOYMENT, NAMESPACE, listed
from cli.migrating import releases
from crds import KINDS
from toolkit.kube.client import Client
from toolkit.objects import GroupVersionKind, Json, dig, key_of

CLUSTER_ROLE_BINDING: Final = GroupVersionKind.parse(
    "rbac.authorization.k8s.io/v1", "ClusterRoleBinding"
)
NETWORK_POLICY: Final = GroupVersionKind.parse("networking.k8s.io/v1", "NetworkPolicy")
SERVICE_ACCOUNT: Final = GroupVersionKind.parse("v1", "ServiceAccount")
PARTS: Final = (
    # what Flux's manifests consist of
    NAMESPACE,
    injection.DEFINITION,
    GroupVersionKind.parse("rbac.authorization.k8s.io/v1", "ClusterRole"),
    CLUSTER_ROLE_BINDING,
    GroupVersionKind.parse("v1", "ResourceQuota"),
    SERVICE_ACCOUNT,
    GroupVersionKind.parse("v1", "Service"),
    NETWORK_POLICY,
    DEPLOYMENT,
)
_GROUPS: Final = (".toolkit.fluxcd.io", ".extensions.fluxcd.io")
_OURS: Final = frozenset(kind.crd_name for kind in KINDS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """The result. ``parts`` are all objects of Flux's installation, including its Deployments.

    ``others`` counts objects of kinds that Penstock does not reconcile. ``schemas`` tells which
    charts refer to schemas on other hosts.
    """

    namespace: str
    deployments: tuple[Json, ...]
    parts: tuple[Json, ...]
    definitions: tuple[Json, ...]
    bindings: tuple[Json, ...]
    policies: tuple[Json, ...]
    subjects: tuple[Subject, ...]
    knows_grants: bool
    others: Counter[str]
    suitable: tuple[inspection.Finding, ...]
    ours: tuple[Json, ...]
    schemas: releases.Read


async def read(api: Client, namespace: str) -> Survey:
    """Read all objects; ``namespace`` is Flux's.

    Raises:
        UsageError: Flux is not there; the message has its namespace.
    """
    labelled = await listed(api, DEPLOYMENT, label_selector=flux.SELECTOR)
    theirs = [each for each in labelled if not flux.is_ours(each)]
    here = tuple(each for each in theirs if key_of(each).namespace == namespace)
    if not here:
        elsewhere = sorted({key_of(each).namespace for each in theirs})
        raise errors.UsageError(
            f"no Deployment labelled {flux.SELECTOR} in namespace {namespace}: "
            + (
                f"name one of {', '.join(elsewhere)} with --flux-namespace, if Flux is there"
                if elsewhere
                else "Flux is not in this cluster"
            )
        )
    definitions = [
        each
        for each in await listed(api, injection.DEFINITION)
        if str(dig(each, "spec", "group")).endswith(_GROUPS)
    ]
    found = await cluster.read(api)
    policies = await listed(api, NETWORK_POLICY, namespace)
    return Survey(
        namespace=namespace,
        deployments=here,
        parts=await _parts(api, namespace, definitions),
        definitions=tuple(definitions),
        bindings=tuple(await listed(api, CLUSTER_ROLE_BINDING)),
        policies=tuple(each for each in policies if not is_part(each)),
        subjects=tuple(found.subjects),
        knows_grants=found.knows_grants,
        others=await _others(api, definitions),
        suitable=tuple(await inspection.before(api)),
        ours=tuple(each for each in labelled if flux.is_ours(each)),
        schemas=await releases.read(api, found.subjects),
    )


def is_part(obj: Json) -> bool:
    """Tell whether an object belongs to Flux's installation."""
    label, value = flux.SELECTOR.split("=")
    labels = dig(obj, "metadata", "labels", default={})
    return labels.get(label) == value and not flux.is_ours(obj)


def nothing(namespace: str) -> Survey:
    """Return an empty survey, to undo a recorded migration without reading the cluster."""
    return Survey(
        namespace=namespace,
        deployments=(),
        parts=(),
        definitions=(),
        bindings=(),
        policies=(),
        subjects=(),
        knows_grants=False,
        others=Counter(),
        suitable=(),
        ours=(),
        schemas=releases.Read(),
    )


async def _parts(api: Client, namespace: str, definitions: list[Json]) -> tuple[Json, ...]:
    """Return Flux's objects. A definition is one although Penstock has labelled it since."""
    found: list[Json] = []
    for kind in PARTS:
        if kind == injection.DEFINITION:
            found += definitions
            continue
        for each in await listed(api, kind, label_selector=flux.SELECTOR):
            if is_part(each) and key_of(each).namespace in {"", namespace}:
                found.append(each)
    return tuple(found)


async def _others(api: Client, definitions: Iterable[Json]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for each in definitions:
        if key_of(each).name in _OURS:
            continue
        kind = dig(each, "spec", "names", "kind")
        for version in dig(each, "spec", "versions", default=()):
            if version.get("served") and version.get("storage"):
                gvk = GroupVersionKind(dig(each, "spec", "group"), version["name"], kind)
                counts[kind] += len(await listed(api, gvk))
    return +counts
