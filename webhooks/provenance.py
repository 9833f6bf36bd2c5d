"""Objects in protected namespaces must come from a repository (``ProvenancePolicy``).

The API server calls the plugin only for namespaces with the label
``policy.penstock.dev/provenance``, for every kind, and for every subresource that can change an
object. In steps:

1. Find the policies for this write. If there is none, allow it.
2. A write with claims of provenance must have true claims, whatever it does (``claims``), and an
   origin that the policies allow.
3. A write without claims must be one of the cluster itself (``machinery``); otherwise it violates
   the policies.
4. While policies of the namespace are bypassed, a user who may ``bypass`` every policy that refuses
   is allowed, and the audit log records it.

Nothing depends on labels or annotations of the object itself. Dry-runs are treated alike.
"""

import contextlib
import dataclasses
import logging
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

from crds import EXTERNAL_ARTIFACT, KINDS
from toolkit.kube import rbac
from toolkit.kube.errors import NotFoundError
from toolkit.objects import GroupVersionKind, Json, ObjectRef, dig, key_of
from toolkit.policy import claims, machinery, provenance
from toolkit.policy.attempts import Attempt, controller_of
from toolkit.policy.claims import Standing
from toolkit.policy.provenance import Violation
from webhooks import protection
from webhooks.namespaces import NAMESPACE, Namespaces
from webhooks.plugin import INSTALLED, Answer, DeniedError, Row, Rule
from webhooks.protection import Policies
from webhooks.request import Request
from webhooks.services import Services
from webhooks.standings import PERMISSIONS, Standings

logger = logging.getLogger(__name__)

_FROM_REPOSITORIES: Final = "only objects from a repository are admitted"
_HOPS: Final = 3
"""From a Pod over its ReplicaSet to the Deployment that a repository holds."""


class Provenance:
    """Reviews writes in protected namespaces."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._client = services.client
        self._policies = protection.policies(services)
        self._namespaces = Namespaces(services)
        self._standings = Standings(services, after=protection.POLICY)

    async def review(self, request: Request) -> Answer:
        """Admit what came from a repository, and what must pass without one."""
        attempt = _attempt(request)
        # 1.
        policies = provenance.about(await self._holding(request.namespace), attempt)
        if not policies:
            return Answer()
        # 2., 3.
        violations = await self._violations(request, attempt, policies)
        if not violations:
            return Answer()
        if not self._services.proven:
            violations = _unexplained(attempt, violations)
        forbidding = provenance.enforced(violations)
        if not forbidding:
            return _tolerated(attempt, violations)
        # 4.
        glass = await self._glass(request, forbidding)
        if glass is not None:
            return glass
        home = await self._home(attempt)
        raise DeniedError(provenance.refusal(attempt, forbidding, home), audit=_noted(violations))

    async def _holding(self, namespace: str) -> Policies:
        known = self._policies.items()
        if not known:
            return ()
        labels = await self._namespaces.labels(namespace)
        if provenance.LABEL not in labels:
            # the API server has seen the label, so the cache is behind
            live = await self._client.get(NAMESPACE, namespace)
            labels = dig(live, "metadata", "labels", default={})
        return provenance.holding(known.values(), labels)

    async def _violations(
        self, request: Request, attempt: Attempt, policies: Policies
    ) -> tuple[Violation, ...]:
        """Return the violations of a write."""
        try:
            made = claims.parse(request.user.extra)
            if made is not None:
                return await self._judged(made, attempt, policies)
        except claims.UntrustedError as exc:
            return provenance.unproven(policies, f"its provenance is not true: {exc}")
        row = machinery.exemption(attempt, installed=self._services.namespace)
        if row is None:
            return provenance.unproven(policies, _FROM_REPOSITORIES)
        return await self._orphaned(attempt, policies) if row.admitted else ()

    async def _judged(
        self, made: claims.Claims, attempt: Attempt, policies: Policies
    ) -> tuple[Violation, ...]:
        """Return the violations of a write; if a cache refutes it, check again with the API server.

        Raises:
            UntrustedError: the claims are not true.
        """
        with contextlib.suppress(claims.UntrustedError):
            standing = await self._standings.of(made.applier)
            if not (found := _judge(made, attempt, policies, standing)):
                return found
        standing = await self._standings.of(made.applier, fresh=True)
        return _judge(made, attempt, policies, standing)

    async def _orphaned(self, attempt: Attempt, policies: Policies) -> tuple[Violation, ...]:
        """Return the violations of an object that a controller creates for another object."""
        named = controller_of(attempt.object) or {}
        owner = await self._owner(attempt.ref.namespace, named)
        kind, name = named.get("kind"), named.get("name")
        if owner is None:
            return provenance.unproven(policies, f"its controller {kind}/{name} does not exist")
        plural, gvk = machinery.OWNERS[_group_kind(named)]
        open_ones = [each for each in policies if not provenance.selects(each, gvk.group, plural)]
        return provenance.unproven(
            open_ones, f"its controller is a {kind}, which the policy does not cover"
        )

    async def _owner(self, namespace: str, named: Json) -> Json | None:
        """Return the object of an owner reference, if its kind is known."""
        if _group_kind(named) not in machinery.OWNERS:
            return None
        _, gvk = machinery.OWNERS[_group_kind(named)]
        try:
            found = await self._client.get(gvk, str(named.get("name")), namespace)
        except NotFoundError:
            return None
        return found if dig(found, "metadata", "uid") == named.get("uid") else None

    async def _glass(self, request: Request, forbidding: Sequence[Violation]) -> Answer | None:
        """Return the answer that allows the request if policies are bypassed; None otherwise."""
        live = await self._client.get(NAMESPACE, request.namespace)
        notes: Mapping[str, str] = dig(live, "metadata", "annotations", default={})
        try:
            glass = provenance.broken(notes, now=datetime.now(UTC))
        except ValueError:
            return None  # The bypass was refused, or set before the webhook ran.
        if glass is None:
            return None
        names = sorted({each.policy for each in forbidding})
        if not await protection.may_bypass(self._services, request, names):
            return None
        return Answer(
            warnings=(f"this comes from no repository; break-glass is active until {glass.until}",),
            audit={"break-glass": glass.reason, "policies": ", ".join(names)},
        )

    async def _home(self, attempt: Attempt) -> provenance.Home | None:
        """Return the place to change an existing object; only its current labels count.

        Facts of other namespaces are told only about the applier that has applied the object.
        """
        obj = attempt.old
        if not self._services.proven:
            # the request's own words
            owners = provenance.owners_of(obj)
            return provenance.Home(applier=owners[0]) if owners else None
        if attempt.subresource:
            obj = await self._whole(attempt) or obj
        for _ in range(_HOPS):
            if owners := provenance.appliers_of(obj):
                standing = await self._standings.of(owners[0])
                return provenance.home(standing) if standing else None
            named = controller_of(obj)
            if named is None:
                return None
            obj = await self._owner(attempt.ref.namespace, named)
        return None

    async def _whole(self, attempt: Attempt) -> Json | None:
        """Return the object of a subresource, if its kind is known."""
        for plural, gvk in machinery.OWNERS.values():
            if plural == attempt.resource:
                try:
                    return await self._client.get(gvk, attempt.ref.name, attempt.ref.namespace)
                except NotFoundError:
                    return None
        return None


def _judge(
    made: claims.Claims, attempt: Attempt, policies: Policies, standing: Standing | None
) -> tuple[Violation, ...]:
    claims.authenticate(made, user=attempt.user, standing=standing)
    if standing is None:
        raise claims.UntrustedError(f"{made.applier} does not exist")
    return provenance.judge(policies, attempt, made, standing)


def _attempt(request: Request) -> Attempt:
    present = request.object if request.object is not None else request.old
    name = request.name or key_of(present or {}).name  # a collection is deleted one by one
    ref = ObjectRef(request.gvk, request.namespace, name)
    if request.subresource:
        kind = request.resource if request.gvk.kind == "Scale" else request.gvk.kind
        ref = ObjectRef(GroupVersionKind("", "", kind), request.namespace, name)
    return Attempt(
        operation=request.operation,
        group=None if request.subresource else request.gvk.group,
        resource=request.resource,
        subresource=request.subresource,
        ref=ref,
        user=request.user.name,
        groups=request.user.groups,
        object=request.object,
        old=request.old,
    )


def _unexplained(attempt: Attempt, violations: Sequence[Violation]) -> tuple[Violation, ...]:
    """Return violations without reasons, which disclose the cluster; our log has the reasons."""
    logger.info(
        "provenance violated",
        extra={"object": str(attempt.ref), "violations": "; ".join(map(str, violations))},
    )
    return tuple(dataclasses.replace(each, why=_FROM_REPOSITORIES) for each in violations)


def _tolerated(attempt: Attempt, violations: Sequence[Violation]) -> Answer:
    """Return the answer with violations that do not refuse."""
    told = [each for each in violations if each.mode == "Warn"]
    warnings = (provenance.refusal(attempt, told, None),) if told else ()
    return Answer(warnings=warnings, audit=_noted(violations))


def _noted(violations: Sequence[Violation]) -> Mapping[str, str]:
    return {"violations": "; ".join(map(str, violations))}


def _group_kind(named: Json) -> tuple[str, str]:
    gvk = GroupVersionKind.parse(str(named.get("apiVersion") or ""), str(named.get("kind") or ""))
    return gvk.group_kind


def _account(name: str) -> str:
    return f"system:serviceaccount:{INSTALLED}:{name}"


_OURS: Final = frozenset(machinery.ACCOUNTS.values())
_DESCRIPTION: Final = ("labels", "annotations", "finalizers", "ownerReferences")
_DESCRIBED: Final = " || ".join(
    f"(has(object.metadata.{name}) != has(oldObject.metadata.{name}) ||"
    f" (has(object.metadata.{name}) && object.metadata.{name} != oldObject.metadata.{name}))"
    for name in _DESCRIPTION
)
_DECIDING: Final = tuple(
    kind
    for kind in KINDS
    if kind.namespaced and not (kind.has_artifact and kind is not EXTERNAL_ARTIFACT)
)
"""The kinds whose status decides what is applied; ``sourcepolicy`` protects that of the others."""
_DECIDES: Final = (
    f"(request.resource.group in {sorted({kind.group for kind in _DECIDING})}"
    f" && request.resource.resource in {sorted(kind.plural for kind in _DECIDING)}"
    f" && !(request.userInfo.username in {sorted(_account(name) for name in _OURS)}))"
)
"""True for a status of these kinds that another account than those of our controllers writes."""
_OWNER_RULES: Final = tuple(
    rbac.Rule(
        groups=(group,),
        resources=tuple(
            sorted(plural for plural, gvk in machinery.OWNERS.values() if gvk.group == group)
        ),
        verbs=("get",),
    )
    for group in sorted({gvk.group for _, gvk in machinery.OWNERS.values()})
)

ROW: Final = Row(
    name="provenance",
    rules=(
        Rule(
            groups=("*",),
            resources=("*/*",),
            operations=("CREATE", "UPDATE", "DELETE"),
            scope="Namespaced",
        ),
    ),
    make=Provenance,
    namespace_selector={
        "matchExpressions": [{"key": provenance.LABEL, "operator": "Exists"}],
    },
    conditions=(
        # The node of a Pod, the eviction of Pods, and tokens do not come from a repository.
        protection.condition(
            "not-running",
            f"""!(has(request.subResource) && request.subResource in ['eviction', 'token', 'log'])
            && !(request.resource.resource in ['endpoints', 'endpointslices'])
            && !(request.userInfo.username == '{machinery.SCHEDULER}'
            && (request.resource.resource == 'bindings'
            || (has(request.subResource) && request.subResource == 'binding')))""",
        ),
        # A status describes the object, unless the write also changes metadata. The status of
        # Penstock's kinds decides more: the image of an ImagePolicy, the release to uninstall.
        protection.condition(
            "not-a-status",
            f"""!(has(request.subResource) && request.subResource == 'status')
            || object == null || oldObject == null || {_DESCRIBED} || {_DECIDES}""",
        ),
        # An object that is being deleted may be deleted at once.
        protection.condition(
            "not-terminating",
            """request.operation != 'DELETE' || oldObject == null
            || !has(oldObject.metadata.deletionTimestamp)""",
        ),
    ),
    permissions=(protection.READ_POLICIES, *PERMISSIONS, *_OWNER_RULES),
)
