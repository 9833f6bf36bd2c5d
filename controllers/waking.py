"""Handlers of informers and policies that enqueue the affected objects in a controller's queue."""

from collections.abc import Callable, Iterable
from typing import Any, Protocol

from controllers.index import Index
from toolkit.artifact import store
from toolkit.kube.controller import Controller
from toolkit.kube.informer import Change
from toolkit.objects import GroupVersionKind, ObjectKey, ObjectRef


class Enqueue(Protocol):
    """Puts an object into a controller's queue (``toolkit.kube.controller``)."""

    def __call__(self, key: ObjectKey, trigger: str) -> None:
        """Enqueue an object; ``trigger`` is the reason."""


def by_artifact(
    gvk: GroupVersionKind, enqueue: Enqueue, index: Index
) -> Callable[[Change[Any]], None]:
    """Return the handler that enqueues the users of a source when it has a new artifact."""
    return _users(gvk, enqueue, index, _is_new)


def by_source(
    gvk: GroupVersionKind, enqueue: Enqueue, index: Index
) -> Callable[[Change[Any]], None]:
    """Return the handler for users that wait until a source is ready, and repeat why it is not.

    It enqueues them when the source has a new artifact, or another reason why it is not ready.
    """
    return _users(gvk, enqueue, index, lambda change: _is_new(change) or _fails_anew(change))


def _users(
    gvk: GroupVersionKind, enqueue: Enqueue, index: Index, concerns: Callable[[Change[Any]], bool]
) -> Callable[[Change[Any]], None]:
    def handle(change: Change[Any]) -> None:
        if change.new is None or not concerns(change):
            return
        for key in index.users(ObjectRef(gvk, change.key.namespace, change.key.name)):
            enqueue(key, "source")

    return handle


def _is_new(change: Change[Any]) -> bool:
    before = change.old.status.artifact if change.old else None
    after = change.new.status.artifact if change.new else None
    return after is not None and not (before and store.same(before, after))


def _fails_anew(change: Change[Any]) -> bool:
    return bool(_failures(change.new) - _failures(change.old))


def _failures(source: Any) -> frozenset[tuple[str, str]]:
    """Return the conditions that say why a source is not ready; each type with its message."""
    if source is None:
        return frozenset()
    return frozenset(
        (each.type, each.message)
        for each in source.status.conditions
        if (each.type, each.status) in {("Ready", "False"), ("Stalled", "True")}
    )


def by_policy(
    controllers: Iterable[Controller[Any]], *, everywhere: bool = False
) -> Callable[[str], None]:
    """Return the handler that enqueues objects when policies of a namespace change.

    The handler receives the namespace of the policies and enqueues the objects in it; an empty
    namespace means all objects. ``everywhere`` enqueues all objects in any case, for kinds that
    refer to other namespaces.
    """
    watched = tuple(controllers)

    def handle(namespace: str) -> None:
        for controller in watched:
            for key in list(controller.informer.items()):
                if everywhere or namespace in {"", key.namespace}:
                    controller.enqueue(key, "policy")

    return handle
