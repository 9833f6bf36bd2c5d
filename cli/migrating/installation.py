"""Findings about Flux's own installation. Pure."""

from collections import Counter
from collections.abc import Iterator
from typing import Final

from cli.errors import UsageError
from cli.installing import flux, writing
from cli.installing.cluster import DEPLOYMENT
from cli.migrating import flags, pods
from cli.migrating.findings import Finding
from cli.migrating.request import Request
from cli.migrating.survey import NETWORK_POLICY, SERVICE_ACCOUNT
from toolkit.apply import ownership
from toolkit.objects import Json, ObjectKey, dig, gvk_of, ref_of

FINISH: Final = "penstock migrate --from-flux --finish"
_UNKNOWN: Final = "unknown version"
_HELM: Final = "helm.toolkit.fluxcd.io/name"
_OPERATOR: Final = "fluxcd.controlplane.io/name"
_ADMIN: Final = "cluster-admin"


def cluster(request: Request) -> Iterator[Finding]:
    """Check whether the cluster can have an installation."""
    for row in request.survey.suitable:
        yield Finding(
            result="info" if row.ok else "blocking",
            check="cluster",
            object=row.check,
            message=row.message,
            remedy=row.remedy,
        )


def namespaces(request: Request) -> Iterator[Finding]:
    """Check whether the namespace for Penstock is free."""
    survey, choice = request.survey, request.choice
    if choice.namespace == survey.namespace:
        yield Finding(
            result="blocking",
            check="namespace",
            object=f"Namespace/{choice.namespace}",
            message="is Flux's: controllers of the same names would replace those to give back",
            remedy="install into another namespace, such as penstock-system",
        )
    try:
        writing.judge(survey.ours, choice)
    except UsageError as exc:
        yield Finding(result="blocking", check="namespace", object="Penstock", message=str(exc))


def controllers(request: Request) -> Iterator[Finding]:
    """List the controllers, and what happens to each."""
    for each in request.survey.deployments:
        name = flux.component(each)
        kinds = ", ".join(flux.CONTROLLERS.get(name, ("unknown kinds",)))
        replaced = flux.is_replaced(name)
        replicas = dig(each, "spec", "replicas", default=1)
        yield Finding(
            result="info" if replaced else "warning",
            check="controllers",
            object=str(ref_of(each)),
            message=f"{_version(each)}, {replicas} replicas, reconciles {kinds}; "
            + ("is stopped" if replaced else "goes on running, because Penstock lacks these kinds"),
            remedy="" if replaced else f"keep it, and what it needs; `{FINISH}` leaves it running",
        )


def _version(deployment: Json) -> str:
    containers = dig(deployment, "spec", "template", "spec", "containers", default=[{}])
    return str(containers[0].get("image", "")).rpartition(":")[2] or _UNKNOWN


def keepers(request: Request) -> Iterator[Finding]:
    """Find objects that would start Flux's controllers again."""
    applied: Counter[ObjectKey] = Counter()
    for each in request.survey.parts:
        labels = dig(each, "metadata", "labels", default={})
        if gvk_of(each) == DEPLOYMENT and (_HELM in labels or _OPERATOR in labels):
            yield Finding(
                result="blocking",
                check="keepers",
                object=str(ref_of(each)),
                message="is applied by a HelmRelease or the Flux operator, which would start it",
                remedy="suspend the HelmRelease, or annotate the FluxInstance with "
                "fluxcd.controlplane.io/reconcile=disabled and remove these labels",
            )
        owner = ownership.owner_of(each)
        if owner is not None:
            applied[owner] += 1
    for owner, count in applied.items():
        yield Finding(
            result="warning",
            check="keepers",
            object=f"Kustomization/{owner}",
            message=f"applies {count} objects of Flux itself from its repository "
            "(gotk-components.yaml), and would start the controllers again",
            remedy="step 2 excludes these objects from it; remove the file from the repository "
            f"before `{FINISH}`",
        )


def arguments(request: Request) -> Iterator[Finding]:
    """Report flags and other settings of the controllers."""
    for each in request.survey.deployments:
        yield from flags.judge(each)
        yield from pods.judge(each)
    for part in request.survey.parts:
        if gvk_of(part) == SERVICE_ACCOUNT:
            yield from pods.identities(part)


def networks(request: Request) -> Iterator[Finding]:
    """Which rules of the network concern Flux's namespace only."""
    for each in request.survey.policies:
        yield Finding(
            result="warning",
            check="networks",
            object=str(ref_of(each)),
            message=f"is a {NETWORK_POLICY.kind} of yours for the namespace of Flux",
            remedy=f"write the like of it for namespace {request.choice.namespace}, if the "
            "controllers need it",
        )


def bindings(request: Request) -> Iterator[Finding]:
    """Which accounts of Flux may do everything."""
    for each in request.survey.bindings:
        accounts = [
            str(row.get("name"))
            for row in each.get("subjects") or ()
            if row.get("kind") == "ServiceAccount"
            and row.get("namespace") == request.survey.namespace
        ]
        if accounts and dig(each, "roleRef", "name") == _ADMIN:
            yield Finding(
                result="warning",
                check="bindings",
                object=str(ref_of(each)),
                message=f"makes {', '.join(accounts)} of namespace {request.survey.namespace} "
                "administrators of the cluster; Penstock does not need it",
                remedy=f"`{FINISH}` deletes it with the rest of Flux",
            )
