"""Which Receivers have the path of a hook, as their statuses say."""

from collections.abc import Callable
from typing import Any

import msgspec

from controllers.notification.receiving.hooks import Paths
from crds.notification_receiver import Receiver
from toolkit.kube.informer import Change
from toolkit.objects import ObjectKey

MINE, THEIRS = ObjectKey("apps", "hook"), ObjectKey("team-a", "hook")


class Informer:
    """A cache that a test writes."""

    def __init__(self) -> None:
        self._items: dict[ObjectKey, Receiver] = {}
        self._handlers: list[Callable[[Change[Receiver]], None]] = []

    def get(self, key: ObjectKey) -> Receiver | None:
        return self._items.get(key)

    def subscribe(self, handler: Callable[[Change[Receiver]], None]) -> None:
        self._handlers.append(handler)

    def put(self, key: ObjectKey, path: str | None) -> None:
        """Write the status of a Receiver, or delete it."""
        old, new = self._items.pop(key, None), None
        if path is not None:
            metadata = {"name": key.name, "namespace": key.namespace}
            spec = {"type": "generic", "resources": []}
            new = msgspec.convert(
                {"metadata": metadata, "spec": spec, "status": {"webhookPath": path}}, Receiver
            )
            self._items[key] = new
        for handler in self._handlers:
            handler(Change(type="MODIFIED", key=key, old=old, new=new))


def made() -> tuple[Informer, Callable[[str], list[str]]]:
    informer: Any = Informer()
    paths = Paths(informer)
    return informer, lambda path: [each.metadata.namespace for each in paths.find(path)]


def test_a_path_that_is_replaced_leads_nowhere() -> None:
    informer, find = made()
    informer.put(MINE, "/hook/a")
    informer.put(MINE, "/hook/b")

    assert (find("/hook/a"), find("/hook/b"), find("/hook/c")) == ([], ["apps"], [])


def test_a_receiver_that_is_gone_has_no_path() -> None:
    informer, find = made()
    informer.put(MINE, "/hook/a")
    informer.put(MINE, None)

    assert find("/hook/a") == []


def test_a_path_in_another_status_takes_it_from_nobody() -> None:
    informer, find = made()
    informer.put(MINE, "/hook/a")
    informer.put(THEIRS, "/hook/a")
    both = find("/hook/a")
    informer.put(THEIRS, "/hook/b")

    assert both == ["apps", "team-a"]
    assert find("/hook/a") == ["apps"]


def test_a_status_without_a_path_is_not_found() -> None:
    informer, find = made()
    informer.put(MINE, "")

    assert find("") == []


def test_receivers_of_one_namespace_do_not_come_before_those_of_others() -> None:
    informer, find = made()
    for number in range(100):
        informer.put(ObjectKey("team-a", f"hook-{number}"), "/hook/a")
    informer.put(MINE, "/hook/a")

    assert find("/hook/a")[:2] == ["team-a", "apps"]
    assert len(find("/hook/a")) == 101
