"""Which objects a hook concerns: names, ``*`` with labels, and CEL over object and request."""

from collections.abc import Sequence
from typing import Final

from controllers.notification.receiving.request import RefusedError
from crds import KINDS, RECEIVER
from crds.notification_receiver import Receiver, ReceiverResource
from toolkit.errors import StalledError
from toolkit.expressions import expression as expressions
from toolkit.expressions.evaluator import Case, Evaluates, Step
from toolkit.expressions.expression import Expression
from toolkit.kube.client import Client
from toolkit.kube.errors import ApiError, NotFoundError
from toolkit.objects import GroupVersionKind, Json, ObjectRef, ref_of
from toolkit.policy.references import References

_KINDS: Final = {kind.kind: GroupVersionKind(*kind.gvk) for kind in KINDS}
_RECEIVER: Final = GroupVersionKind(*RECEIVER.gvk)
_EVERY: Final = "*"
VARIABLES: Final = ("res", "req")
MOST: Final = 5000
"""Objects of one hook."""


class Resources:
    """Finds the objects."""

    def __init__(self, client: Client, policy: References, evaluates: Evaluates) -> None:
        self._client = client
        self._policy = policy
        self._evaluates = evaluates

    async def of(
        self, receiver: Receiver, request: Json | None
    ) -> tuple[list[ObjectRef], list[str]]:
        """Return the objects to reconcile, and the problems with other resources of the Receiver.

        Raises:
            RefusedError: an expression is invalid, or takes too long.
        """
        groups: list[tuple[Sequence[Expression], Sequence[Json]]] = []
        problems = []
        named: dict[ObjectRef, None] = {}
        for number, each in enumerate(receiver.spec.resources):
            try:
                ref = self._allowed(receiver, each)
                filters = _filters(receiver, each)
                if each.name != _EVERY and not filters:
                    named[ref] = None
                else:
                    groups.append((filters, await self._objects(ref, each)))
            except (ApiError, StalledError) as exc:
                problems.append(f"spec.resources[{number}]: {exc}")
        chosen = await self._chosen(receiver.metadata.namespace, groups, request)
        return list(named | dict.fromkeys(chosen))[:MOST], problems

    def _allowed(self, receiver: Receiver, each: ReceiverResource) -> ObjectRef:
        meta = receiver.metadata
        target = ObjectRef(_KINDS[each.kind], each.namespace or meta.namespace, each.name)
        self._policy.require(ObjectRef(_RECEIVER, meta.namespace, meta.name), target)
        return target

    async def _chosen(
        self,
        namespace: str,
        groups: Sequence[tuple[Sequence[Expression], Sequence[Json]]],
        request: Json | None,
    ) -> list[ObjectRef]:
        """Return the objects that match all filters of their group, all within one budget."""
        pairs = [(filters, obj) for filters, objects in groups for obj in objects]
        filtered = [(filters, obj) for filters, obj in pairs if filters]
        cases = [
            Case(given={"res": obj}, steps=[Step(expression=each) for each in filters])
            for filters, obj in filtered
        ]
        chosen = [ref_of(obj) for filters, obj in pairs if not filters]
        if not cases:
            return chosen
        try:
            outcomes = await self._evaluates.evaluate(
                namespace, cases, shared={"req": request or {}}, doubles=True
            )
            for (filters, obj), found in zip(filtered, outcomes, strict=True):
                if all(map(expressions.holds, filters, found)):
                    chosen.append(ref_of(obj))
        except StalledError as exc:
            raise RefusedError(
                f"the filters of the Receiver cannot be used on {len(cases)} objects: {exc}",
                status=503,
            ) from exc
        return chosen

    async def _objects(self, ref: ObjectRef, each: ReceiverResource) -> Sequence[Json]:
        if each.name == _EVERY:
            labels = ",".join(f"{key}={value}" for key, value in sorted(each.match_labels.items()))
            return await self._client.list(ref.gvk, ref.namespace, label_selector=labels)
        try:
            return [await self._client.get(ref.gvk, ref.name, ref.namespace)]
        except NotFoundError:
            return []


def _filters(receiver: Receiver, each: ReceiverResource) -> list[Expression]:
    texts = (receiver.spec.resource_filter, each.filter)
    return [Expression(text=text, variables=VARIABLES) for text in texts if text]
