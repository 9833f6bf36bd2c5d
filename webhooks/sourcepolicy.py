"""Refuse sources that a SourcePolicy forbids.

The reconcilers call the same functions before they fetch, store and use anything. Here only changes
for the worse are denied: an existing source that violates a policy can still be suspended or
labelled, and can lose its finalizer.

Other controllers trust the artifact in a source's status: its URL and its signer. So, with or
without policies, only the source controller may write the artifact in a status, or users with the
verb ``attest`` on the source: a role with ``*`` as resource includes the subresource ``status``,
perhaps without intention. Third parties write those of ExternalArtifacts, which never count as
verified; under an enforced policy, only if the kind is allowed.
"""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from crds import EXTERNAL_ARTIFACT, KINDS, SOURCE_POLICY
from crds.policy_source import SourcePolicy
from toolkit.kube.rbac import Rule as Permission
from toolkit.objects import GroupVersionKind, Json, dig
from toolkit.policy import selectors, sources, unreadable
from toolkit.policy.sources import Violation
from webhooks import changes
from webhooks.authorizer import Authorizer
from webhooks.namespaces import Namespaces
from webhooks.plugin import INSTALLED, Answer, Cause, Condition, DeniedError, Row, Rule
from webhooks.request import Request
from webhooks.services import Cache, Services

CONTROLLER: Final = "source-controller"
"""The service account, in the install namespace, that writes the status of sources."""
_KIND: Final = GroupVersionKind(*SOURCE_POLICY.gvk)
_PLURALS: Final = tuple(
    kind.plural for kind in KINDS if kind.group == sources.GROUP and kind.kind in sources.KINDS
)


class SourcePolicyCheck:
    """Asks the same function as the reconcilers."""

    def __init__(
        self,
        *,
        authorize: Authorizer,
        namespaces: Namespaces,
        policies: Cache[SourcePolicy],
        installed: str,
    ) -> None:
        self._authorize = authorize
        self._namespaces = namespaces
        self._policies = policies
        self._installed = installed

    async def review(self, request: Request) -> Answer:
        """Let the source pass, perhaps with a warning, or deny."""
        obj = request.object
        if obj is None:
            return Answer()
        if request.subresource == "status":
            return await self._attested(request, obj)
        policies = await self._applicable(request.namespace)
        if not policies:
            return Answer()
        # Patterns and identities of policies and sources are compared each with each.
        return await asyncio.to_thread(_judged, obj, request.old, policies)

    async def _applicable(self, namespace: str) -> tuple[SourcePolicy, ...]:
        everywhere = self._policies.items().values()
        if not everywhere:
            return ()
        return selectors.applicable(
            everywhere,
            namespace=namespace,
            labels=await self._namespaces.labels(namespace),
            installed=self._installed,
        )

    async def _attested(self, request: Request, obj: Json) -> Answer:
        """Deny a status whose artifact was written by a user who may not attest it."""
        if _artifact(obj) in (None, _artifact(request.old or {})):
            return Answer()
        if request.user.name == f"system:serviceaccount:{self._installed}:{CONTROLLER}":
            return Answer()
        if request.gvk.kind == EXTERNAL_ARTIFACT.kind:
            policies = await self._applicable(request.namespace)
            enforced = any(policy.spec.mode == "Enforce" for policy in policies)
            # Entries of this kind have neither URLs nor signers: 20 µs a policy of the largest.
            return _judged(obj, None, policies) if enforced else Answer()
        if await self._authorize.allowed(
            request.user,
            verb="attest",
            group=sources.GROUP,
            resource=request.resource,
            namespace=request.namespace,
            name=request.name,
        ):
            return Answer()
        raise DeniedError(
            f"status.artifact: only the source controller, and users with the verb "
            f"'attest' on {request.resource}.{sources.GROUP}, may set artifacts here",
            causes=(
                Cause(
                    reason="FieldValueForbidden", field="status.artifact", message="it is protected"
                ),
            ),
        )


def _artifact(obj: Json) -> object:
    found: object = dig(obj, "status", "artifact")
    return found


def _judged(obj: Json, old: Json | None, policies: Sequence[SourcePolicy]) -> Answer:
    """Return the answer about violations that a write adds."""
    before = sources.judge(old, policies) if old else ()
    return _answer(sources.fresh(sources.judge(obj, policies), before))


def _answer(found: Iterable[Violation]) -> Answer:
    """Convert violations into a denial, warnings and audit annotations, by their policies."""
    violations = tuple(found)
    forbidding = sources.enforced(violations)
    if forbidding:
        raise DeniedError(
            "; ".join(map(str, forbidding)),
            causes=tuple(
                Cause(reason="FieldValueForbidden", field=each.field, message=each.why)
                for each in forbidding
            ),
        )
    audit = {"violations": "; ".join(map(str, violations))} if violations else {}
    warnings = tuple(str(each) for each in violations if each.mode == "Warn")
    return Answer(warnings=warnings, audit=audit)


def make(services: Services) -> SourcePolicyCheck:
    """Return the plugin with the services of the process."""
    return SourcePolicyCheck(
        authorize=services.authorize,
        namespaces=Namespaces(services),
        policies=services.watch(
            _KIND,
            decode=msgspec.json.Decoder(SourcePolicy).decode,
            stand_in=unreadable.source_policy,
        ),
        installed=services.namespace,
    )


ROW: Final = Row(
    name="source-policy",
    rules=(
        Rule(groups=(sources.GROUP,), resources=_PLURALS),
        Rule(
            groups=(sources.GROUP,),
            resources=tuple(f"{plural}/status" for plural in _PLURALS),
            operations=("UPDATE",),
        ),
    ),
    make=make,
    conditions=(
        changes.SPEC_OR_SUBRESOURCE,
        # Our own status writes, the most frequent of all, are let through without a question.
        Condition(
            name="not-by-the-source-controller",
            expression=(
                "!(has(request.subResource) && request.subResource == 'status')"
                " || request.userInfo.username != "
                f"'system:serviceaccount:{INSTALLED}:{CONTROLLER}'"
            ),
        ),
    ),
    permissions=(
        Permission(
            groups=(SOURCE_POLICY.group,),
            resources=(SOURCE_POLICY.plural,),
            verbs=("get", "list", "watch"),
        ),
    ),
)
