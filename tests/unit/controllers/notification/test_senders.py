"""Each type of sender has to prove itself: what is right, and what is almost right."""

import asyncio
import hashlib
import hmac
import json
from collections.abc import Mapping

import msgspec
import pytest

from controllers.notification.receiving import senders
from controllers.notification.receiving.oidc import Tokens
from controllers.notification.receiving.replays import MOST, Replays
from controllers.notification.receiving.request import Checked, Hook, RefusedError
from controllers.notification.receiving.senders import SENDERS
from crds.notification_receiver import Receiver, ReceiverType
from tests.fakes.evaluating import NoEvaluator
from toolkit.objects import ObjectKey
from toolkit.remote.endpoint import Endpoint
from toolkit.remote.http.http import Http

TOKEN = b"t0ken"


def sign(body: bytes, algorithm: str = "sha256", key: bytes = TOKEN) -> str:
    return hmac.new(key, body, algorithm).hexdigest()


def check(
    kind: str, headers: Mapping[str, str], body: bytes, events: tuple[str, ...] = ()
) -> Checked:
    receiver = msgspec.convert(
        {
            "metadata": {"name": "r", "namespace": "apps"},
            "spec": {"type": kind, "resources": [], "events": list(events)},
        },
        Receiver,
    )
    hook = Hook(receiver=receiver, headers=headers, body=body, secret={"token": TOKEN + b"\n"})
    tokens = Tokens(Http(), lambda _: Endpoint(), NoEvaluator())
    return asyncio.run(SENDERS[kind](hook, tokens))


def test_every_type_has_a_check() -> None:
    assert set(SENDERS) == set(ReceiverType.__args__)  # type: ignore[attr-defined]


BODY = b'{"ref": "refs/heads/main"}'
HUB = {"X-GitHub-Event": "push", "X-GitHub-Delivery": "1"}
ACR = json.dumps({"id": "1", "action": "push", "target": {"repository": "a", "tag": "b"}}).encode()
DOCKER = json.dumps({"push_data": {"tag": "1"}, "repository": {"repo_url": "u"}}).encode()
CE = {"Ce-Id": "1", "Ce-Source": "s", "Ce-Type": "dev.cdevents.artifact.published"}
NEXUS = b'{"action": "CREATED", "repositoryName": "a"}'
RIGHT: tuple[tuple[str, Mapping[str, str], bytes], ...] = (
    ("generic", {}, b""),
    ("generic-hmac", {"X-Signature": f"sha256={sign(BODY)}"}, BODY),
    ("generic-hmac", {"X-Signature": f"sha1={sign(BODY, 'sha1')}"}, BODY),
    ("generic-hmac", {"X-Signature": f"sha512={sign(BODY, 'sha512')}"}, BODY),
    ("github", {**HUB, "X-Hub-Signature-256": f"sha256={sign(BODY)}"}, BODY),
    ("github", {**HUB, "X-Hub-Signature": f"sha1={sign(BODY, 'sha1')}"}, BODY),
    ("gitlab", {"X-Gitlab-Token": "t0ken", "X-Gitlab-Event": "Push Hook"}, BODY),
    ("bitbucket", {"X-Hub-Signature": f"sha256={sign(BODY)}", "X-Event-Key": "repo:push"}, BODY),
    ("harbor", {"Authorization": "t0ken"}, BODY),
    ("dockerhub", {}, DOCKER),
    ("quay", {}, b'{"docker_url": "quay.io/a/b", "updated_tags": ["1"]}'),
    ("nexus", {"X-Nexus-Webhook-Signature": sign(NEXUS, "sha1")}, NEXUS),
    ("acr", {}, ACR),
    ("cdevents", CE, b"{}"),
)


@pytest.mark.parametrize(("kind", "headers", "body"), RIGHT)
def test_what_proves_itself_is_taken(kind: str, headers: Mapping[str, str], body: bytes) -> None:
    assert check(kind, headers, body)


DEEP = b'{"a":' * 100_000
WRONG: tuple[tuple[str, Mapping[str, str], bytes], ...] = (
    ("generic-hmac", {}, BODY),
    ("generic-hmac", {"X-Signature": sign(BODY)}, BODY),
    ("generic-hmac", {"X-Signature": f"md5={sign(BODY, 'md5')}"}, BODY),
    ("generic-hmac", {"X-Signature": f"sha256={sign(BODY, key=b'other')}"}, BODY),
    ("generic-hmac", {"X-Signature": f"sha256={sign(BODY)}"}, BODY + b" "),
    ("generic-hmac", {"X-Signature": "sha256=ä"}, BODY),
    ("github", {**HUB, "X-Hub-Signature-256": f"sha256={sign(BODY, key=b'')}"}, BODY),
    ("github", HUB, BODY),
    ("gitlab", {"X-Gitlab-Token": "t0ke", "X-Gitlab-Event": "Push Hook"}, BODY),
    ("gitlab", {"X-Gitlab-Token": "ä"}, BODY),
    ("gitlab", {}, BODY),
    ("bitbucket", {"X-Hub-Signature": "sha256=00", "X-Event-Key": "repo:push"}, BODY),
    ("harbor", {"Authorization": "Bearer t0ken"}, BODY),
    ("dockerhub", {}, b"{}"),
    ("dockerhub", {}, DEEP),
    ("quay", {}, b"[]"),
    ("quay", {}, b'{"docker_url": 1}'),
    ("nexus", {"X-Nexus-Webhook-Signature": "0" * 40}, NEXUS),
    ("acr", {}, b'{"action": "push", "target": []}'),
    ("cdevents", {}, b"{}"),
    ("gcr", {}, b"{}"),
    ("generic-oidc", {}, b"{}"),
    ("generic-oidc", {"Authorization": "Bearer a.b.c"}, b"{}"),
)


@pytest.mark.parametrize(("kind", "headers", "body"), WRONG)
def test_what_does_not_is_refused(kind: str, headers: Mapping[str, str], body: bytes) -> None:
    with pytest.raises(RefusedError) as caught:
        check(kind, headers, body)

    assert "t0ken" not in str(caught.value)


@pytest.mark.parametrize("events", [("push",), ("ping", "PUSH")])
def test_an_event_of_the_list_is_taken(events: tuple[str, ...]) -> None:
    headers = {**HUB, "X-Hub-Signature-256": f"sha256={sign(BODY)}"}

    assert check("github", headers, BODY, events).event == "push"


@pytest.mark.parametrize(
    ("kind", "headers"),
    [
        ("github", {**HUB, "X-Hub-Signature-256": f"sha256={sign(BODY)}"}),
        ("gitlab", {"X-Gitlab-Token": "t0ken", "X-Gitlab-Event": "Push Hook"}),
        ("bitbucket", {"X-Hub-Signature": f"sha256={sign(BODY)}", "X-Event-Key": "x"}),
        ("cdevents", CE),
    ],
)
def test_another_event_is_refused(kind: str, headers: Mapping[str, str]) -> None:
    with pytest.raises(RefusedError, match=r"spec\.events"):
        check(kind, headers, BODY, ("release",))


def test_the_path_is_that_of_flux() -> None:
    digest = hashlib.sha256(b"t0ken" + b"fleet" + b"flux-system").hexdigest()

    assert senders.path(b"t0ken", "fleet", "flux-system") == f"/hook/{digest}"


def test_deliveries_to_one_receiver_make_no_others_be_forgotten() -> None:
    replays, quiet, busy = Replays(), ObjectKey("apps", "r"), ObjectKey("apps", "busy")
    replays.note(quiet, ("first",))

    for number in range(MOST + 1):
        replays.note(busy, (str(number),))

    assert replays.seen(quiet, ("first",))
    assert not replays.seen(busy, ("0",))
    assert replays.seen(busy, ("1",))


def test_a_delivery_is_remembered_for_a_day() -> None:
    now = [0.0]
    replays, receiver = Replays(clock=lambda: now[0]), ObjectKey("apps", "r")
    replays.note(receiver, ("first",))
    now[0] = 24 * 3600 - 1
    assert replays.seen(receiver, ("second", "first"))

    now[0] += 1
    replays.note(ObjectKey("apps", "other"), ("x",))

    assert not replays.seen(receiver, ("first",))
    assert not replays.seen(receiver, ("",))


HEADERS = {
    "github": {"X-Hub-Signature-256": "sha256", "X-Hub-Signature": "sha1"},
    "bitbucket": {"X-Hub-Signature": "sha256"},
    "nexus": {"X-Nexus-Webhook-Signature": "sha1"},
}


@pytest.mark.parametrize("kind", HEADERS)
def test_a_signed_body_is_one_delivery_in_whatever_form_it_is_signed(kind: str) -> None:
    body, keys = b'{"action": "CREATED"}', set()
    for name, usual in HEADERS[kind].items():
        for algorithm in {usual, "sha1", "sha256", "sha512"}:
            value = hmac.new(b"t0ken", body, algorithm).hexdigest()
            for text in (f"{algorithm}={value}", *([value] if algorithm == "sha1" else [])):
                if kind != "nexus" and "=" not in text:
                    continue
                keys.add(check(kind, {"X-GitHub-Event": "push", name: text}, body).once)

    assert len(keys) == 1


def test_another_id_does_not_make_a_replay_a_new_delivery() -> None:
    signature = {"X-Hub-Signature-256": f"sha256={sign(BODY)}"}
    replays, key = Replays(), ObjectKey("apps", "r")
    first = check("github", {**HUB, **signature}, BODY)
    replays.note(key, first.once)

    again = check("github", {**HUB, **signature, "X-GitHub-Delivery": "2"}, BODY)

    assert replays.seen(key, again.once)
    assert not replays.seen(ObjectKey("apps", "other"), again.once)
    replays.forget(key, first.once)
    assert not replays.seen(key, again.once)


def test_a_sender_without_ids_may_call_as_often_as_it_likes() -> None:
    replays, key = Replays(), ObjectKey("apps", "r")
    replays.note(key, ("",))

    assert not replays.seen(key, ("",))
