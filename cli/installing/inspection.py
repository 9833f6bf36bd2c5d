"""The state of an installation, or whether a cluster can have one: a row per check."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Final

from certs import injection
from cli import errors, progress, sole
from cli.installing import components, manifests, readiness, writing
from cli.installing.cluster import DEPLOYMENT, listed
from crds import KINDS
from toolkit.apply.health import Status
from toolkit.kube.client import Client
from toolkit.objects import Json, dig, key_of, ref_of

OLDEST: Final = (1, 33)
"""Kubernetes' version, major and minor, that an installation needs at least."""
_NOBODY: Final = "nobody is asked"
_UNREGISTERED: Final = "not registered"
_REVIEWS: Final = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
_VERSION: Final = "app.kubernetes.io/version"
_NUMBERS: Final = re.compile(r"v?(\d+)\.(\d+)")
_RIGHTS: Final = (
    # group, resource, verb: writes of an installation
    ("", "namespaces", "create"),
    ("apiextensions.k8s.io", "customresourcedefinitions", "create"),
    ("rbac.authorization.k8s.io", "clusterroles", "create"),
    ("rbac.authorization.k8s.io", "clusterroles", "escalate"),
    ("rbac.authorization.k8s.io", "clusterrolebindings", "create"),
    ("rbac.authorization.k8s.io", "clusterroles", "bind"),
    ("apps", "deployments", "create"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The result of a check; ``remedy`` is for one that is not ``ok``."""

    check: str
    ok: bool
    message: str
    remedy: str = ""


async def before(api: Client) -> list[Finding]:
    """Tell whether the cluster would take an installation."""
    return [await _kubernetes(api), await _rights(api)]


async def require_suitable(api: Client) -> None:
    """Require that the cluster would take an installation.

    Raises:
        FailedError: it would not.
    """
    for row in await before(api):
        if not row.ok:
            raise errors.FailedError(f"{row.check}: {row.message}\n  {row.remedy}")


async def after(api: Client, namespace: str, wanted: Sequence[str] = ()) -> list[Finding]:
    """Tell how the installation in the namespace is; the ``wanted`` processes must be there."""
    holder = await sole.holder(api, mine="", report=progress.waiting)
    if holder:
        asked = [await _gate(api), await _aggregated(api)]
        return [
            Finding(check="processes", ok=True, message=f"run by {sole.named(holder)}"),
            await _definitions(api),
            *(row if row.ok else _without_gate(row) for row in asked),
        ]
    return [
        *await _deployments(api, namespace, wanted),
        *await _left_over(api, namespace),
        await _definitions(api),
        await _gate(api),
        await _aggregated(api),
    ]


def _without_gate(row: Finding) -> Finding:
    """Return what is not registered as chosen: ``up`` with a kubeconfig needs ``--gate`` for it."""
    chosen = row.message in {_NOBODY, _UNREGISTERED}
    message = f"{row.message}: `penstock up` was started without --gate"
    return replace(row, ok=True, message=message, remedy="") if chosen else row


async def versions(api: Client, namespace: str) -> dict[str, str]:
    """Return the version of each component by its name, as its Deployment's label has it."""
    found = await listed(api, DEPLOYMENT, namespace, label_selector=manifests.INSTANCE)
    return {key_of(obj).name: version_of(obj) for obj in found}


def version_of(obj: Json) -> str:
    """Return the version that an object's label tells."""
    labels = dig(obj, "metadata", "labels", default={})
    return str(labels.get(_VERSION, "unknown")).removeprefix("penstock-")


async def _kubernetes(api: Client) -> Finding:
    found = str((await api.request("GET", "/version")).get("gitVersion"))
    numbers = _NUMBERS.match(found)
    enough = numbers is not None and (int(numbers[1]), int(numbers[2])) >= OLDEST
    needed = ".".join(map(str, OLDEST))
    return Finding(
        check="Kubernetes version",
        ok=enough,
        message=f"{found}, {needed} or newer is needed",
        remedy="" if enough else "upgrade the cluster",
    )


async def _rights(api: Client) -> Finding:
    missing = []
    for group, resource, verb in _RIGHTS:
        attributes = {"group": group, "resource": resource, "verb": verb}
        body = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": attributes},
        }
        answer = await api.request("POST", _REVIEWS, body=body)
        if not dig(answer, "status", "allowed", default=False):
            missing.append(f"{verb} {resource}{f'.{group}' if group else ''}")
    return Finding(
        check="permissions",
        ok=not missing,
        message=f"may not {', '.join(missing)}" if missing else "enough to install",
        remedy="use a context of an administrator" if missing else "",
    )


async def _deployments(api: Client, namespace: str, wanted: Sequence[str]) -> list[Finding]:
    found = await listed(api, DEPLOYMENT, namespace, label_selector=manifests.INSTANCE)
    if not found:
        return [
            Finding(
                check="Deployments",
                ok=False,
                message=f"none in namespace {namespace}",
                remedy="install with `penstock install`, or name its namespace with --namespace",
            )
        ]
    rows = [await _deployment(api, obj) for obj in found]
    return [*rows, *absent({key_of(obj).name for obj in found}, wanted)]


def absent(there: AbstractSet[str], wanted: Iterable[str]) -> Iterator[Finding]:
    """Tell of processes that have no Deployment, also those that Flux has under another name."""
    for name in wanted:
        if components.OF_FLUX.get(name, name) not in there:
            yield Finding(
                check=f"Deployment {name}",
                ok=False,
                message="it does not exist",
                remedy="install it with `penstock install`, or correct --components",
            )


async def _deployment(api: Client, obj: Json) -> Finding:
    judged = readiness.assess(obj)
    ok = judged.status is Status.CURRENT
    image = dig(obj, "spec", "template", "spec", "containers", default=[{}])[0].get("image", "")
    why = "" if ok else (await writing.why(api, ref_of(obj))).replace("\n  ", "; ")
    return Finding(
        check=f"Deployment {key_of(obj).name}",
        ok=ok,
        message=f"{image} ready" if ok else f"{judged.message}{why}",
        remedy="" if ok else f"see `kubectl --namespace={key_of(obj).namespace} describe pods`",
    )


async def _left_over(api: Client, namespace: str) -> list[Finding]:
    """Return findings about objects of an earlier version that this version does not have.

    ``kubectl apply`` deletes nothing, so unused roles stay.
    """
    told = Counter((await versions(api, namespace)).values())
    if not told:
        return []
    (now, _), *_ = told.most_common(1)
    found = [
        ref_of(obj)
        for kind in await manifests.kinds()
        for obj in await listed(api, kind, label_selector=f"{manifests.INSTANCE},{_VERSION}")
        if version_of(obj) != now
    ]
    if not found:
        return []
    names = ", ".join(f"{ref.gvk.kind} {ref.key}" for ref in found)
    return [
        Finding(
            check="other versions",
            ok=False,
            message=f"left over beside {now}: {names}",
            remedy="see with `penstock version` whether an upgrade goes on; else delete them",
        )
    ]


async def _definitions(api: Client) -> Finding:
    found = await listed(api, injection.DEFINITION, label_selector=manifests.INSTANCE)
    wanted = {kind.crd_name for kind in KINDS}
    served = wanted & {key_of(obj).name for obj in found if _has(obj, "Established")}
    missing = sorted(wanted - served)
    told = sorted({version_of(obj) for obj in found})
    return Finding(
        check="definitions",
        ok=not missing,
        message=f"not served: {', '.join(missing)}"
        if missing
        else f"{len(served)} kinds of {', '.join(told)} served",
        remedy="apply them again with `penstock install`" if missing else "",
    )


async def _gate(api: Client) -> Finding:
    found = [
        obj
        for kind in (injection.VALIDATING, injection.MUTATING)
        for obj in await listed(api, kind, label_selector=manifests.INSTANCE)
    ]
    webhooks = sum(len(dig(obj, "webhooks", default=())) for obj in found)
    return Finding(
        check="admission",
        ok=bool(webhooks),
        message=f"the API server asks {webhooks} webhooks" if webhooks else _NOBODY,
        remedy=""
        if webhooks
        else "the process webhook registers itself once it serves: see its log, and whether "
        "somebody deleted its configuration, which stays deleted until it is started again",
    )


async def _aggregated(api: Client) -> Finding:
    found = await listed(api, injection.API_SERVICE, label_selector=manifests.INSTANCE)
    unready = [obj for obj in found if not _has(obj, "Available")]
    ok = bool(found) and not unready
    return Finding(
        check="aggregated API",
        ok=ok,
        message=_told(found, unready),
        remedy="" if ok else "the process penstock-apiserver registers itself: see its log",
    )


def _told(found: Sequence[Json], unready: Sequence[Json]) -> str:
    if not found:
        return _UNREGISTERED
    if not unready:
        return f"{key_of(found[0]).name} available"
    row = next(_conditions(unready[0], "Available"), {})
    return f"{key_of(unready[0]).name} not available: {row.get('message', 'not seen yet')}"


def _has(obj: Json, kind: str) -> bool:
    return any(row.get("status") == "True" for row in _conditions(obj, kind))


def _conditions(obj: Json, kind: str) -> Iterator[Json]:
    return (row for row in dig(obj, "status", "conditions", default=()) if row.get("type") == kind)
