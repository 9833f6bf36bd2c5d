"""Only users who may ``bypass`` policies can remove the protection of a namespace.

The same permission is needed for writes while policies of a namespace are bypassed
(``webhooks.provenance``).
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

import msgspec

from crds import PROVENANCE_POLICY
from crds.policy_provenance import ProvenancePolicy
from toolkit.kube import rbac
from toolkit.objects import GroupVersionKind, Json, dig
from toolkit.policy import provenance, unreadable
from webhooks.plugin import Answer, Condition, DeniedError, Row, Rule
from webhooks.request import Request
from webhooks.services import Cache, Services

BYPASS: Final = "bypass"
"""The verb on ProvenancePolicies that is needed while policies are bypassed."""
POLICY: Final = GroupVersionKind(*PROVENANCE_POLICY.gvk)
_decode: Final = msgspec.json.Decoder(ProvenancePolicy).decode
Policies = Sequence[ProvenancePolicy]


class ProvenanceNamespaces:
    """Reviews changes of Namespaces by which policies would cease to hold, or the glass breaks."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._policies = policies(services)

    async def review(self, request: Request) -> Answer:
        """Allow changes of the protection of a namespace only to users who may ``bypass``."""
        held = self._held(request.old)
        kept = {each.metadata.name for each in self._held(request.object)}
        breaks = _glass_of(request.object) != _glass_of(request.old) and _glass_of(request.object)
        lost = held if breaks else [each for each in held if each.metadata.name not in kept]
        if not lost:
            return Answer()
        if breaks:
            _require_sound(request)
        names = [each.metadata.name for each in lost]
        if await may_bypass(self._services, request, names):
            note = {"break-glass": breaks} if breaks else {}
            return Answer(audit={**note, "policies": ", ".join(names)})
        what = "break the glass of" if breaks else "take the protection from"
        raise DeniedError(
            f"Namespace '{request.name}': '{request.user.name}' may not {what} it; that needs the"
            f" verb '{BYPASS}' on provenancepolicies: {', '.join(names)}"
        )

    def _held(self, namespace: Json | None) -> Policies:
        labels = dig(namespace or {}, "metadata", "labels", default={})
        return provenance.holding(self._policies.items().values(), labels)


def policies(services: Services) -> Cache[ProvenancePolicy]:
    """Return the policies of the cluster, also those that cannot be read."""
    return services.watch(POLICY, decode=_decode, stand_in=unreadable.provenance_policy)


async def may_bypass(services: Services, request: Request, policies: Sequence[str]) -> bool:
    """Tell whether the requester may bypass all of these policies."""
    for name in policies:
        if not await services.authorize.allowed(
            request.user,
            verb=BYPASS,
            group=PROVENANCE_POLICY.group,
            resource=PROVENANCE_POLICY.plural,
            namespace="",
            name=name,
        ):
            return False
    return True


def condition(name: str, expression: str) -> Condition:
    """Return a condition whose expression was written over several lines."""
    return Condition(name=name, expression=" ".join(expression.split()))


def _glass_of(namespace: Json | None) -> str:
    notes = dig(namespace or {}, "metadata", "annotations", default={})
    return str(notes.get(provenance.BREAK_GLASS) or "")


def _require_sound(request: Request) -> None:
    """Refuse an annotation that would not break the glass.

    Raises:
        DeniedError: it is malformed, or lasts too long.
    """
    notes = dig(request.object or {}, "metadata", "annotations", default={})
    try:
        provenance.broken(notes, now=datetime.now(UTC))
    except ValueError as exc:
        raise DeniedError(f"Namespace '{request.name}': {exc}", code=422) from exc


READ_POLICIES: Final = rbac.Rule(
    groups=(PROVENANCE_POLICY.group,),
    resources=(PROVENANCE_POLICY.plural,),
    verbs=("get", "list", "watch"),
)
_LABELLED: Final = f"'{provenance.LABEL}' in oldObject.metadata.labels"
_UNPACKED: Final = f"'{provenance.BREAK_GLASS}'"
ROW: Final = Row(
    name="provenancenamespaces",
    rules=(
        Rule(
            groups=("",),
            versions=("v1",),
            # labels can be changed by way of each of them
            resources=("namespaces", "namespaces/status", "namespaces/finalize"),
            operations=("UPDATE",),
            scope="Cluster",
        ),
    ),
    make=ProvenanceNamespaces,
    to_the_end=True,
    conditions=(
        # Labels by which policies select, and the annotation for the bypass; others do not matter.
        condition(
            "was-protected",
            f"has(oldObject.metadata.labels) && {_LABELLED}",
        ),
        condition(
            "protection-changes",
            f"""!has(object.metadata.labels) || !has(oldObject.metadata.labels)
            || object.metadata.labels != oldObject.metadata.labels
            || (has(object.metadata.annotations) && {_UNPACKED} in object.metadata.annotations
            && (!has(oldObject.metadata.annotations)
            || !({_UNPACKED} in oldObject.metadata.annotations)
            || object.metadata.annotations[{_UNPACKED}]
            != oldObject.metadata.annotations[{_UNPACKED}]))""",
        ),
    ),
    permissions=(READ_POLICIES,),
)
