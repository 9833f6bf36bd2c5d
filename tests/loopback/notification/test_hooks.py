"""The table of hostile requests to Receivers: what is refused, and that nothing is reconciled."""

import asyncio
import base64
import hashlib
import hmac
import io
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import msgspec
import pytest
from aiohttp import web

from controllers.notification.receiving import senders
from controllers.notification.receiving.hooks import Hooks
from controllers.notification.receiving.oidc import Tokens
from controllers.notification.receiving.request import MOST_BYTES
from controllers.notification.receiving.requests import REQUESTED_AT, Requests
from controllers.notification.receiving.resources import Resources
from crds.notification_receiver import Receiver
from tests.fakes import virtualtime
from tests.fakes.apiserver import FakeApiServer
from tests.fakes.evaluating import closing
from tests.fakes.granting import SOURCE, grant
from tests.fakes.issuer import Issuer
from tests.fakes.serving import serving
from tests.fakes.strangers import Stranger
from tests.tools.waiting import until
from toolkit.expressions import evaluator
from toolkit.kube.secrets import Secrets
from toolkit.objects import Json
from toolkit.policy.references import References
from toolkit.remote.endpoint import Endpoint
from toolkit.remote.http.http import Http

TOKEN = b"t0ken"
MINE = {"kind": "GitRepository", "name": "shop"}


def made(kind: str, path: str, *, ready: str = "True", **spec: Any) -> Receiver:
    """Return a Receiver that is ready, or not."""
    return msgspec.convert(
        {
            "metadata": {"name": "hook", "namespace": "apps"},
            "spec": {"type": kind, "secretRef": {"name": "token"}, "resources": [MINE], **spec},
            "status": {
                "webhookPath": path,
                "conditions": [
                    {
                        "type": "Ready",
                        "status": ready,
                        "reason": "Succeeded",
                        "message": "",
                        "lastTransitionTime": "2026-11-25T16:00:00Z",
                    }
                ],
            },
        },
        Receiver,
    )


class Running:
    """The endpoint of hooks in front of an API server."""

    def __init__(self, port: int, path: str, api: FakeApiServer) -> None:
        self.port, self.path, self._api = port, path, api
        self.found: list[Receiver] = []

    def asked(
        self, name: str = "shop", namespace: str = "apps", *, plural: str = "gitrepositories"
    ) -> bool:
        """Tell whether a GitRepository, or another object, was asked to reconcile."""
        meta = self._api.objects[plural, namespace, name]["metadata"]
        return REQUESTED_AT in (meta.get("annotations") or {})

    def count(self, method: str, plural: str) -> int:
        """Return the number of requests to the API server."""
        return self._api.count(method, f"/{plural}")

    def when(self, fragment: str, act: Callable[[], None]) -> None:
        """Act when the API server gets a request that matches."""
        self._api.when(fragment, act)

    def put(self, name: str, *, plural: str = "gitrepositories") -> None:
        """Make a GitRepository, or another object."""
        self._api.put(plural, name, "apps", spec={"url": "https://example.com/a"})

    def serve(self, group: str, plural: str, kind: str) -> None:
        """Have the API server serve another kind."""
        self._api.kinds[group, "v1", plural] = kind

    def secret(self, namespace: str, token: bytes) -> None:
        """Make the Secret of the Receivers of a namespace."""
        data = {"token": base64.b64encode(token).decode()}
        self._api.put("secrets", "token", namespace, data=data)

    @property
    def listed(self) -> bool:
        """Tell whether the GitRepositories were listed."""
        return any(path.endswith("/gitrepositories") for _, path, _ in self._api.requests)

    async def post(self, body: Any, **headers: str) -> tuple[int, str]:
        """Send a request; return the status and the text."""
        url = f"http://127.0.0.1:{self.port}{self.path}"
        body = io.BytesIO(body) if isinstance(body, bytes) else body
        async with (
            aiohttp.ClientSession() as session,
            session.post(url, data=body, headers=headers) as response,
        ):
            return response.status, await response.text()

    async def signed(self, body: bytes, **more: str) -> tuple[int, str]:
        """Send a request as GitHub does."""
        digest = hmac.new(TOKEN, body, hashlib.sha256).hexdigest()
        headers = {"X-Hub-Signature-256": f"sha256={digest}", "X-GitHub-Event": "push"}
        return await self.post(body, **headers, **more)


@asynccontextmanager
async def running(
    kind: str = "github",
    *,
    policy: References | None = None,
    token: bytes = TOKEN,
    written: bytes = TOKEN,
    forged: int = 0,
    **spec: Any,
) -> AsyncIterator[Running]:
    """Serve the hooks of one Receiver, whose path is of the token when it was ``written``.

    So many others have ``forged`` the path in their status.
    """
    path = senders.path(written if spec.get("secretRef", True) else b"", "hook", "apps")
    receiver = made(kind, path, **spec)
    found: list[Receiver] = []
    meta = msgspec.structs.replace(receiver.metadata, namespace="team-a")
    others = [msgspec.structs.replace(receiver, metadata=meta)] * forged
    api = FakeApiServer()
    api.put("secrets", "token", "apps", data={"token": base64.b64encode(token).decode()})
    for namespace in ("apps", "team-a"):
        api.put("gitrepositories", "shop", namespace, spec={"url": "https://example.com/a"})
    references = policy or References(grants=lambda _: ())
    evaluates = evaluator.start()
    async with api.running() as client, Http() as http, closing(evaluates):
        hooks = Hooks(
            find=lambda asked: list(found) if asked == path else [],
            secrets=Secrets(client),
            tokens=Tokens(http, lambda _: Endpoint(plain_http=True), evaluates),
            resources=Resources(client, references, evaluates),
            requests=Requests(client),
        )
        async with serving(hooks.application()) as port:
            here = Running(port, path, api)
            found += [*others, receiver]
            here.found = found
            yield here


async def test_a_signed_push_is_acted_upon() -> None:
    async with running() as here:
        status, text = await here.signed(b'{"ref": "main"}')

        assert (status, text, here.asked()) == (200, "", True)


async def test_kinds_of_the_operator_are_reconciled_where_they_are_served() -> None:
    mine = [
        {"kind": "ResourceSetInputProvider", "name": "*"},
        {"kind": "FluxInstance", "name": "x"},
    ]
    async with running(resources=[*mine, MINE]) as here:
        here.serve("fluxcd.controlplane.io", "resourcesetinputproviders", mine[0]["kind"])
        here.put("branches", plural="resourcesetinputproviders")
        status, _ = await here.signed(b'{"ref": "main"}')

        assert status == 500  # FluxInstance is not served
        assert here.asked("branches", plural="resourcesetinputproviders")
        assert here.asked()


@pytest.mark.parametrize("digest", ["0" * 64, "", "ß" * 64, "0" * 100_000])
async def test_a_wrong_signature_is_refused(digest: str) -> None:
    async with running() as here:
        body = b'{"ref": "main"}'
        headers = {"X-Hub-Signature-256": f"sha256={digest[:8000]}", "X-GitHub-Event": "push"}
        status, text = await here.post(body, **headers)

        assert (status, here.asked()) == (400, False)

    assert "signature" in text
    assert TOKEN.decode() not in text


@pytest.mark.parametrize("body", [b"[" * 1_000_000, b'{"a":' * 900_000, b"\xff\xfe", b"{"])
async def test_a_body_that_nobody_can_read_selects_nothing(body: bytes) -> None:
    """It is signed, and an expression looks into it."""
    async with running(resourceFilter="req.ref == 'main'") as here:
        await here.signed(body)

        assert not here.asked()


@pytest.mark.parametrize("kind", ["dockerhub", "quay", "acr"])
@pytest.mark.parametrize("body", [b"[" * 1_000_000, b'{"a":' * 900_000, b"[]", b"null", b""])
async def test_a_body_that_is_nested_or_strange_is_refused(kind: str, body: bytes) -> None:
    async with running(kind) as here:
        status, text = await here.post(body)

        assert (status, here.asked()) == (400, False)

    assert len(text) < 500


@pytest.mark.parametrize(
    ("given", "status", "why"),
    [
        ({"suspend": True}, 503, "suspended"),
        ({"ready": "False"}, 503, "not ready"),
        ({"secretRef": {"name": "other"}}, 503, "cannot be read"),
        ({"token": b"", "written": b""}, 503, "has no token"),
        ({"written": b"an older one"}, 404, "older token"),
        ({"resourceFilter": "req.("}, 503, "the filters of the Receiver"),
    ],
)
async def test_a_receiver_that_cannot_be_used_says_why(
    given: dict[str, Any], status: int, why: str
) -> None:
    async with running(**given) as here:
        answer, text = await here.signed(b'{"ref": "main"}')

        assert (answer, here.asked()) == (status, False)

    assert why in text


async def test_a_delivery_counts_once() -> None:
    async with running() as here:
        first, _ = await here.signed(b'{"ref": "main"}', **{"X-GitHub-Delivery": "1"})
        again, why = await here.signed(b'{"ref": "main"}', **{"X-GitHub-Delivery": "2"})

    assert (first, again) == (200, 409)
    assert "acted upon before" in why


async def test_a_delivery_without_its_id_is_still_the_same() -> None:
    """The header is not signed: who replays a request leaves it out."""
    body = b'{"ref": "main"}'
    async with running() as here:
        first, _ = await here.signed(body, **{"X-GitHub-Delivery": "1"})
        stripped, _ = await here.signed(body)

    assert (first, stripped) == (200, 409)


@pytest.mark.parametrize("secret", [True, False])
async def test_a_path_that_others_write_into_their_status_stays_with_its_owner(
    *, secret: bool
) -> None:
    async with running(forged=3) as here:
        if secret:
            here.secret("team-a", b"of the others")
        status, _ = await here.signed(b"{}")

        assert (status, here.asked(), here.asked(namespace="team-a")) == (200, True, False)


async def test_a_ci_job_may_sign_the_same_bytes_each_time() -> None:
    digest = hmac.new(TOKEN, b"{}", hashlib.sha256).hexdigest()
    async with running("generic-hmac") as here:
        signed = {"X-Signature": f"sha256={digest}"}
        answers = [(await here.post(b"{}", **signed))[0] for _ in range(2)]

    assert answers == [200, 200]


@pytest.mark.parametrize(
    ("kind", "headers", "extra"),
    [
        ("bitbucket", {"X-Event-Key": "push"}, {"X-Request-UUID": "1"}),
        ("nexus", {}, {"X-Nexus-Webhook-Delivery": "1"}),
    ],
)
async def test_other_senders_deliveries_count_once_too(
    kind: str, headers: dict[str, str], extra: dict[str, str]
) -> None:
    body = b'{"action": "CREATED"}'
    digest = hmac.new(TOKEN, body, hashlib.sha256).hexdigest()
    name = "X-Nexus-Webhook-Signature" if kind == "nexus" else "X-Hub-Signature"
    signed = {**headers, name: f"sha256={digest}"}
    async with running(kind) as here:
        first, _ = await here.post(body, **signed, **extra)
        stripped, _ = await here.post(body, **signed)

    assert (first, stripped) == (200, 409)


async def test_expressions_look_at_bodies_of_a_megabyte_at_most() -> None:
    async with running("generic", resourceFilter="true") as here:
        status, why = await here.post(b'"' + b"a" * (1 << 20) + b'"')

        assert (status, here.asked()) == (413, False)

    assert "at most" in why


SLOW = "req.l.all(x, req.l.all(y, " + "&&".join(["y!=''"] * 580) + "))"
ENTRIES = msgspec.json.encode({"ref": "main", "l": [f"c{number}" for number in range(310)]})


async def test_expressions_that_cost_too_much_end_and_hold_up_no_other() -> None:
    """One hook with 4,096 characters over 310 entries held up all others for half a minute."""
    mine = {"kind": "GitRepository", "name": "*"}
    async with running("generic", resources=[mine], resourceFilter=SLOW) as here:
        heavy = asyncio.create_task(here.post(ENTRIES))
        await until(lambda: here.listed)
        async with aiohttp.ClientSession() as session:
            url = f"http://127.0.0.1:{here.port}/hook/unknown"
            async with session.post(url) as other:
                early = not heavy.done()
        status, why = await heavy

    assert (other.status, early) == (404, True)
    assert status == 503
    assert "too expensive on these values" in why


async def test_a_body_that_a_worker_cannot_read_is_answered() -> None:
    """A number that no double holds: expressions see doubles alone."""
    mine = {"kind": "GitRepository", "name": "*"}
    async with running("generic", resources=[mine], resourceFilter="true") as here:
        status, why = await here.post(b'{"n": ' + b"9" * 400 + b"}")

        assert (status, here.asked()) == (503, False)

    assert "try again later" in why


async def test_many_objects_and_a_large_body_are_filtered_within_one_budget() -> None:
    body = msgspec.json.encode({"ref": "main", "x": [1] * 400_000})
    mine = {"kind": "GitRepository", "name": "*"}
    async with running("generic", resources=[mine], resourceFilter="req.ref == 'main'") as here:
        for number in range(150):
            here.put(f"other-{number}")
        status, _ = await here.post(body)

    assert (status, here.asked()) == (200, True)


async def test_what_is_nested_too_deeply_is_told_so() -> None:
    async with running("quay") as here:
        _, text = await here.post(b'{"a":' * 900_000)

    assert "the body cannot be read" in text


@pytest.mark.parametrize("first", ["X-Hub-Signature-256", "X-Hub-Signature"])
async def test_another_signature_of_a_delivery_does_not_make_it_new(first: str) -> None:
    body, signed = b'{"ref": "main"}', dict[str, str]()
    for name, algorithm in (("X-Hub-Signature-256", "sha256"), ("X-Hub-Signature", "sha1")):
        signed[name] = f"{algorithm}={hmac.new(TOKEN, body, algorithm).hexdigest()}"
    async with running() as here:
        answers = [
            (await here.post(body, **{"X-GitHub-Event": "push", name: signed[name]}))[0]
            for name in (first, *signed)
        ]

    assert answers == [200, 409, 409]


async def test_nexus_may_not_say_its_signature_in_another_way() -> None:
    body = b'{"action": "CREATED"}'
    digest = hmac.new(TOKEN, body, hashlib.sha1).hexdigest()
    async with running("nexus") as here:
        answers = [
            (await here.post(body, **{"X-Nexus-Webhook-Signature": text}))[0]
            for text in (digest, f"sha1={digest}")
        ]

    assert answers == [200, 409]


async def test_thousands_of_entries_are_one_list() -> None:
    resources = [
        {"kind": "GitRepository", "name": "*", "matchLabels": {f"l{number}": "x"}}
        for number in range(3000)
    ]
    async with running("generic", resources=[*resources, MINE]) as here:
        status, _ = await here.post(b"{}")

        assert (status, here.asked(), here.count("GET", "gitrepositories")) == (200, True, 1)


async def test_labels_and_names_select_from_the_shared_list() -> None:
    resources: list[Json] = [
        {"kind": "GitRepository", "name": "*", "matchLabels": {"a": "b"}},
        {"kind": "GitRepository", "name": "shop", "filter": "res.metadata.name == 'shop'"},
    ]
    async with running("generic", resources=resources) as here:
        here.put("other")
        status, _ = await here.post(b"{}")

        assert (status, here.asked(), here.asked("other")) == (200, True, False)


async def test_a_hook_ends_with_its_receiver() -> None:
    resources = [{"kind": kind, "name": "*"} for kind in ("GitRepository", "Bucket")]
    async with running("generic", resources=resources) as here:
        here.when("/gitrepositories", here.found.clear)
        status, why = await here.post(b"{}")

        assert (status, here.asked(), here.count("GET", "buckets")) == (503, False, 0)
    assert "changed or deleted meanwhile" in why


@pytest.mark.parametrize("place", [0, 1])
async def test_a_receiver_with_the_same_path_takes_nothing_from_another(place: int) -> None:
    async with running("generic", secretRef=None) as here:
        mine = here.found[0]
        meta = msgspec.structs.replace(mine.metadata, name="hooka", namespace="pps")
        refusing = msgspec.structs.replace(mine.spec, type="generic-hmac")
        here.found.insert(place, msgspec.structs.replace(mine, metadata=meta, spec=refusing))
        status, _ = await here.post(b"{}")

        assert (status, here.asked()) == (200, True)


async def test_a_receiver_with_the_same_path_does_not_delay_another(
    caplog: pytest.LogCaptureFixture,
) -> None:
    silent = asyncio.Event()

    async def never(_: web.Request) -> web.Response:
        await silent.wait()
        return web.Response(status=500)

    async with serving(never) as port, running("generic", secretRef=None) as here:
        issuer = Issuer()
        issuer.url = f"http://127.0.0.1:{port}"
        slow = made(
            "generic-oidc",
            here.path,
            secretRef=None,
            oidcProviders=[
                {"issuerURL": issuer.url, "validations": [{"expression": "true", "message": "n"}]}
            ],
        )
        meta = msgspec.structs.replace(slow.metadata, name="hooka", namespace="pps")
        here.found.insert(0, msgspec.structs.replace(slow, metadata=meta))
        bearer = {"Authorization": f"Bearer {issuer.sign('a', 'b', 'notification-controller')}"}
        status, _ = await here.post(b"{}", **bearer)

        assert (status, here.asked(), silent.is_set()) == (200, True, False)
        silent.set()
    assert "hook refused" not in caplog.text


async def test_a_body_that_is_huge_is_refused() -> None:
    async def chunks() -> AsyncIterator[bytes]:
        for _ in range((MOST_BYTES >> 16) + 2):
            yield bytes(1 << 16)

    async with running("generic") as here:
        announced = await Stranger.open(here.port)
        head = f"POST {here.path} HTTP/1.1\r\nHost: x\r\nContent-Length: {MOST_BYTES + 1}\r\n\r\n"
        await announced.send(head.encode())
        told = await announced.reader.readuntil(b"\r\n")
        await announced.close()
        streamed, _ = await here.post(chunks())

        assert (told.split()[1], streamed, here.asked()) == (b"413", 413, False)


def test_slow_bodies_end_and_hold_up_no_other() -> None:
    async def main() -> tuple[int, bool, list[bytes]]:
        async with running("generic") as here:
            head = f"POST {here.path} HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n"
            slow = [await Stranger.open(here.port) for _ in range(64)]
            for each in slow:
                await each.send(head.encode())
            await virtualtime.settle()
            status, _ = await here.post(b"x" * 100_000)
            early = asyncio.get_running_loop().time() < 15
            told = [await each.reader.readuntil(b"\r\n") for each in slow[:16]]
            for each in slow:
                await each.close()
            return status, early, told

    status, early, told = virtualtime.run(main)

    assert (status, early) == (200, True)
    assert {each.split()[1] for each in told} == {b"408"}


async def test_an_issuer_that_does_not_answer_holds_up_no_other_receiver() -> None:
    """Forty requests wait for the keys of one; a request that needs none passes."""
    silent = asyncio.Event()

    async def never(_: web.Request) -> web.Response:
        await silent.wait()
        return web.Response(status=500)

    async with serving(never) as port:
        issuer = Issuer()
        issuer.url = f"http://127.0.0.1:{port}"
        rules = [{"expression": "true", "message": "never"}]
        providers = [{"issuerURL": issuer.url, "validations": rules}]
        async with running("generic-oidc", secretRef=None, oidcProviders=providers) as here:
            bearer = {"Authorization": f"Bearer {issuer.sign('a', 'b', 'notification-controller')}"}
            waiting = [asyncio.create_task(here.post(b"", **bearer)) for _ in range(40)]
            other, _ = await here.post(b"", Authorization="Bearer nonsense")
            held = [task for task in waiting if not task.done()]
            silent.set()
            answers = {status for status, _ in await asyncio.gather(*waiting)}

    assert other == 400
    assert len(held) == 40
    assert answers == {503}


def granted(*grants: Any) -> References:
    return References(grants=lambda _: grants)


GRANT = grant(
    "team-a",
    of={"group": "notification.toolkit.fluxcd.io", "kind": "Receiver", "namespace": "apps"},
    to={"group": SOURCE, "kind": "GitRepository", "name": "shop"},
)
THEIRS: Json = {"kind": "GitRepository", "namespace": "team-a"}


@pytest.mark.parametrize(
    ("policy", "name", "status"),
    [
        (granted(), "shop", 500),
        (granted(), "*", 500),
        (granted(GRANT), "shop", 200),
        # a grant of one object does not cover all of them
        (granted(GRANT), "*", 500),
        (References(grants=lambda _: (GRANT,), cross_namespace=False), "shop", 500),
    ],
)
async def test_another_teams_source_takes_their_grant(
    policy: References, name: str, status: int
) -> None:
    resources = [{**THEIRS, "name": name}]
    async with running("generic", policy=policy, resources=resources) as here:
        answer, text = await here.post(b"")

        assert (answer, here.asked(namespace="team-a")) == (status, status == 200)

    assert "team-a" not in text
