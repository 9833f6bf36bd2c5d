"""Refuse references to other namespaces without a ReferenceGrant.

Only references that a write adds are checked; the reconciler refuses existing ones. A grant that
was just written may not be in the cache yet. So before a denial the grants of the target's
namespace are read again, for a limited number of namespaces.

Under ``--cross-namespace-refs=warn`` a reference that lacks a grant is admitted, with a warning.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Final, TypeAlias

import msgspec

from crds import (
    ALERT,
    ARTIFACT_GENERATOR,
    HELM_RELEASE,
    IMAGE_POLICY,
    IMAGE_UPDATE_AUTOMATION,
    KUSTOMIZATION,
    RECEIVER,
    REFERENCE_GRANT,
)
from crds.policy_referencegrant import ReferenceGrant
from toolkit.errors import AccessDeniedError
from toolkit.kube.client import Client
from toolkit.kube.rbac import Rule as Permission
from toolkit.objects import GroupVersionKind, Json, ObjectRef
from toolkit.policy import references, remedies, unreadable
from toolkit.policy.grants import Grants
from toolkit.policy.references import BlockedError, Reference, References
from webhooks import changes, joint
from webhooks.plugin import Answer, Cause, DeniedError, Row, Rule
from webhooks.request import Request
from webhooks.services import Services

MOST: Final = 1000
"""Limit of references to other namespaces that one write may add."""
_READS: Final = 16
"""Namespaces whose grants are read once more for one request."""
_SHOWN: Final = 3
_CAUSES: Final = 32
_GRANT: Final = GroupVersionKind(*REFERENCE_GRANT.gvk)
_Denied: TypeAlias = tuple[Reference, AccessDeniedError]


class ReferenceCheck:
    """Asks the same function as the reconcilers."""

    def __init__(self, *, client: Client, policy: References) -> None:
        self._client = client
        self._policy = policy

    async def review(self, request: Request) -> Answer:
        """Let the references pass, perhaps with a warning, or deny."""
        if request.object is None:
            return Answer()
        # Off the loop: an object may hold hundreds of thousands of them.
        new = await asyncio.to_thread(_new, request.object, request.old, request.namespace)
        if len(new) > MOST:
            raise DeniedError(
                f"{request.ref} refers to {len(new)} objects of other namespaces, more than {MOST}:"
                " divide it"
            )
        denials = await self._denials(request.ref, new)
        if any(self._policy.refuses(error) for _, error in denials):
            raise _denial(request.ref, denials)
        return Answer(warnings=_warnings(denials))

    async def _denials(self, holder: ObjectRef, new: Sequence[Reference]) -> Sequence[_Denied]:
        """Return the references that are denied by the cache, and still after reading again."""
        denied = await self._judged(holder, new, self._policy.grants)
        if not denied or not self._policy.cross_namespace:
            return denied
        # Each namespace once, and only some of them, because the author of the object chooses them.
        named = list(dict.fromkeys(each.target.namespace for each, _ in denied))[:_READS]
        fresh = {namespace: await self._fresh(namespace) for namespace in named}
        again = [each for each, _ in denied if each.target.namespace in fresh]
        still = await self._judged(holder, again, fresh.__getitem__)
        return [*still, *(pair for pair in denied if pair[0].target.namespace not in fresh)]

    async def _judged(
        self, holder: ObjectRef, found: Sequence[Reference], lookup: references.Lookup
    ) -> Sequence[_Denied]:
        # Gathered on the loop, where the cache changes, and compared off it.
        asked = found if self._policy.cross_namespace else ()
        namespaces = {each.target.namespace for each in asked}
        grants = {namespace: lookup(namespace) for namespace in namespaces}
        policy = replace(self._policy, grants=grants.__getitem__)
        return await asyncio.to_thread(policy.denials, holder, found) if found else ()

    async def _fresh(self, namespace: str) -> Sequence[ReferenceGrant]:
        found = await self._client.list(_GRANT, namespace)
        grants = [grant for each in found if (grant := _grant(each)) is not None]
        return [each for each in grants if not each.metadata.deletion_timestamp]


def _grant(obj: Json) -> ReferenceGrant | None:
    """Return a grant; None for one that cannot be read, which grants nothing."""
    try:
        return msgspec.convert(obj, ReferenceGrant)
    except msgspec.ValidationError:
        return None


def _new(obj: Json, old: Json | None, own: str) -> list[Reference]:
    """Return the references to other namespaces that an object has and its former self had not.

    One that begins to read its target is new.
    """
    before = {(each.target, each.reads) for each in references.references(old or {}, own)}
    found = references.references(obj, own)
    return [
        each
        for each in found
        if each.target.namespace != own and (each.target, each.reads) not in before
    ]


def _denial(holder: ObjectRef, denials: Sequence[_Denied]) -> DeniedError:
    """Return the denial: the first references in words, all that fit as causes, the remedy."""
    text = "; ".join(f"{each.path}: {error}" for each, error in denials[:_SHOWN])
    more = f"; and {len(denials) - _SHOWN} more" if len(denials) > _SHOWN else ""
    causes = tuple(
        Cause(reason="FieldValueForbidden", field=each.path, message=str(error))
        for each, error in denials[:_CAUSES]
    )
    message = f"{text}{more}; {_remedy(holder, denials)}"
    return DeniedError(message, reason="Forbidden", causes=causes)


def _remedy(holder: ObjectRef, denials: Sequence[_Denied]) -> str:
    if any(isinstance(error, BlockedError) for _, error in denials):
        return (
            "refer to an object of the own namespace: --no-cross-namespace-refs is set here, and no"
            f" grant changes that (see {remedies.LOCKED_PAGE})"
        )
    return remedies.remedy(holder, [each.target for each, _ in denials])


def _warnings(denials: Sequence[_Denied]) -> tuple[str, ...]:
    """Return a line for each of the first references; the condition has the grants to write."""
    lines = [
        f"{each.path}: no ReferenceGrant in namespace '{each.target.namespace}' allows "
        f"'{each.target}'; admitted because of --cross-namespace-refs=warn, see {remedies.PAGE}"
        for each, _ in denials[:_SHOWN]
    ]
    more = len(denials) - len(lines)
    return (*lines, f"and {more} more references lack a ReferenceGrant") if more else tuple(lines)


def make(services: Services) -> ReferenceCheck:
    """Return the plugin with the services of the process."""
    cache = services.watch(
        _GRANT, decode=msgspec.json.Decoder(ReferenceGrant).decode, stand_in=unreadable.grant
    )
    return ReferenceCheck(
        client=services.client, policy=references.under(Grants(cache), services.options)
    )


ROW: Final = Row(
    name="references",
    rules=(
        Rule(groups=(KUSTOMIZATION.group,), resources=(KUSTOMIZATION.plural,)),
        Rule(groups=(HELM_RELEASE.group,), resources=(HELM_RELEASE.plural,)),
        Rule(groups=(ARTIFACT_GENERATOR.group,), resources=(ARTIFACT_GENERATOR.plural,)),
        Rule(groups=(ALERT.group,), resources=(ALERT.plural, RECEIVER.plural)),
        Rule(
            groups=(IMAGE_POLICY.group,),
            resources=(IMAGE_POLICY.plural, IMAGE_UPDATE_AUTOMATION.plural),
        ),
    ),
    make=make,
    conditions=(changes.SPEC,),
    webhook=joint.SPECS,
    permissions=(
        Permission(
            groups=(REFERENCE_GRANT.group,),
            resources=(REFERENCE_GRANT.plural,),
            verbs=("get", "list", "watch"),
        ),
    ),
)
