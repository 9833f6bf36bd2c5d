"""Decide whether a write is allowed under ProvenancePolicies, which require a repository as origin.

Pure. The caller gathers the policies, the labels of the namespace, the claims after their
verification (``claims``), and the exemptions (``machinery``). A write must satisfy all policies of
a namespace; within a policy it must satisfy one origin completely. So must a deletion, because a
revision can remove objects, too. Only an applier that is itself deleted, which names no source, may
always delete the objects that it has applied.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from crds import KINDS
from crds.policy_parts import Mode
from crds.policy_provenance import (
    EVERY,
    AllowedOrigin,
    OperatorAccount,
    ProvenancePolicy,
    SelectedResources,
)
from toolkit import times
from toolkit.kube import impersonation
from toolkit.objects import Json, ObjectRef, dig
from toolkit.policy import allowedorigins, origins, selectors, unreadable
from toolkit.policy.attempts import Attempt
from toolkit.policy.claims import APPLIERS, MANAGERS, Claims, Part, Standing

LABEL: Final = "policy.penstock.dev/provenance"
"""On a Namespace: the API server sends its writes to the webhook; selectors read the value."""
BREAK_GLASS: Final = "policy.penstock.dev/break-glass"
"""On a Namespace: users who may ``bypass`` policies are allowed until a time (RFC 3339), with a
reason.
"""
LONGEST: Final = timedelta(hours=24)
"""The longest time for which policies may be bypassed."""


def _of(group: str, *resources: str) -> SelectedResources:
    return SelectedResources(api_groups=[group], resources=list(resources))


DEFAULT: Final = (
    _of("", "pods", "replicationcontrollers", "podtemplates", "services", "bindings"),
    _of("", "configmaps", "secrets", "serviceaccounts", "resourcequotas", "limitranges"),
    _of("apps", EVERY),
    _of("batch", EVERY),
    _of("autoscaling", "horizontalpodautoscalers"),
    _of("policy", "poddisruptionbudgets"),
    _of("networking.k8s.io", "ingresses", "networkpolicies"),
    _of("rbac.authorization.k8s.io", "roles", "rolebindings"),
    # All of our kinds decide what is applied: sources and appliers, what sources are made from, the
    # images that are written into repositories, the events that start this, and who may refer to
    # objects. ``machinery`` has the accounts that generate some of them.
    *(_of(kind.group, kind.plural) for kind in KINDS if kind.namespaced),
)
"""The resources of a policy that names none: objects that users write."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """One policy that a write does not satisfy, and why."""

    policy: str
    mode: Mode
    why: str
    hint: str = ""

    def __str__(self) -> str:
        return f"{self.why} (ProvenancePolicy '{self.policy}')"


@dataclass(frozen=True, slots=True, kw_only=True)
class Home:
    """The place to change an object: its applier, and the source of the applier."""

    applier: ObjectRef
    source: str = ""
    url: str = ""
    directory: str = ""

    def __str__(self) -> str:
        at = f" ({self.url})" if self.url else ""
        place = f" in directory '{self.directory}'" if self.directory else ""
        return f"{self.applier}" + (f" from {self.source}{at}{place}" if self.source else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Glass:
    """The bypass of policies in a namespace: its end and its reason."""

    until: datetime
    reason: str


def holding(
    policies: Iterable[ProvenancePolicy], labels: Mapping[str, str]
) -> tuple[ProvenancePolicy, ...]:
    """Return the policies that hold in a namespace with these labels, by name."""
    if LABEL not in labels:
        return ()
    return selectors.selecting(policies, labels, otherwise=True)


def about(policies: Iterable[ProvenancePolicy], attempt: Attempt) -> tuple[ProvenancePolicy, ...]:
    """Return the policies that a write must satisfy."""
    return tuple(
        policy
        for policy in policies
        if selects(policy, attempt.group, attempt.resource)
        and not (attempt.subresource == "scale" and policy.spec.scale == "Allow")
        and not any(_operates(each, attempt) for each in policy.spec.operators)
    )


def selects(policy: ProvenancePolicy, group: str | None, resource: str) -> bool:
    """Tell whether a policy is about objects of a resource; no group is any group."""
    return _among(policy.spec.resources or DEFAULT, group, resource)


def unproven(policies: Iterable[ProvenancePolicy], why: str) -> tuple[Violation, ...]:
    """Return violations of all these policies, for a write without valid claims."""
    return tuple(_violation(policy, unreadable.why(policy) or why) for policy in policies)


def judge(
    policies: Iterable[ProvenancePolicy], attempt: Attempt, claims: Claims, standing: Standing
) -> tuple[Violation, ...]:
    """Return the violations of a write with valid claims."""
    if not claims.source:
        if attempt.operation == "DELETE" and claims.applier in owners_of(attempt.old):
            return ()
        return unproven(policies, f"{claims.applier} does not state the source that it applies")
    return tuple(
        _violation(policy, why)
        for policy in policies
        if (why := unreadable.why(policy) or _missing(policy.spec.origins, claims, standing))
    )


def enforced(violations: Iterable[Violation]) -> tuple[Violation, ...]:
    """Return the violations that refuse the write."""
    return tuple(each for each in violations if each.mode == "Enforce")


def refusal(attempt: Attempt, violations: Iterable[Violation], home: Home | None) -> str:
    """Return the message for a refused user: what was refused, why, and what to change instead."""
    found = tuple(violations)
    done = {"CREATE": "created", "UPDATE": "changed", "DELETE": "deleted"}
    verb = "scaled" if attempt.subresource == "scale" else done.get(attempt.operation, "used")
    why = "; ".join(map(str, found))
    remedy = f"it is applied by {home}, change it there" if home else _REMEDY
    hints = " ".join(dict.fromkeys(each.hint for each in found if each.hint))
    text = f"{_named(attempt)} may not be {verb} by '{attempt.user}': {why}; {remedy}"
    return f"{text}. {hints}" if hints else text


_REMEDY: Final = "add it to a repository that is applied here"


def owners_of(obj: Json | None) -> tuple[ObjectRef, ...]:
    """Return the appliers that an object's labels name, at most one of each kind."""
    labels = dig(obj or {}, "metadata", "labels", default={})
    found = (
        (kind, *(labels.get(f"{kind.group}/{key}") for key in ("namespace", "name")))
        for kind in APPLIERS.values()
    )
    return tuple(
        ObjectRef(kind, namespace, name)
        for kind, namespace, name in found
        if isinstance(namespace, str) and isinstance(name, str) and namespace and name
    )


def appliers_of(obj: Json | None) -> tuple[ObjectRef, ...]:
    """Return the appliers that have set the labels by which they own an object.

    A label alone proves nothing. The labels of Pods come from a template, and those of what an
    operator makes from its object, so they may name the applier of somebody else.
    """
    entries = dig(obj or {}, "metadata", "managedFields", default=[])
    return tuple(
        owner
        for owner in owners_of(obj)
        if any(
            entry.get("manager") == MANAGERS[owner.gvk.kind]
            and f"f:{owner.gvk.group}/name"
            in dig(entry, "fieldsV1", "f:metadata", "f:labels", default={})
            for entry in entries
        )
    )


def home(standing: Standing) -> Home:
    """Return the place to change the objects of an applier."""
    root = standing.root
    return Home(
        applier=standing.applier,
        source=str(root.source) if root else "",
        url=_url(root) if root else "",
        directory=standing.directory.removeprefix("./").strip("/"),
    )


def _url(root: Part) -> str:
    """Return the URL from which the current artifact was fetched; empty if it is unknown."""
    found = origins.addressed(root.origins(root.artifacts[0])) if root.artifacts else ()
    return found[0].url if found else ""


def broken(annotations: Mapping[str, str], *, now: datetime) -> Glass | None:
    """Return the bypass in a Namespace's annotation; None after its end.

    Raises:
        ValueError: the annotation has no end or reason, or the end is too far ahead.
    """
    text = annotations.get(BREAK_GLASS, "").strip()
    if not text:
        return None
    stamp, _, reason = text.partition(" ")
    until = times.moment(stamp)
    if until is None or not reason.strip():
        raise ValueError(
            f"annotation {BREAK_GLASS} must be a time and a reason, as in "
            f"'{now.astimezone(UTC):%Y-%m-%dT%H:00:00Z} incident 42', not '{text}'"
        )
    if until - now > LONGEST:
        raise ValueError(f"annotation {BREAK_GLASS} may last for 24 hours, not until {stamp}")
    return Glass(until=until, reason=reason.strip()) if until > now else None


def _violation(policy: ProvenancePolicy, why: str) -> Violation:
    spec = policy.spec
    return Violation(policy=policy.metadata.name, mode=spec.mode, why=why, hint=spec.hint)


def _named(attempt: Attempt) -> str:
    ref, part = attempt.ref, attempt.subresource
    if ref.name:
        return f"{ref}" + (f" ({part})" if part not in {"", "scale"} else "")
    return f"a new {ref.gvk.kind} in namespace '{ref.namespace}'"


def _operates(operator: OperatorAccount, attempt: Attempt) -> bool:
    own = impersonation.service_account(operator.namespace, operator.service_account_name)
    if attempt.user != own:
        return False
    return not operator.resources or _among(operator.resources, attempt.group, attempt.resource)


def _among(selected: Iterable[SelectedResources], group: str | None, resource: str) -> bool:
    return any(
        (group is None or not {EVERY, group}.isdisjoint(each.api_groups))
        and not {EVERY, resource}.isdisjoint(each.resources)
        for each in selected
    )


def _missing(origins: Iterable[AllowedOrigin], claims: Claims, standing: Standing) -> str:
    """Return what a write lacks to satisfy the origin that it comes closest to."""
    closest: list[str] = []
    for origin in origins:
        met = list(allowedorigins.lacks(origin, claims, standing))
        lacking = [why for why in met if why]
        if not lacking:
            return ""
        if not closest or len(lacking) < len(closest):
            closest = lacking
    return " and ".join(closest)
