"""References to other namespaces, refused at once unless a ReferenceGrant allows them.

Only references that a write brings are looked at: what stood there before is the reconciler's to
stop. A grant that was written a moment ago may not be in the cache yet, so before a denial the
grants of the target's namespace are read once more.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from crds import ARTIFACT_GENERATOR, KUSTOMIZATION, REFERENCE_GRANT
from crds.policy_referencegrant import ReferenceGrant
from toolkit.errors import AccessDeniedError
from toolkit.kube.client import Client
from toolkit.kube.rbac import Rule as Permission
from toolkit.objects import GroupVersionKind, ObjectRef
from toolkit.policy import references
from toolkit.policy.grants import Grants
from toolkit.policy.references import Reference, References
from webhooks.plugin import Answer, Cause, DeniedError, Row, Rule
from webhooks.request import Request
from webhooks.services import Services

_GRANT: Final = GroupVersionKind(*REFERENCE_GRANT.gvk)


class ReferenceCheck:
    """Asks the same function as the reconcilers."""

    def __init__(self, *, client: Client, grants: Grants, cross_namespace: bool) -> None:
        self._client = client
        self._grants = grants
        self._cross_namespace = cross_namespace

    async def review(self, request: Request) -> Answer:
        """Let the references pass, or deny."""
        if request.object is None:
            return Answer()
        before = references.references(request.old or {}, request.namespace)
        known = {each.target for each in before}
        found = references.references(request.object, request.namespace)
        new = [each for each in found if each.target not in known]
        denials = [each for each in [await self._denial(request.ref, one) for one in new] if each]
        if denials:
            causes = tuple(
                Cause(reason="FieldValueForbidden", field=path, message=str(denial))
                for path, denial in denials
            )
            text = "; ".join(f"{path}: {denial}" for path, denial in denials)
            raise DeniedError(text, reason="Forbidden", causes=causes)
        return Answer()

    async def _denial(
        self, holder: ObjectRef, reference: Reference
    ) -> tuple[str, AccessDeniedError] | None:
        """Return where a reference stands and why it is denied; None if it may be."""
        policy = References(grants=self._grants, cross_namespace=self._cross_namespace)
        try:
            policy.require(holder, reference.target)
        except AccessDeniedError:
            return await self._read_again(holder, reference)
        return None

    async def _read_again(
        self, holder: ObjectRef, reference: Reference
    ) -> tuple[str, AccessDeniedError] | None:
        fresh = await self._fresh(reference.target.namespace) if self._cross_namespace else ()
        policy = References(grants=lambda _: fresh, cross_namespace=self._cross_namespace)
        try:
            policy.require(holder, reference.target)
        except AccessDeniedError as denial:
            return reference.path, denial
        return None

    async def _fresh(self, namespace: str) -> Sequence[ReferenceGrant]:
        found = await self._client.list(_GRANT, namespace)
        grants = [msgspec.convert(each, ReferenceGrant) for each in found]
        return [each for each in grants if not each.metadata.deletion_timestamp]


def make(services: Services) -> ReferenceCheck:
    """Take what is needed of the process."""
    cache = services.watch(_GRANT, decode=msgspec.json.Decoder(ReferenceGrant).decode)
    return ReferenceCheck(
        client=services.client,
        grants=Grants(cache),
        cross_namespace=not services.options.no_cross_namespace_refs,
    )


ROW: Final = Row(
    name="references",
    rules=(
        Rule(groups=(KUSTOMIZATION.group,), resources=(KUSTOMIZATION.plural,)),
        Rule(groups=(ARTIFACT_GENERATOR.group,), resources=(ARTIFACT_GENERATOR.plural,)),
    ),
    make=make,
    permissions=(
        Permission(
            groups=(REFERENCE_GRANT.group,),
            resources=(REFERENCE_GRANT.plural,),
            verbs=("get", "list", "watch"),
        ),
    ),
)
