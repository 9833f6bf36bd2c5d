"""Which objects a hook concerns: names, ``*`` with labels, and CEL over object and request."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from controllers.notification import followed
from controllers.notification.receiving.request import RefusedError
from crds import RECEIVER
from crds.notification_receiver import Receiver, ReceiverResource
from toolkit.errors import StalledError
from toolkit.expressions import expression as expressions
from toolkit.expressions.evaluator import Case, Evaluates, Step
from toolkit.expressions.expression import Expression
from toolkit.kube.client import Client
from toolkit.kube.errors import ApiError, NotFoundError
from toolkit.objects import GroupVersionKind, Json, ObjectRef, ref_of
from toolkit.policy.references import References

_RECEIVER: Final = GroupVersionKind(*RECEIVER.gvk)
_EVERY: Final = "*"
_MOST_READS: Final = 64
"""Requests for one hook: a list of each kind and namespace, or a single object."""
VARIABLES: Final = ("res", "req")
MOST: Final = 5000
"""Objects of one hook."""

_Group: TypeAlias = tuple[Sequence[Expression], Sequence[Json]]
"""Objects, and the filters that they must match."""


class Resources:
    """Finds the objects."""

    def __init__(self, client: Client, policy: References, evaluates: Evaluates) -> None:
        self._client = client
        self._policy = policy
        self._evaluates = evaluates

    async def of(
        self, receiver: Receiver, request: Json | None, require_current: Callable[[], None]
    ) -> tuple[list[ObjectRef], list[str]]:
        """Return the objects to reconcile, and the problems with other resources of the Receiver.

        Objects of a kind in a namespace are read once. ``require_current`` raises once the Receiver
        was changed or deleted, and is called before each request.

        Raises:
            RefusedError: an expression is invalid, or takes too long.
        """
        groups: list[_Group] = []
        problems = []
        named: dict[ObjectRef, None] = {}
        reading = _Reading(self._client, receiver, require_current)
        for number, each in enumerate(receiver.spec.resources):
            try:
                ref = self._allowed(receiver, each)
                filters = _filters(receiver, each)
                if each.name != _EVERY and not filters:
                    named[ref] = None
                else:
                    groups.append((filters, await reading.objects(ref, each)))
            except (ApiError, StalledError) as exc:
                problems.append(f"spec.resources[{number}]: {exc}")
        chosen = await self._chosen(receiver.metadata.namespace, groups, request)
        return list(named | dict.fromkeys(chosen))[:MOST], problems

    def _allowed(self, receiver: Receiver, each: ReceiverResource) -> ObjectRef:
        meta = receiver.metadata
        target = ObjectRef(followed.KINDS[each.kind], each.namespace or meta.namespace, each.name)
        self._policy.require(ObjectRef(_RECEIVER, meta.namespace, meta.name), target)
        return target

    async def _chosen(
        self, namespace: str, groups: Sequence[_Group], request: Json | None
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


class _Reading:
    """Reads the objects of one hook; several entries for one kind and namespace share a list."""

    def __init__(
        self, client: Client, receiver: Receiver, require_current: Callable[[], None]
    ) -> None:
        self._client = client
        self._require_current = require_current
        self._reads = 0
        self._known: dict[tuple[GroupVersionKind, str], Sequence[Json]] = {}
        own = receiver.metadata.namespace
        self._entries = Counter(
            (followed.KINDS[each.kind], each.namespace or own) for each in receiver.spec.resources
        )

    async def objects(self, ref: ObjectRef, each: ReceiverResource) -> Sequence[Json]:
        """Return the objects that an entry selects.

        Raises:
            RefusedError: the Receiver was changed, or has entries for too many namespaces.
        """
        place = (ref.gvk, ref.namespace)
        if self._entries[place] == 1:
            return await self._alone(ref, each)
        if place not in self._known:
            self._require_read()
            self._known[place] = await self._client.list(*place)
        return [obj for obj in self._known[place] if _selects(each, obj)]

    async def _alone(self, ref: ObjectRef, each: ReceiverResource) -> Sequence[Json]:
        self._require_read()
        if each.name == _EVERY:
            labels = ",".join(f"{key}={value}" for key, value in sorted(each.match_labels.items()))
            return await self._client.list(ref.gvk, ref.namespace, label_selector=labels)
        try:
            return [await self._client.get(ref.gvk, ref.name, ref.namespace)]
        except NotFoundError:
            return []

    def _require_read(self) -> None:
        """Count a request; require that there may be another one for this Receiver."""
        self._require_current()
        if self._reads >= _MOST_READS:
            raise RefusedError(
                f"spec.resources needs more than {_MOST_READS} requests for objects: select fewer"
                " kinds and namespaces",
                status=503,
            )
        self._reads += 1


def _selects(each: ReceiverResource, obj: Json) -> bool:
    metadata = obj.get("metadata") or {}
    if each.name != _EVERY:
        return bool(metadata.get("name") == each.name)
    labels = metadata.get("labels") or {}
    return each.match_labels.items() <= labels.items()


def _filters(receiver: Receiver, each: ReceiverResource) -> list[Expression]:
    texts = (receiver.spec.resource_filter, each.filter)
    return [Expression(text=text, variables=VARIABLES) for text in texts if text]
