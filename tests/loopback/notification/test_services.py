"""Each type of Provider against a service on loopback that takes what its schema says."""

import asyncio
import hashlib
import hmac
import json
import re
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import parse_qs

import msgspec
import pytest
from aiohttp import web

from controllers.notification.events.event import LONGEST_MESSAGE, Event
from controllers.notification.events.matching import Notice
from controllers.notification.sending.asking import Asking
from controllers.notification.sending.targets import Place
from controllers.notification.services import SERVICES, limits
from controllers.notification.services.git.comments import CHANGE
from controllers.notification.services.service import Target, UnsuitableError
from tests.fakes import chatservices as schema
from tests.fakes.notices import SHA, event
from tests.fakes.serving import Seen, serving
from toolkit.notification import metadata
from toolkit.notification.demands import DEMANDS
from toolkit.remote.endpoint import Endpoint
from toolkit.remote.errors import AuthError, HttpError
from toolkit.remote.http.http import Http

TOKEN = "t0ken-of-tests"


@dataclass(frozen=True, kw_only=True)
class Case:
    """How a service is addressed, and what it takes."""

    type: str
    path: str
    body: Any
    address: str = ""
    method: str = "POST"
    header: tuple[str, str] = ("Content-Type", "application/json")
    answer: str = "{}"
    listing: str = ""
    channel: str = "room"
    username: str = ""
    metadata: tuple[tuple[str, str], ...] = ()
    severity: str = "error"


REPO = "/org/app"
BEARER = ("Authorization", f"Bearer {TOKEN}")
GITHUB = f"/api/v3/repos{REPO}"
CASES = (
    Case(type="generic", path="/in", address="/in", body=Event),
    Case(type="generic-hmac", path="/in", address="/in", body=Event),
    Case(
        type="slack",
        path="/api/chat.postMessage",
        address="/api/chat.postMessage",
        body=schema.SlackMessage,
        header=BEARER,
        answer='{"ok": true}',
    ),
    Case(
        type="discord",
        path="/api/webhooks/1/x/slack",
        address="/api/webhooks/1/x",
        body=schema.DiscordMessage,
    ),
    Case(type="rocket", path="/hooks/x", address="/hooks/x", body=schema.SlackMessage),
    Case(type="msteams", path="/workflows/x", address="/workflows/x", body=schema.TeamsMessage),
    Case(
        type="googlechat",
        path="/v1/spaces/x/messages?key=k&token=t",
        address="/v1/spaces/x/messages?key=k&token=t",
        body=schema.GoogleChatMessage,
    ),
    Case(
        type="webex",
        path="/v1/messages",
        address="/v1/messages",
        body=schema.WebexMessage,
        header=BEARER,
    ),
    Case(type="telegram", path=f"/bot{TOKEN}/sendMessage", body=schema.TelegramMessage),
    Case(
        type="lark",
        path="/open-apis/bot/v2/hook/x",
        address="/open-apis/bot/v2/hook/x",
        body=schema.LarkMessage,
        answer='{"code": 0, "msg": "success"}',
    ),
    Case(
        type="matrix",
        path=f"/_matrix/client/v3/rooms/%21room%3Aexample.com/send/m.room.message/{'0' * 32}",
        method="PUT",
        body=schema.MatrixMessage,
        header=BEARER,
        channel="!room:example.com",
    ),
    Case(
        type="zulip",
        path="/api/v1/messages",
        body="form",
        channel="deployments/prod",
        username="bot@example.com",
        header=("Content-Type", "application/x-www-form-urlencoded"),
    ),
    Case(
        type="opsgenie",
        path="/v2/alerts",
        address="/v2/alerts",
        body=schema.OpsgenieAlert,
        header=("Authorization", f"GenieKey {TOKEN}"),
    ),
    Case(type="pagerduty", path="/v2/enqueue", body=schema.PagerDutyEvent),
    Case(
        type="sentry",
        path="/prefix/api/42/envelope/",
        address="key@/prefix/42",
        body="envelope",
        header=("Content-Type", "application/x-sentry-envelope"),
    ),
    Case(
        type="datadog",
        path="/api/v1/events",
        body=schema.DatadogEvent,
        header=("DD-API-KEY", TOKEN),
    ),
    Case(
        type="grafana",
        path="/api/annotations",
        address="/api/annotations",
        body=schema.GrafanaAnnotation,
        header=BEARER,
    ),
    Case(
        type="alertmanager",
        path="/api/v2/alerts/",
        address="/api/v2/alerts/",
        body=list[schema.AlertmanagerAlert],
        header=BEARER,
    ),
    Case(type="otel", path="/v1/traces", body=schema.OtelRequest, header=BEARER),
    Case(
        type="azureeventhub",
        path="/hub/messages",
        channel="hub",
        body=Event,
        header=BEARER,
    ),
    Case(
        type="github",
        path=f"{GITHUB}/statuses/{SHA}",
        address=REPO,
        body=schema.GitHubStatus,
        header=BEARER,
        listing="[]",
    ),
    Case(
        type="gitlab",
        path=f"/api/v4/projects/group%2Fsub%2Fapp/statuses/{SHA}",
        address="/group/sub/app.git",
        body=schema.GitLabStatus,
        header=("PRIVATE-TOKEN", TOKEN),
        listing="[]",
    ),
    Case(
        type="gitea",
        path=f"/api/v1/repos{REPO}/statuses/{SHA}",
        address=REPO,
        body=schema.GitHubStatus,
        header=("Authorization", f"token {TOKEN}"),
        listing="null",
    ),
    Case(
        type="bitbucket",
        path=f"/2.0/repositories{REPO}/commit/{SHA}/statuses/build",
        address=REPO,
        body=schema.BitbucketStatus,
        header=BEARER,
    ),
    Case(
        type="bitbucketserver",
        path=f"/rest/api/latest/projects/org/repos/app/commits/{SHA}/builds",
        address="/scm/org/app.git",
        body=schema.BitbucketServerStatus,
        header=BEARER,
    ),
    Case(
        type="azuredevops",
        path=f"/org/project/_apis/git/repositories/app/commits/{SHA}/statuses?api-version=7.1",
        address="/org/project/_git/app",
        body=schema.AzureStatus,
    ),
    Case(
        type="githubdispatch",
        path=f"{GITHUB}/dispatches",
        address=REPO,
        body=schema.Dispatch,
        header=BEARER,
    ),
    Case(
        type="githubpullrequestcomment",
        path=f"{GITHUB}/issues/7/comments",
        address=REPO,
        body=schema.Comment,
        listing="[]",
        metadata=((CHANGE, "7"),),
    ),
    Case(
        type="gitlabmergerequestcomment",
        path="/api/v4/projects/org%2Fapp/merge_requests/7/notes",
        address=REPO,
        body=schema.Comment,
        listing="[]",
        metadata=((CHANGE, "7"),),
    ),
    Case(
        type="giteapullrequestcomment",
        path=f"/api/v1/repos{REPO}/issues/7/comments",
        address=REPO,
        body=schema.Comment,
        listing="[]",
        metadata=((CHANGE, "7"),),
    ),
)
ELSEWHERE = {"googlepubsub", "nats"}
"""The addresses of the first are Google's alone (``tests/unit``); the other is ``test_nats``."""


def place(origin: str, case: Case) -> Place:
    before, at, path = case.address.rpartition("@")
    target = Target(
        type=case.type,
        namespace="apps",
        name="p",
        uid="aaaabbbb-0000",
        address=origin.replace("://", f"://{before}{at}") + path,
        channel=case.channel,
        username=case.username,
        token=TOKEN,
        headers={"X-Own": "1"},
    )
    return Place(target=target, endpoint=Endpoint(plain_http=True), timeout=10, secrets=(TOKEN,))


async def told(case: Case, notice: Notice, status: int = 200) -> list[Seen]:
    """Send a notice to the service of a case; return the requests that were no reading."""
    taken: list[Seen] = []

    async def answer(request: web.Request) -> web.Response:
        body = await request.read()
        if request.method == "GET":
            return web.Response(text=case.listing, content_type="application/json")
        taken.append(
            Seen(
                method=request.method,
                path=request.raw_path,
                headers=dict(request.headers),
                body=body,
            )
        )
        return web.Response(status=status, text=case.answer)

    async with serving(answer) as port, Http() as http:
        where = place(f"http://127.0.0.1:{port}", case)
        kept = limits.fitted(notice, case.type)
        await SERVICES[case.type](kept, where.target, Asking(http, where))
    return taken


def decoded(case: Case, body: bytes) -> Any:
    """Return a body that is of the service's schema."""
    if case.body == "form":
        return {key: value for key, (value,) in parse_qs(body.decode()).items()}
    if case.body == "envelope":
        head, item, payload, _ = body.split(b"\n")
        assert json.loads(item) == {"type": "event", "length": len(payload)}
        assert set(json.loads(head)) == {"event_id", "sent_at"}
        return msgspec.json.decode(payload, type=schema.SentryEvent)
    return msgspec.json.decode(body, type=case.body)


@pytest.mark.parametrize("severity", ["info", "error"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.type)
def test_a_service_takes_what_it_is_told(case: Case, severity: str) -> None:
    requests = asyncio.run(told(case, event(severity, **dict(case.metadata))))

    name, value = case.header
    if (case.type, severity) in {("opsgenie", "info"), ("pagerduty", "info")}:
        assert len(requests) in {1, 2}
        return
    (request,) = requests
    assert (request.method, request.path) == (case.method, case.path)
    assert request.headers[name] == value
    assert decoded(case, request.body)


LONG = {
    "text": "Deployment/apps/web dry-run failed: spec.replicas: ",
    "lines": "a\n",
    "markup": "<&>`*_",
    "accents": "é",
    "symbols": "💣",
}


@pytest.mark.parametrize("text", LONG.values(), ids=LONG)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.type)
def test_a_service_takes_the_longest_event(case: Case, text: str) -> None:
    said = {f"{number:02}{text}" * 200: text * 2048 for number in range(metadata.MOST)}
    found = event("error", **dict(case.metadata))
    about = msgspec.structs.replace(found.event.involved_object, name="n" * 253)
    message = (text * LONGEST_MESSAGE)[:LONGEST_MESSAGE]
    whole = msgspec.structs.replace(found.event, involved_object=about, message=message)
    kept = metadata.bounded({**found.metadata, **said})
    notice = msgspec.structs.replace(found, event=whole, metadata=kept)

    (request,) = asyncio.run(told(case, notice))

    assert decoded(case, request.body)
    assert len(request.body) <= schema.MOST_BYTES.get(case.type, 2 << 20)


def test_every_type_has_limits() -> None:
    assert set(limits.LIMITS) == set(SERVICES)


def test_every_type_is_told_to_a_service() -> None:
    assert {case.type for case in CASES} | ELSEWHERE == set(SERVICES) == set(DEMANDS)


CHATS = ("slack", "discord", "rocket", "msteams", "googlechat", "webex", "telegram", "lark")


@pytest.mark.parametrize("kind", CHATS)
def test_a_room_does_not_hear_of_each_state_of_a_commit(kind: str) -> None:
    (case,) = [each for each in CASES if each.type == kind]

    assert asyncio.run(told(case, event(commit_status="update"))) == []


def test_a_signature_is_of_the_bytes_that_are_sent() -> None:
    (case,) = [each for each in CASES if each.type == "generic-hmac"]

    (request,) = asyncio.run(told(case, event()))

    digest = hmac.new(TOKEN.encode(), request.body, hashlib.sha256).hexdigest()
    assert request.headers["X-Signature"] == f"sha256={digest}"
    assert request.headers["Idempotency-Key"] == "0" * 32


def test_a_state_that_is_set_is_not_set_again() -> None:
    (case,) = [each for each in CASES if each.type == "github"]
    (request,) = asyncio.run(told(case, event()))
    known = json.dumps([json.loads(request.body)])

    again = asyncio.run(told(changed(case, listing=known), event()))

    assert again == []


def changed(case: Case, **fields: Any) -> Case:
    values = {name: getattr(case, name) for name in case.__dataclass_fields__}
    return Case(**{**values, **fields})


@pytest.mark.parametrize(
    ("kind", "method"),
    [
        ("githubpullrequestcomment", "PATCH"),
        ("gitlabmergerequestcomment", "PUT"),
        ("giteapullrequestcomment", "PATCH"),
    ],
)
def test_a_comment_is_edited_and_not_repeated(kind: str, method: str) -> None:
    (case,) = [each for each in CASES if each.type == kind]
    (first,) = asyncio.run(told(case, event(**{CHANGE: "7"})))
    body = json.loads(first.body)["body"]
    known = json.dumps([{"id": 1, "body": "of a person"}, {"id": 9, "body": body}])

    same = asyncio.run(told(changed(case, listing=known), event(**{CHANGE: "7"})))
    (edited,) = asyncio.run(told(changed(case, listing=known), event("error", **{CHANGE: "7"})))

    assert same == []
    assert edited.method == method
    assert edited.path.endswith("/9")


def test_text_of_an_event_is_no_markup_to_telegram_and_google_chat() -> None:
    for kind in ("telegram", "googlechat"):
        (case,) = [each for each in CASES if each.type == kind]
        (request,) = asyncio.run(told(case, event()))
        assert b"<failed>" not in request.body


FORGED = "\n- verified: me\n* verified: `me`\r>**verified**: me\u2028* verified: me"
LISTS = ("matrix", "zulip", "webex", "telegram", "githubpullrequestcomment")


@pytest.mark.parametrize("kind", LISTS)
def test_what_tenants_write_begins_no_line_that_looks_like_a_fact(kind: str) -> None:
    (case,) = [each for each in CASES if each.type == kind]
    found = event(**{**dict(case.metadata), "note": f"a{FORGED}", f"x{FORGED}": "b"})
    about = msgspec.structs.replace(found.event, message=f"it failed{FORGED}")

    (request,) = asyncio.run(told(case, msgspec.structs.replace(found, event=about)))

    body = decoded(case, request.body)
    names = ("body", "content", "markdown", "text")
    given = body if isinstance(body, dict) else msgspec.to_builtins(body)
    text = next(given[name] for name in names if name in given)
    outside = re.sub(r"(?ms)^```$.*?^```\s*$", "", text)
    assert "note" in outside
    assert not re.search(r"(?m)^(?:[-*] |>\*\*|<b>)verified", outside)
    assert len([line for line in outside.splitlines() if line.startswith("- verified")]) == 0


def test_text_of_an_event_mentions_nobody_in_slack() -> None:
    (case,) = [each for each in CASES if each.type == "slack"]

    (request,) = asyncio.run(told(case, event(note="<!channel> <https://evil.example|login>")))

    assert b"<" not in request.body
    assert b"&lt;!channel&gt;" in request.body


@pytest.mark.parametrize(
    ("kind", "answer", "error"),
    [
        ("slack", '{"ok": false, "error": "channel_not_found"}', UnsuitableError),
        ("slack", '{"ok": false, "error": "ratelimited"}', HttpError),
        ("lark", '{"code": 19001, "msg": "param invalid"}', UnsuitableError),
        ("lark", '{"code": 11232, "msg": "frequency limited"}', HttpError),
    ],
)
def test_an_error_with_status_200_is_one(kind: str, answer: str, error: type[Exception]) -> None:
    (case,) = [each for each in CASES if each.type == kind]

    with pytest.raises(error) as caught:
        asyncio.run(told(changed(case, answer=answer), event()))

    assert type(caught.value) is error


@pytest.mark.parametrize(("status", "error"), [(500, HttpError), (401, AuthError)])
def test_a_status_that_is_no_success_is_an_error(status: int, error: type[Exception]) -> None:
    (case,) = [each for each in CASES if each.type == "generic"]

    with pytest.raises(error):
        asyncio.run(told(case, event(), status))


def test_a_redirect_is_not_followed() -> None:
    (case,) = [each for each in CASES if each.type == "generic"]

    with pytest.raises(HttpError, match=re.escape("redirects a POST with HTTP 307")):
        asyncio.run(told(case, event(), 307))


def test_a_login_is_sent_unless_a_header_of_the_secret_is() -> None:
    (case,) = [each for each in CASES if each.type == "generic"]
    taken: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        taken.append(request.headers.get("Authorization", ""))
        return web.Response()

    async def main() -> None:
        async with serving(answer) as port, Http() as http:
            where = place(f"http://127.0.0.1:{port}", case)
            with_login = replace(where.target, username="me", password="hunter2")
            for headers in ({}, {"Authorization": "own"}):
                target = replace(with_login, headers=headers)
                await SERVICES["generic"](event(), target, Asking(http, where))

    asyncio.run(main())

    assert taken == ["Basic bWU6aHVudGVyMg==", "own"]
