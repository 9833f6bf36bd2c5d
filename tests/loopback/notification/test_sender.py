"""The table of failures of services: what is delivered in the end, and who waits meanwhile."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import msgspec
import pytest
from aiohttp import web

from controllers.notification.events.event import Event, InvolvedObject
from controllers.notification.events.matching import Notice
from controllers.notification.events.spool import Delivery, Spool
from controllers.notification.sending.sender import AT_ONCE, Health, Sender
from controllers.notification.sending.signing import Borrow, Loan
from controllers.notification.sending.targets import Place, Reachable
from controllers.notification.services.service import Target
from crds.meta import ObjectMeta
from crds.notification import Provider, ProviderSpec
from tests.fakes import notices, virtualtime
from tests.fakes.evaluating import NoEvaluator
from tests.fakes.serving import closed_port, free_port, serving
from tests.tools.waiting import until
from toolkit.kube.informer import Change
from toolkit.objects import ObjectKey
from toolkit.remote.http.http import Http

BROKEN, SOUND = ObjectKey("apps", "broken"), ObjectKey("apps", "sound")
LIMIT = 256 << 20
ANYWHERE = Reachable(plain_http=True, private=frozenset({"*"}))
PUBLIC = Reachable(plain_http=True, private=frozenset())


def delivery(provider: ObjectKey, number: int) -> Delivery:
    event = Event(
        involved_object=InvolvedObject(kind="Kustomization", namespace="apps", name="shop"),
        severity="info",
        timestamp="2026-11-25T16:00:00Z",
        message=str(number),
        reason="ReconciliationSucceeded",
        reporting_controller="kustomize-controller",
    )
    notice = Notice(event=event, metadata={}, alert="apps/all", key="")
    return Delivery(
        provider=provider, object=str(number), since=2e9, notice=msgspec.json.encode(notice)
    )


class Service:
    """Answers as it is told, and keeps what it took."""

    def __init__(self, *answers: tuple[int, dict[str, str]]) -> None:
        self.answers = list(answers)
        self.taken: list[int] = []
        self.keys: list[str] = []
        self.asked = 0

    async def answer(self, request: web.Request) -> web.Response:
        body = msgspec.json.decode(await request.read())
        self.asked += 1
        self.keys.append(request.headers["Idempotency-Key"])
        status, headers = self.answers.pop(0) if self.answers else (200, {})
        if status == 200:
            self.taken.append(int(body["message"]))
        return web.Response(status=status, headers=headers)


class Known:
    """Providers that exist."""

    def __init__(self, **addresses: str) -> None:
        self._addresses = addresses

    def get(self, key: ObjectKey) -> Provider | None:
        address = self._addresses.get(key.name)
        if address is None:
            return None
        meta = ObjectMeta(namespace=key.namespace, name=key.name, uid=key.name)
        return Provider(metadata=meta, spec=ProviderSpec(type="generic", address=address))

    def subscribe(self, handler: Callable[[Change[Provider]], None]) -> None:
        self.handler = handler

    async def wait_synced(self) -> None:
        """Be complete."""


@asynccontextmanager
async def sending(
    directory: Path,
    known: Known,
    *,
    reachable: Reachable = ANYWHERE,
    pause: float = 0.05,
    timeout: float = 5,  # noqa: ASYNC109 - of a Provider
    borrow: Mapping[str, Borrow] = MappingProxyType({}),
    types: Mapping[str, str] = MappingProxyType({}),
) -> AsyncIterator[tuple[Sender, Spool]]:
    """Run a sender over a spool; ``types`` are those of Providers that are not generic."""

    async def place(provider: Provider) -> Place:
        target = Target(
            type=types.get(provider.metadata.name, "generic"),
            namespace=provider.metadata.namespace,
            name=provider.metadata.name,
            address=provider.spec.address,
        )
        return Place(
            target=target,
            endpoint=reachable.endpoint(provider.metadata.namespace),
            timeout=timeout,
            secrets=("secret-path",),
            borrow=borrow.get(provider.metadata.name),
        )

    spool = Spool(directory, limit=LIMIT)
    await spool.open()
    async with Http() as http:
        sender = Sender(spool, place=place, http=http, evaluates=NoEvaluator(), pause=pause)
        sender.follow(known, changed=lambda _: None)
        running = asyncio.create_task(sender.run())
        yield sender, spool
        running.cancel()
        await asyncio.wait([running])
    await spool.close()


async def add(sender: Sender, spool: Spool, *deliveries: Delivery) -> None:
    await spool.add(deliveries)
    for each in deliveries:
        sender.wake(each.provider)


async def drained(spool: Spool, key: ObjectKey = BROKEN) -> None:
    """Wait until nothing waits for a Provider, on a virtual clock."""
    while spool.waiting(key):  # noqa: ASYNC110 - nobody tells
        await asyncio.sleep(0.05)


async def test_a_message_is_cut_to_what_the_service_accepts(tmp_path: Path) -> None:
    taken: list[dict[str, list[dict[str, str]]]] = []

    async def answer(request: web.Request) -> web.Response:
        taken.append(msgspec.json.decode(await request.read()))
        return web.Response()

    given = delivery(BROKEN, 1)
    notice = msgspec.json.decode(given.notice, type=Notice)
    event = msgspec.structs.replace(notice.event, message="x" * 39_000)
    given = replace(given, notice=msgspec.json.encode(msgspec.structs.replace(notice, event=event)))
    async with serving(answer) as port:
        known = Known(broken=f"http://127.0.0.1:{port}")
        async with sending(tmp_path, known, types={"broken": "discord"}) as (sender, spool):
            await add(sender, spool, given)
            await drained(spool)

    assert taken[0]["attachments"][0]["text"] == "x" * 4_095 + "…"


def health(sender: Sender, key: ObjectKey = BROKEN) -> Health:
    found = sender.health(key)
    assert found is not None
    return found


def test_what_a_service_missed_is_sent_when_it_is_back_with_the_same_key(tmp_path: Path) -> None:
    service = Service((503, {}), (500, {}), (502, {}))

    async def main() -> None:
        async with serving(service.answer) as port:
            known = Known(broken=f"http://127.0.0.1:{port}/")
            async with sending(tmp_path, known) as (sender, spool):
                await add(sender, spool, *(delivery(BROKEN, n) for n in range(3)))
                await until(lambda: len(service.taken) == 3)
                await until(lambda: not spool.waiting(BROKEN))
                assert health(sender).problem == ""

    asyncio.run(main())

    assert service.taken == [0, 1, 2]
    assert len(set(service.keys[:4])) == 1
    assert len(set(service.keys)) == 3


def test_one_service_that_is_down_holds_up_no_other(tmp_path: Path) -> None:
    service = Service()

    async def main() -> None:
        with closed_port() as nobody:
            async with serving(service.answer) as port:
                known = Known(broken=f"http://{nobody}/", sound=f"http://127.0.0.1:{port}/")
                async with sending(tmp_path, known) as (sender, spool):
                    down = [delivery(BROKEN, n) for n in range(50)]
                    await add(sender, spool, *down, delivery(SOUND, 99))
                    await until(lambda: service.taken)
                    await until(lambda: sender.health(BROKEN))
                    assert health(sender).reason == "DeliveryFailed"
                    assert spool.waiting(BROKEN) == 50

    asyncio.run(main())

    assert service.taken == [99]


def about_a_commit(timestamp: str = "2026-11-25T16:00:00Z") -> Delivery:
    notice = notices.event("error", change_request="1")
    event = msgspec.structs.replace(notice.event, timestamp=timestamp)
    found = msgspec.structs.replace(notice, event=event)
    return Delivery(provider=BROKEN, object="a", since=2e9, notice=msgspec.json.encode(found))


async def nonsense(_: web.Request) -> web.Response:
    return web.Response(body=b"\xff[" * 1000, content_type="application/json")


_REPOSITORY = "http://127.0.0.1:{port}/team/app"
_LATEST = "9999-12-31T23:59:59.999999Z"


@pytest.mark.parametrize(
    ("kind", "address", "sent"),
    [
        *((kind, _REPOSITORY, about_a_commit()) for kind in ("github", "gitlab", "gitea", "lark")),
        ("slack", "http://127.0.0.1:{port}/", about_a_commit()),
        *(
            (f"{kind}comment", _REPOSITORY, about_a_commit())
            for kind in ("githubpullrequest", "gitlabmergerequest", "giteapullrequest")
        ),
        ("bitbucketserver", "https://[99999999::ffff:1.2.3.4\u00e9]/scm/a/b", about_a_commit()),
        ("azuredevops", "http://a]:1/a/b/_git/c", about_a_commit()),
        ("github", "http://[v1.x/team/app", about_a_commit()),
        ("sentry", "https://a@[::1/1", about_a_commit()),
        ("generic", "http://@][@/", about_a_commit()),
        ("generic", "http://xn--/", about_a_commit()),
        ("alertmanager", "http://127.0.0.1:{port}/", about_a_commit(_LATEST)),
        ("grafana", "http://127.0.0.1:{port}/", about_a_commit("0001-01-01T00:00:00")),
        ("otel", "http://127.0.0.1:{port}/", about_a_commit("0001-01-01T00:00:00")),
    ],
    ids=lambda value: value if isinstance(value, str) and value.isalpha() else "",
)
def test_a_service_or_address_that_cannot_be_read_stops_no_other(
    tmp_path: Path, kind: str, address: str, sent: Delivery
) -> None:
    service = Service()

    async def main() -> None:
        async with serving(nonsense) as hostile, serving(service.answer) as port:
            known = Known(broken=address.format(port=hostile), sound=f"http://127.0.0.1:{port}/")
            async with sending(tmp_path, known, types={"broken": kind}) as (sender, spool):
                await add(sender, spool, sent)
                await until(lambda: sender.health(BROKEN) or not spool.waiting(BROKEN))
                await add(sender, spool, delivery(SOUND, 7))
                await until(lambda: service.taken)

    asyncio.run(main())

    assert service.taken == [7]


def test_a_service_that_fails_by_a_bug_of_ours_stops_no_other(tmp_path: Path) -> None:
    service = Service()
    unreadable = Delivery(provider=BROKEN, object="a", since=2e9, notice=b"{")

    async def main() -> None:
        async with serving(service.answer) as port:
            known = Known(broken="http://127.0.0.1:1/", sound=f"http://127.0.0.1:{port}/")
            async with sending(tmp_path, known) as (sender, spool):
                await add(sender, spool, unreadable)
                await until(lambda: sender.health(BROKEN))
                assert health(sender).reason == "DeliveryFailed"
                await add(sender, spool, delivery(SOUND, 7))
                await until(lambda: service.taken)

    asyncio.run(main())

    assert service.taken == [7]


def test_a_service_that_is_away_for_a_minute_misses_nothing(tmp_path: Path) -> None:
    service = Service()
    port = free_port()

    async def main() -> int:
        known = Known(broken=f"http://127.0.0.1:{port}/")
        async with sending(tmp_path, known, pause=1.0) as (sender, spool):
            await add(sender, spool, *(delivery(BROKEN, n) for n in range(100)))
            await asyncio.sleep(60)
            missing = spool.waiting(BROKEN)
            assert health(sender).reason == "DeliveryFailed"
            async with serving(service.answer, port=port):
                await drained(spool)
        return missing

    missing = virtualtime.run(main)

    assert missing == 100
    assert service.taken == list(range(100))


@pytest.mark.parametrize("status", [429, 503])
def test_a_service_that_asks_for_patience_gets_it(tmp_path: Path, status: int) -> None:
    service = Service((status, {"Retry-After": "60"}))

    async def main() -> tuple[int, float]:
        async with serving(service.answer) as port:
            known = Known(broken=f"http://127.0.0.1:{port}/")
            async with sending(tmp_path, known, pause=1.0) as (sender, spool):
                await add(sender, spool, delivery(BROKEN, 1))
                await asyncio.sleep(1)
                assert f"HTTP {status}" in health(sender).problem
                # events that come meanwhile do not wake it
                await add(sender, spool, delivery(BROKEN, 2))
                await asyncio.sleep(50)
                early = service.asked
                await drained(spool)
                return early, asyncio.get_running_loop().time()

    early, took = virtualtime.run(main)

    assert early == 1
    assert 60 <= took < 70
    assert service.taken == [1, 2]


def test_services_that_hang_hold_up_no_sound_one(tmp_path: Path) -> None:
    """More of them than there are turns, after the first time that each of them failed."""
    service = Service()
    hanging = {f"hanging-{number}": "" for number in range(AT_ONCE + 8)}

    async def never(_: web.Request) -> web.Response:
        await asyncio.Event().wait()
        raise AssertionError

    async def main() -> float:
        async with serving(never) as silent, serving(service.answer) as port:
            known = Known(
                sound=f"http://127.0.0.1:{port}/",
                **dict.fromkeys(hanging, f"http://127.0.0.1:{silent}/"),
            )
            async with sending(tmp_path, known, pause=0.01) as (sender, spool):
                keys = [ObjectKey("apps", name) for name in hanging]
                await add(sender, spool, *(delivery(key, 1) for key in keys))
                await until(lambda: all(sender.health(key) for key in keys))
                began = asyncio.get_running_loop().time()
                await add(sender, spool, delivery(SOUND, 1))
                await drained(spool, SOUND)
                return asyncio.get_running_loop().time() - began

    assert virtualtime.run(main) < 1


def test_a_tenants_slow_services_hold_up_no_other_namespace(tmp_path: Path) -> None:
    """They take what they are sent, one after the other, just before the time is over."""
    service = Service()
    slow = {f"slow-{number}": "" for number in range(4 * AT_ONCE)}

    async def late(_: web.Request) -> web.Response:
        await asyncio.sleep(14)
        return web.Response()

    async def main() -> float:
        async with serving(late) as slowly, serving(service.answer) as port:
            known = Known(
                sound=f"http://127.0.0.1:{port}/",
                **dict.fromkeys(slow, f"http://127.0.0.1:{slowly}/"),
            )
            async with sending(tmp_path, known, timeout=15) as (sender, spool):
                keys = [ObjectKey("team-a", name) for name in slow]
                many = [delivery(key, number) for key in keys for number in range(3)]
                await add(sender, spool, *many)
                await asyncio.sleep(20)
                began = asyncio.get_running_loop().time()
                await add(sender, spool, delivery(SOUND, 1))
                await drained(spool, SOUND)
                return asyncio.get_running_loop().time() - began

    assert virtualtime.run(main) < 1
    assert service.taken == [1]


def test_a_delivery_ends_whatever_time_a_provider_asks_for(tmp_path: Path) -> None:
    async def never(_: web.Request) -> web.Response:
        await asyncio.Event().wait()
        raise AssertionError

    async def main() -> tuple[float, Health]:
        async with serving(never) as silent:
            known = Known(broken=f"http://127.0.0.1:{silent}/")
            async with sending(tmp_path, known, timeout=86_400) as (sender, spool):
                await add(sender, spool, delivery(BROKEN, 1))
                while sender.health(BROKEN) is None:  # noqa: ASYNC110 - nobody tells
                    await asyncio.sleep(0.1)
                return asyncio.get_running_loop().time(), health(sender)

    when, found = virtualtime.run(main)

    assert when < 62
    assert "in time" in found.problem


def test_a_token_that_nobody_gives_ends_and_holds_up_no_other(tmp_path: Path) -> None:
    service = Service()

    async def nobody() -> Loan:
        await asyncio.Event().wait()
        raise AssertionError

    async def main() -> tuple[Health, float]:
        async with serving(service.answer) as port:
            address = f"http://127.0.0.1:{port}/"
            known = Known(broken=address, sound=address)
            borrow = {"broken": nobody}
            async with sending(tmp_path, known, borrow=borrow, pause=30) as (sender, spool):
                await add(sender, spool, delivery(BROKEN, 1), delivery(SOUND, 2))
                await drained(spool, SOUND)
                early = asyncio.get_running_loop().time()
                while sender.health(BROKEN) is None:  # noqa: ASYNC110 - nobody tells
                    await asyncio.sleep(0.1)
                return health(sender), early

    found, early = virtualtime.run(main)

    assert (found.problem, found.reason) == ("nobody gave a token in time", "AuthenticationFailed")
    assert early < 1
    assert service.taken == [2]


def test_a_token_that_is_refused_is_given_back(tmp_path: Path) -> None:
    service = Service((401, {}))
    given: list[str] = []
    back: list[str] = []

    async def lend() -> Loan:
        given.append(f"token-{len(given)}")
        mine = given[-1]
        return Loan(token=mine, give_back=lambda: not back.append(mine))

    async def main() -> None:
        async with serving(service.answer) as port:
            known = Known(broken=f"http://127.0.0.1:{port}/")
            async with sending(tmp_path, known, borrow={"broken": lend}) as (sender, spool):
                await add(sender, spool, delivery(BROKEN, 1))
                await until(lambda: service.taken)

    asyncio.run(main())

    assert back == ["token-0"]
    assert given == ["token-0", "token-1"]


def test_a_redirect_to_a_private_address_is_not_followed(tmp_path: Path) -> None:
    inside = Service()

    async def main() -> Health:
        async with serving(inside.answer) as private:
            target = {"Location": f"http://127.0.0.1:{private}/"}
            service = Service(*[(status, target) for status in (301, 302, 303, 307, 308)])
            async with serving(service.answer) as port:
                known = Known(broken=f"http://127.0.0.1:{port}/")
                async with sending(tmp_path, known) as (sender, spool):
                    await add(sender, spool, delivery(BROKEN, 1))
                    await until(lambda: sender.health(BROKEN))
                    found = health(sender)
                    await until(lambda: service.taken)
                    return found

    found = asyncio.run(main())

    assert "the service redirects a POST with HTTP 301" in found.problem
    assert inside.asked == 0


def test_an_event_that_is_refused_for_good_does_not_hold_up_the_next(tmp_path: Path) -> None:
    service = Service((400, {}))
    seen: list[Health] = []

    async def main() -> None:
        async with serving(service.answer) as port:
            known = Known(broken=f"http://127.0.0.1:{port}/")
            async with sending(tmp_path, known) as (sender, spool):
                sender.follow(known, changed=lambda key: seen.append(health(sender, key)))
                await add(sender, spool, delivery(BROKEN, 1), delivery(BROKEN, 2))
                await until(lambda: service.taken)

    asyncio.run(main())

    assert service.taken == [2]
    assert [each.reason for each in seen] == ["EventRefused", "Delivered"]


def test_what_waits_is_sent_after_a_restart(tmp_path: Path) -> None:
    service = Service()

    async def main() -> None:
        with closed_port() as nobody:
            async with sending(tmp_path, Known(broken=f"http://{nobody}/")) as (sender, spool):
                await add(sender, spool, delivery(BROKEN, 1))
                await until(lambda: sender.health(BROKEN))
        async with serving(service.answer) as port:
            known = Known(broken=f"http://127.0.0.1:{port}/")
            async with sending(tmp_path, known):
                await until(lambda: service.taken)

    asyncio.run(main())

    assert service.taken == [1]


@pytest.mark.parametrize(
    ("address", "problem"),
    [
        ("http://127.0.0.1:1/secret-path", "private address"),
        ("http://169.254.169.254/secret-path", "private address"),
        ("http://localhost:1/secret-path", "private address"),
    ],
)
def test_a_tenants_provider_does_not_lead_to_private_addresses(
    tmp_path: Path, address: str, problem: str
) -> None:
    async def main() -> Health:
        known = Known(broken=address)
        async with sending(tmp_path, known, reachable=PUBLIC) as (sender, spool):
            await add(sender, spool, delivery(BROKEN, 1))
            await until(lambda: sender.health(BROKEN))
            return health(sender)

    found = asyncio.run(main())

    assert problem in found.problem
    assert "secret-path" not in found.problem


def test_a_service_that_cannot_prove_who_it_is_gets_nothing(
    tmp_path: Path, server_tls: ssl.SSLContext
) -> None:
    service = Service()

    async def main() -> Health:
        async with serving(service.answer, tls=server_tls) as port:
            known = Known(broken=f"https://127.0.0.1:{port}/")
            async with sending(tmp_path, known) as (sender, spool):
                await add(sender, spool, delivery(BROKEN, 1))
                await until(lambda: sender.health(BROKEN))
                return health(sender)

    found = asyncio.run(main())

    assert "TLS connection to" in found.problem
    assert service.asked == 0


def test_deliveries_of_a_provider_that_is_gone_are_dropped(tmp_path: Path) -> None:
    async def main() -> None:
        async with sending(tmp_path, Known()) as (sender, spool):
            await add(sender, spool, delivery(BROKEN, 1))
            await until(lambda: not spool.waiting(BROKEN))

    asyncio.run(main())


def test_what_can_be_sent_is_sent_before_the_end(tmp_path: Path) -> None:
    service = Service()
    began, go_on = asyncio.Event(), asyncio.Event()

    async def slow(request: web.Request) -> web.Response:
        began.set()
        await go_on.wait()
        return await service.answer(request)

    async def main() -> int:
        async with serving(slow) as port:
            known = Known(broken=f"http://127.0.0.1:{port}/")
            async with sending(tmp_path, known) as (sender, spool):
                await add(sender, spool, *(delivery(BROKEN, n) for n in range(20)))
                await began.wait()
                ending = asyncio.create_task(sender.finish(60))
                await asyncio.sleep(0)
                go_on.set()
                await ending
                return spool.waiting(BROKEN)

    assert asyncio.run(main()) == 0
    assert service.taken == list(range(20))


def test_the_end_waits_for_no_service_that_fails(tmp_path: Path) -> None:
    service = Service(*[(503, {"Retry-After": "60"})] * 9)

    async def never(_: web.Request) -> web.Response:
        await asyncio.Event().wait()
        raise AssertionError

    async def main() -> tuple[float, int]:
        async with serving(never) as silent, serving(service.answer) as port:
            known = Known(broken=f"http://127.0.0.1:{port}/", sound=f"http://127.0.0.1:{silent}/")
            async with sending(tmp_path, known, pause=30) as (sender, spool):
                await add(sender, spool, delivery(BROKEN, 1), delivery(SOUND, 1))
                await until(lambda: sender.health(BROKEN))
                began = asyncio.get_running_loop().time()
                await sender.finish(3)
                sender.wake(BROKEN)
                took = asyncio.get_running_loop().time() - began
                return took, spool.waiting(BROKEN) + spool.waiting(SOUND)

    took, waiting = virtualtime.run(main)

    assert took < 4
    assert waiting == 2
    assert service.asked == 1
