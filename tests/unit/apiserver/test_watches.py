"""A kind is watched once, and each reader has its own of it."""

from typing import Any

from apiserver.watches import Watches
from tests.fakes import virtualtime
from tests.fakes.apiserver import FakeApiServer
from tests.tools.tasks import running
from toolkit.kube.client import Client
from toolkit.kube.informer import Change, Informer
from toolkit.objects import GroupVersionKind

SECRET = GroupVersionKind("", "v1", "Secret")
CONFIG_MAP = GroupVersionKind("", "v1", "ConfigMap")


class Running:
    """Runs informers."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.informers: list[Informer[Any]] = []

    def add_informer(self, informer: Informer[Any]) -> None:
        """Run an informer once the test wants it."""
        self.informers.append(informer)


def size(body: bytes) -> int:
    return len(body)


def first_byte(body: bytes) -> str:
    return chr(body[0])


def unreadable(_: bytes) -> str:
    raise ValueError


def test_readers_of_a_kind_share_a_watch_and_get_what_they_read() -> None:
    async def main() -> None:
        server = FakeApiServer()
        server.put("configmaps", "a")
        async with server.running() as client:
            runner = Running(client)
            watches = Watches(runner)
            sizes, firsts = (watches.follow(CONFIG_MAP, read) for read in (size, first_byte))
            watches.follow(SECRET, size)
            seen: list[Change[int]] = []
            told: list[Change[str]] = []
            sizes.subscribe(seen.append)
            firsts.subscribe(told.append)

            async with running(*(each.run() for each in runner.informers)):
                assert not sizes.synced
                await firsts.wait_synced()
                server.put("configmaps", "a", data={"longer": "than before"})
                server.remove("configmaps", "a")
                await virtualtime.settle()

            assert server.count("GET", "/configmaps") == 1
            assert sizes.synced
            assert sizes.revision == firsts.revision > 0
            added, changed, deleted = seen
            assert (added.type, added.old, added.gap) == ("ADDED", None, True)
            assert changed.new is not None
            assert added.new is not None
            assert changed.new > added.new
            assert (changed.old, changed.gap) == (added.new, False)
            assert (deleted.type, deleted.old, deleted.new) == ("DELETED", changed.new, None)
            assert [(each.old, each.new) for each in told] == [
                (None, "{"),
                ("{", "{"),
                ("{", None),
            ]

    virtualtime.run(main)


def test_what_one_reader_cannot_read_is_skipped_for_all() -> None:
    async def main() -> None:
        server = FakeApiServer()
        server.put("configmaps", "a")
        async with server.running() as client:
            runner = Running(client)
            watches = Watches(runner)
            sizes = watches.follow(CONFIG_MAP, size)
            watches.follow(CONFIG_MAP, unreadable)
            seen: list[Change[int]] = []
            sizes.subscribe(seen.append)

            (informer,) = runner.informers
            async with running(informer.run()):
                await sizes.wait_synced()

            assert not seen

    virtualtime.run(main)
