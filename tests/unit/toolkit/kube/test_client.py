"""The client's promises about paths, headers, errors and retries."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.fakes import virtualtime
from tests.fakes.apiserver import FakeApiServer
from tests.tools import sessions
from toolkit.kube import errors, impersonation
from toolkit.kube.client import Client
from toolkit.kube.config import ClusterConfig
from toolkit.objects import GroupVersionKind

CONFIG_MAP = GroupVersionKind("", "v1", "ConfigMap")


def ask(
    scenario: Callable[[Client], Awaitable[Any]], server: FakeApiServer | None = None
) -> tuple[Any, FakeApiServer]:
    """Run a scenario against a fake server; an error is the answer, too."""

    async def main() -> Any:
        async with fake.running() as client:
            try:
                return await scenario(client)
            except errors.ApiError as exc:
                return exc

    fake = server or FakeApiServer()
    return virtualtime.run(main), fake


async def read(client: Client) -> Any:
    return await client.get(CONFIG_MAP, "a", "default")


async def write(client: Client) -> Any:
    obj = {"apiVersion": "v1", "kind": "ConfigMap"}
    return await client.create(obj | {"metadata": {"name": "b", "namespace": "default"}})


@pytest.mark.parametrize(
    ("status", "reason", "expected"),
    [
        (401, "Unauthorized", errors.UnauthorizedError),
        (403, "Forbidden", errors.ForbiddenError),
        (404, "NotFound", errors.NotFoundError),
        (409, "Conflict", errors.ConflictError),
        (409, "AlreadyExists", errors.AlreadyExistsError),
        (410, "Expired", errors.GoneError),
        (422, "Invalid", errors.InvalidError),
        (429, "TooManyRequests", errors.TooManyRequestsError),
        (500, "InternalError", errors.ApiError),
    ],
)
def test_a_status_becomes_its_error(
    status: int, reason: str, expected: type[errors.ApiError]
) -> None:
    server = FakeApiServer()
    server.fail("GET", "configmaps", status, reason=reason, times=10)

    answer, _ = ask(read, server)

    assert type(answer) is expected
    assert (answer.status, answer.api_reason) == (status, reason)


def test_a_proxy_s_plain_text_is_the_message() -> None:
    server = FakeApiServer()
    server.fail("GET", "configmaps", 502, text="upstream is sad\n")

    answer, _ = ask(read, server)

    assert str(answer) == "upstream is sad"
    assert answer.status == 502


def test_an_unserved_kind_is_no_match() -> None:
    async def scenario(client: Client) -> Any:
        return await client.get(GroupVersionKind("x.io", "v1", "Thing"), "a", "default")

    answer, _ = ask(scenario)

    assert type(answer) is errors.NoMatchError
    assert str(answer) == "no matches for kind 'Thing' in 'x.io/v1'"


@pytest.mark.parametrize("call", [read, write])
def test_429_with_retry_after_is_sent_again(call: Callable[[Client], Awaitable[Any]]) -> None:
    server = FakeApiServer()
    server.put("configmaps", "a")
    for method in ("GET", "POST"):
        server.fail(method, "configmaps", 429, headers={"Retry-After": "7"})

    async def scenario(client: Client) -> Any:
        await call(client)
        return asyncio.get_running_loop().time()

    answer, _ = ask(scenario, server)

    assert 7 <= answer < 8


@pytest.mark.parametrize("size", [10, 3 << 19], ids=["small", "one and a half MiB"])
def test_a_body_of_any_size_arrives_whole_and_again_after_a_429(size: int) -> None:
    """What aiohttp warns of would fail here: warnings are errors."""
    obj = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "b", "namespace": "default"},
        "data": {"a": "x" * size},
    }

    async def scenario(client: Client) -> Any:
        await client.create(obj)
        server.fail("PATCH", "configmaps", 429, headers={"Retry-After": "1"})
        return await client.apply(obj, manager="one")

    server = FakeApiServer()
    answer, _ = ask(scenario, server)

    assert not isinstance(answer, errors.ApiError), answer
    assert [len(body["data"]["a"]) for body in server.bodies if body] == [size, size]
    assert [method for method, *_ in server.requests][-3:] == ["POST", "PATCH", "PATCH"]


def test_no_write_is_parsed_a_second_time_for_warnings() -> None:
    async def scenario(client: Client) -> Any:
        metadata = {"name": "b", "namespace": "default"}
        obj = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
        await client.create(obj)
        await client.apply(obj, manager="one")
        await client.patch(CONFIG_MAP, "b", "default", {"data": {"x": "1"}}, strategy="merge")

    _, server = ask(scenario)

    written = [query for method, _, query in server.requests if method != "GET"]
    assert [query["fieldValidation"] for query in written] == ["Ignore"] * 3


def test_429_without_retry_after_is_the_caller_s() -> None:
    server = FakeApiServer()
    server.fail("GET", "configmaps", 429)

    answer, _ = ask(read, server)

    assert type(answer) is errors.TooManyRequestsError
    assert server.count("GET", "configmaps") == 1


def test_retries_end() -> None:
    server = FakeApiServer()
    server.fail("GET", "configmaps", 429, headers={"Retry-After": "1"}, times=100)

    answer, _ = ask(read, server)

    assert type(answer) is errors.TooManyRequestsError
    assert server.count("GET", "configmaps") == 4


def test_a_reset_connection_is_retried_for_a_read() -> None:
    server = FakeApiServer()

    async def scenario(client: Client) -> Any:
        await client.mapper.resource(CONFIG_MAP)
        server.down = True
        return await read(client)

    answer, _ = ask(scenario, server)

    assert type(answer) is errors.UnreachableError
    assert server.count("GET", "configmaps") >= 4


def test_a_reset_connection_is_not_retried_for_a_create() -> None:
    server = FakeApiServer()

    async def scenario(client: Client) -> Any:
        await client.mapper.resource(CONFIG_MAP)
        server.down = True
        return await write(client)

    answer, _ = ask(scenario, server)

    assert type(answer) is errors.UnreachableError
    assert server.count("POST", "configmaps") == 1


def test_a_refused_connection_is_retried_for_any_verb_and_says_so() -> None:
    async def main() -> tuple[errors.ApiError, float]:
        async with Client.open(ClusterConfig(server="http://127.0.0.1:1")) as client:
            with pytest.raises(errors.UnreachableError) as caught:
                await client.request("POST", "/api/v1/namespaces", body={})
        return caught.value, asyncio.get_running_loop().time()

    error, waited = virtualtime.run(main)

    assert "cannot connect to 127.0.0.1:1: connection refused" in str(error)
    assert waited > 0.5


def test_a_server_that_does_not_answer_is_given_up_at_the_deadline() -> None:
    server = FakeApiServer()

    async def scenario(client: Client) -> Any:
        await client.mapper.resource(CONFIG_MAP)
        server.hang = asyncio.Event()
        try:
            return await write(client)
        except errors.UnreachableError as exc:
            return str(exc), asyncio.get_running_loop().time()
        finally:
            server.hang.set()

    (message, waited), _ = ask(scenario, server)

    assert "in time" in message
    assert 30 <= waited < 31


def test_an_impersonating_view_sends_its_headers_and_shares_the_mapper() -> None:
    server = FakeApiServer()
    server.put("configmaps", "a")

    async def scenario(client: Client) -> Any:
        extra = {"provenance.penstock.dev/source": "x/y", "many": ["1", "2"]}
        view = client.impersonating("system:serviceaccount:a:b", extra=extra)
        await read(view)
        return view.mapper is client.mapper

    shared, server = ask(scenario, server)

    headers = server.headers[-1]
    assert shared
    assert headers["Impersonate-User"] == "system:serviceaccount:a:b"
    assert headers["Impersonate-Extra-provenance.penstock.dev%2Fsource"] == "x/y"


def test_requests_ask_for_an_uncompressed_body() -> None:
    server = FakeApiServer()
    server.put("configmaps", "a")

    _, server = ask(read, server)

    assert server.headers[-1]["Accept-Encoding"] == "identity"


def test_a_list_follows_its_pages_and_names_the_kind_of_items() -> None:
    server = FakeApiServer()
    for name in "abcde":
        server.put("configmaps", name)

    answer, server = ask(lambda client: client.list(CONFIG_MAP, "default"), server)

    assert [item["metadata"]["name"] for item in answer] == list("abcde")
    assert {item["kind"] for item in answer} == {"ConfigMap"}
    assert server.count("GET", "configmaps") == 3


def test_pages_of_metadata_are_asked_for_one_by_one() -> None:
    async def first(client: Client) -> list[str]:
        async for page in client.pages(CONFIG_MAP, "default", metadata_only=True):
            return [item["metadata"]["name"] for item in page]
        return []

    server = FakeApiServer()
    for name in "abc":
        server.put("configmaps", name)

    answer, server = ask(first, server)

    assert answer == ["a", "b"]
    assert server.count("GET", "configmaps") == 1
    assert "as=PartialObjectMetadataList;" in server.headers[-1]["Accept"]


def test_a_list_of_empty_pages_comes_to_an_end() -> None:
    server = FakeApiServer()
    server.put("configmaps", "a")
    server.page = 0

    answer, server = ask(lambda client: client.list(CONFIG_MAP, "default"), server)

    assert type(answer) is errors.ApiError
    assert "has 1000 empty pages in a row" in str(answer)
    assert server.count("GET", "configmaps") == 1000


def test_a_namespaced_object_without_namespace_is_refused_before_it_is_sent() -> None:
    answer, server = ask(lambda client: client.get(CONFIG_MAP, "a"))

    assert answer.status == 400
    assert server.count("GET", "configmaps") == 0


def test_a_rotated_token_is_read_again_after_a_401() -> None:
    tokens = iter(["old", "new", "newest"])
    server = FakeApiServer()
    server.put("configmaps", "a")
    server.fail("GET", "configmaps", 401, reason="Unauthorized")

    async def main() -> list[str | None]:
        async with server.running() as plain:
            config = ClusterConfig(server=plain.server, token=lambda: next(tokens))
            async with Client.open(config) as client:
                await read(client)
                await read(client)
                await asyncio.sleep(61)
                await read(client)
        gets = zip(server.requests, server.headers, strict=True)
        return [headers.get("Authorization") for (_, path, _), headers in gets if "maps" in path]

    sent = virtualtime.run(main)

    assert sent == ["Bearer old", "Bearer new", "Bearer new", "Bearer newest"]


def test_an_unchanged_token_is_not_tried_twice() -> None:
    server = FakeApiServer()
    server.fail("GET", "configmaps", 401, reason="Unauthorized", times=10)

    async def main() -> int:
        async with server.running() as plain:
            config = ClusterConfig(server=plain.server, token=lambda: "same")
            async with Client.open(config) as client:
                with pytest.raises(errors.UnauthorizedError):
                    await read(client)
        return server.count("GET", "configmaps")

    assert virtualtime.run(main) == 1


def test_qps_and_burst_set_the_pace() -> None:
    server = FakeApiServer()
    server.put("configmaps", "a")

    async def main() -> float:
        async with server.running() as plain:
            config = ClusterConfig(server=plain.server)
            async with Client.open(config, qps=2, burst=5) as client:
                for _ in range(13):  # and two for discovery
                    await read(client)
        return asyncio.get_running_loop().time()

    assert virtualtime.run(main) == pytest.approx(5.0, abs=0.5)


@pytest.mark.parametrize("used", [True, False])
def test_a_closed_client_stays_closed(*, used: bool) -> None:
    server = FakeApiServer()
    server.put("configmaps", "a")

    async def scenario(client: Client) -> int:
        if used:
            await read(client)
        await client.close()
        before = sessions.opened()
        with pytest.raises(errors.ApiError, match="is closed"):
            await read(client)
        return len(sessions.opened() - before)

    leaked, server = ask(scenario, server)

    assert leaked == 0


def test_redirects_are_not_followed() -> None:
    server = FakeApiServer()
    server.fail("GET", "configmaps", 302, headers={"Location": "http://127.0.0.1:1/"})

    answer, server = ask(read, server)

    assert type(answer) is errors.ApiError
    assert answer.status == 302


def test_discovery_is_asked_once_and_again_for_an_unknown_kind_at_most_every_two_seconds() -> None:
    server = FakeApiServer()
    gvk = GroupVersionKind("x.io", "v1", "Thing")

    async def scenario(client: Client) -> Any:
        await client.mapper.resource(CONFIG_MAP)
        for _ in range(5):
            with pytest.raises(errors.NoMatchError):
                await client.mapper.resource(gvk)
        server.kinds[("x.io", "v1", "things")] = "Thing"
        await asyncio.sleep(3)
        return await client.mapper.resource(gvk)

    resource, server = ask(scenario, server)

    assert resource.path("a", "ns", subresource="status") == (
        "/apis/x.io/v1/namespaces/ns/things/a/status"
    )
    assert server.count("GET", "/apis") == 2


def test_a_kind_of_a_server_that_is_down_is_not_missing() -> None:
    server = FakeApiServer()
    server.stale.add(("x.io", "v1"))

    async def scenario(client: Client) -> Any:
        with pytest.raises(errors.StaleDiscoveryError, match=r"look at APIService 'v1\.x\.io'"):
            await client.mapper.resource(GroupVersionKind("x.io", "v1", "Thing"))
        with pytest.raises(errors.NoMatchError):
            await client.mapper.resource(GroupVersionKind("x.io", "v2", "Thing"))
        server.stale.clear()
        await asyncio.sleep(3)
        with pytest.raises(errors.NoMatchError):
            await client.mapper.resource(GroupVersionKind("x.io", "v1", "Thing"))

    ask(scenario, server)


@pytest.mark.parametrize("name", ["../../other/configmaps/a", "..", ".", "a/status", "%2e%2e"])
def test_a_name_never_leads_to_another_object(name: str) -> None:
    server = FakeApiServer()
    server.put("configmaps", "a", namespace="other")
    server.put("configmaps", "a")

    answer, server = ask(lambda client: client.get(CONFIG_MAP, name, "default"), server)

    assert answer.status == 400
    assert server.count("GET", "configmaps") == 0


def test_a_namespace_never_leads_to_another_one() -> None:
    server = FakeApiServer()
    server.put("configmaps", "a", namespace="other")

    answer, server = ask(lambda client: client.get(CONFIG_MAP, "a", "mine/../other"), server)

    assert answer.status == 400
    assert server.count("GET", "configmaps") == 0


def test_what_has_a_meaning_in_a_url_is_part_of_the_name() -> None:
    answer, server = ask(lambda client: client.get(CONFIG_MAP, "a?watch=true#b", "default"))

    assert answer.status == 404
    assert server.requests[-1][1:] == ("/api/v1/namespaces/default/configmaps/a?watch=true#b", {})


@pytest.mark.parametrize("text", ["<html>", "[1]", '{"x":' * 5000 + "1" + "}" * 5000])
def test_an_answer_that_is_no_object_is_an_error_of_the_server(text: str) -> None:
    server = FakeApiServer()
    server.fail("GET", "configmaps", 200, text=text)

    answer, _ = ask(read, server)

    assert "not an object" in str(answer)


@pytest.mark.parametrize("text", ['{"items":[7]}', '{"items":[{"versions":[{"resources":[{}]}]}]}'])
def test_nonsense_for_discovery_is_an_error_of_the_server(text: str) -> None:
    server = FakeApiServer()
    server.fail("GET", "/apis", 200, text=text)

    answer, _ = ask(read, server)

    assert "not a discovery document" in str(answer)


@pytest.mark.parametrize("status", [200, 500])
def test_an_answer_without_end_is_given_up(status: int) -> None:
    server = FakeApiServer()
    server.fail("GET", "configmaps", status, text="x" * 3000)

    async def main() -> str:
        async with server.running() as plain:
            config = ClusterConfig(server=plain.server)
            async with Client.open(config, max_body=2000) as client:
                with pytest.raises(errors.ApiError) as caught:
                    await read(client)
        return str(caught.value)

    assert "answered with more than" in virtualtime.run(main)


def test_a_failure_that_is_malformed_is_still_a_failure() -> None:
    server = FakeApiServer()
    text = '{"message":"no","details":{"causes":[7],"retryAfterSeconds":"soon"}}'
    server.fail("GET", "configmaps", 403, text=text)

    answer, _ = ask(read, server)

    assert isinstance(answer, errors.ForbiddenError)
    assert str(answer) == "no"


def test_a_claim_may_hold_any_character() -> None:
    server = FakeApiServer()
    server.put("configmaps", "a")
    revision = "größe\r\nImpersonate-Group: system:masters\x00@sha1:1"

    async def scenario(client: Client) -> Any:
        extra = impersonation.provenance(
            applier="a", source="s", revision=revision, digest="d", verified=""
        )
        return await read(client.impersonating("u", extra=extra))

    answer, server = ask(scenario, server)

    headers = server.headers[-1]
    assert answer["metadata"]["name"] == "a"
    assert "Impersonate-Group" not in headers
    assert headers["Impersonate-Extra-provenance.penstock.dev%2Frevision"] == (
        r"größe\x0d\x0aImpersonate-Group: system:masters\x00@sha1:1"
    )
