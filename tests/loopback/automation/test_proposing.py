"""Pull requests instead of pushes, at each hosting service: opened, updated, closed."""

import ssl
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from tests.fakes.gitrepository import Repository
from tests.fakes.hosting import Hosting
from tests.fakes.passes import condition
from tests.fakes.pullrequests import PullRequests
from tests.loopback.automation.conftest import NAMESPACE, Bench
from toolkit.errors import StalledError, TransientError, WaitingError

AUTOMATION = "ImageUpdateAutomation"
ANNOTATION = "image.penstock.dev/pull-request"
TOKEN = "token-s3cret"
MARKER = f'# {{"$imagepolicy": "{NAMESPACE}:app"}}'
SIGNER = "https://github.com/acme/web (key)"


def file(tag: str) -> str:
    return f"kind: X\nimage: ghcr.io/org/web:{tag} {MARKER}\n"


@pytest.fixture(params=["github", "gitlab", "gitea"])
async def service(
    request: pytest.FixtureRequest, bench: Bench, server_tls: ssl.SSLContext, ca: bytes
) -> AsyncIterator[Hosting]:
    """Have the automation's repository at a service."""
    root = bench.root / "hosting"
    async with Hosting(root, request.param, tls=server_tls, token=TOKEN) as running:
        running.make("acme/fleet")
        running.made["acme/fleet"].commit({"apps/web.yaml": file("1.0.0")})
        login = {"username": b"git", "password": TOKEN.encode(), "ca.crt": ca}
        bench.held.held["git"] = login
        bench.chosen("1.1.0")
        automate(bench, running)
        yield running


def automate(bench: Bench, service: Hosting, kind: str = "", **git: Any) -> None:
    """Write the automation, and the GitRepository at the service."""
    commit = {"author": {"name": "bot", "email": "bot@example.com"}}
    body = {"commit": commit, "push": {"branch": "images"}, **git}
    bench.automation(git=body)
    url = f"https://{service.hostname}/acme/fleet.git"
    source = {"url": url, "interval": "1m", "secretRef": {"name": "git"}}
    bench.put("GitRepository", source | {"ref": {"branch": "main"}})
    spec = {
        "sourceRef": {"kind": "GitRepository", "name": "app"},
        "interval": "1h",
        "git": body,
    }
    bench.put(AUTOMATION, spec, annotations={ANNOTATION: kind or service.kind})


def pushes(bench: Bench) -> int:
    """Return how many commits were pushed; those of one second may be the same."""
    return sum(each.startswith("pushed commit") for each in bench.told())


def proposed(bench: Bench) -> tuple[str, str, str]:
    """Return what the condition tells of the pull request."""
    return condition(bench.get(AUTOMATION), "PullRequestReady")


def fleet(service: Hosting) -> Repository:
    return service.made["acme/fleet"]


def pulls(service: Hosting) -> PullRequests:
    return service.pulls["acme/fleet"]


async def test_a_pull_request_is_opened_updated_and_closed(bench: Bench, service: Hosting) -> None:
    await bench.run(AUTOMATION)

    (pull,) = pulls(service).open
    assert (pull.head, pull.base) == ("images", "main")
    assert pull.title == "Update from image update automation"
    image = "ghcr.io/org/web"
    assert f"| `apps/web.yaml` | `{image}:1.0.0` | `{image}:1.1.0` |  |" in pull.body
    assert f"ImageUpdateAutomation `{NAMESPACE}/app`" in pull.body
    assert bench.told()[-1] == "opened pull request #1"
    assert fleet(service).content("apps/web.yaml", "main") == file("1.0.0")

    bench.chosen("1.2.0")
    await bench.run(AUTOMATION)
    (same,) = pulls(service).open
    assert same.number == pull.number
    assert f"`{image}:1.2.0`" in same.body

    fleet(service).commit({"apps/web.yaml": file("1.2.0")})
    await bench.run(AUTOMATION)
    assert pulls(service).open == []
    assert bench.told()[-1] == "closed pull request #1: nothing is left to change"


async def test_nothing_new_asks_the_service_nothing(bench: Bench, service: Hosting) -> None:
    await bench.run(AUTOMATION)
    service.seen.clear()

    outcome = await bench.run(AUTOMATION)

    assert outcome.quiet
    assert service.seen == []


async def test_one_that_a_person_closed_stays_closed_until_there_is_more(
    bench: Bench, service: Hosting
) -> None:
    await bench.run(AUTOMATION)
    pulls(service).pulls[0].state = "closed"

    await bench.run(AUTOMATION)
    assert pulls(service).open == []

    bench.chosen("1.2.0")
    await bench.run(AUTOMATION)
    (another,) = pulls(service).open
    assert another.number == 2


async def test_one_from_a_fork_is_left_alone(bench: Bench, service: Hosting) -> None:
    for number in range(3):
        pulls(service).add("images", "main", f"Mine {number}", fork=True)
    await bench.run(AUTOMATION)

    assert [each.title for each in pulls(service).open if each.fork] == [
        "Mine 0",
        "Mine 1",
        "Mine 2",
    ]
    assert [each.number for each in pulls(service).open if not each.fork] == [4]

    fleet(service).commit({"apps/web.yaml": file("1.1.0")})
    await bench.run(AUTOMATION)
    assert [each.fork for each in pulls(service).open] == [True] * 3


async def test_a_service_that_refuses_is_told_and_asked_again(
    bench: Bench, service: Hosting
) -> None:
    service.token = "another"

    with pytest.raises(TransientError, match="token is wrong") as refused:
        await bench.run(AUTOMATION)

    assert refused.value.reason == "PullRequestFailed"
    assert TOKEN not in str(refused.value)
    pushed = fleet(service).revision("images")
    assert bench.get(AUTOMATION).status.last_push_commit == pushed
    assert proposed(bench)[:2] == ("False", "PullRequestFailed")
    service.token = TOKEN
    await bench.run(AUTOMATION)
    assert len(pulls(service).open) == 1
    assert fleet(service).revision("images") == pushed
    assert pushes(bench) == 1  # not one for each attempt
    assert proposed(bench) == ("True", "Succeeded", "pull request #1 is up to date")


@pytest.mark.parametrize("service", ["github"], indirect=True)
@pytest.mark.parametrize(
    ("status", "headers", "words"),
    [
        (401, {}, "the token is wrong or has expired"),
        (403, {}, "the token lacks the right to open pull requests"),
        (422, {}, "the service does not accept the pull request"),
        (403, {"Retry-After": "60"}, "the service limits requests"),
        (
            403,
            {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "99999999999"},
            "the service lim",
        ),
        (429, {"Retry-After": "60"}, "the service limits requests"),
        (500, {}, "HTTP 500"),
    ],
)
async def test_a_refused_opening_keeps_the_commit_and_is_tried_again_after_a_restart(
    bench: Bench, service: Hosting, status: int, headers: dict[str, str], words: str
) -> None:
    service.refusals.append(("POST", status, {"message": "No"}, headers))

    with pytest.raises(TransientError, match=words) as refused:
        await bench.run(AUTOMATION)

    assert refused.value.reason == "PullRequestFailed"
    assert words in proposed(bench)[2]
    pushed = fleet(service).revision("images")
    bench.restart()
    if headers:  # the server is left alone, without another push
        asked = len(service.seen)
        with pytest.raises(TransientError, match="the service limits requests"):
            await bench.run(AUTOMATION)
        assert len(service.seen) == asked
    else:
        await bench.run(AUTOMATION)
        assert len(pulls(service).open) == 1
    assert (fleet(service).revision("images"), pushes(bench)) == (pushed, 1)


@pytest.mark.parametrize("service", ["github"], indirect=True)
@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (("POST", 302, {}, {"Location": "https://git.example.com/"}), "redirects with HTTP 302"),
        (("GET", 200, {"pulls": []}, {}), "sent an answer that is not of its API"),
        (("POST", 201, {"number": 0}, {}), "sent no number"),
    ],
)
async def test_an_answer_that_is_none_is_told(
    bench: Bench, service: Hosting, answer: tuple[str, int, Any, dict[str, str]], words: str
) -> None:
    service.refusals.append(answer)

    with pytest.raises(TransientError, match=words):
        await bench.run(AUTOMATION)

    assert proposed(bench)[:2] == ("False", "PullRequestFailed")


@pytest.mark.parametrize("service", ["github"], indirect=True)
async def test_a_flood_of_pull_requests_of_strangers_is_told(
    bench: Bench, service: Hosting
) -> None:
    for number in range(41):
        pulls(service).add("images", "main", f"Mine {number}", fork=True)

    with pytest.raises(TransientError, match="lists more pull requests than can be read"):
        await bench.run(AUTOMATION)


@pytest.mark.parametrize("service", ["gitlab"], indirect=True)
async def test_a_closing_that_failed_is_done_later(bench: Bench, service: Hosting) -> None:
    await bench.run(AUTOMATION)
    fleet(service).commit({"apps/web.yaml": file("1.1.0")})
    service.refusals.append(("PUT", 500, {}, {}))
    with pytest.raises(TransientError, match="HTTP 500"):
        await bench.run(AUTOMATION)
    assert len(pulls(service).open) == 1

    await bench.run(AUTOMATION)

    assert pulls(service).open == []
    assert proposed(bench) == ("True", "Succeeded", "nothing is left to change")


@pytest.mark.parametrize(("squash", "keep"), [(False, True), (True, False)])
async def test_one_that_is_merged_is_over_and_the_next_tag_opens_another(
    bench: Bench, service: Hosting, *, squash: bool, keep: bool
) -> None:
    await bench.run(AUTOMATION)
    pulls(service).merge(1, squash=squash, keep=keep)

    await bench.run(AUTOMATION)
    assert pulls(service).open == []
    assert len(bench.told()) == 2  # pushed, opened

    bench.chosen("1.2.0")
    await bench.run(AUTOMATION)
    (another,) = pulls(service).open
    assert another.number == 2
    assert "`ghcr.io/org/web:1.1.0` | `ghcr.io/org/web:1.2.0`" in another.body
    assert fleet(service).revision("images^") == fleet(service).revision("main")


@pytest.mark.parametrize("service", ["gitlab"], indirect=True)
async def test_an_annotation_that_comes_later_opens_one_for_what_was_pushed(
    bench: Bench, service: Hosting
) -> None:
    obj = bench.get(AUTOMATION)
    bench.put(AUTOMATION, msgspec.to_builtins(obj.spec), annotations={})
    await bench.run(AUTOMATION)
    pushed = fleet(service).revision("images")
    assert service.seen == []
    bench.put(AUTOMATION, msgspec.to_builtins(obj.spec), annotations={ANNOTATION: service.kind})

    await bench.run(AUTOMATION)

    assert len(pulls(service).open) == 1
    assert (fleet(service).revision("images"), pushes(bench)) == (pushed, 1)
    bench.put(AUTOMATION, msgspec.to_builtins(obj.spec), annotations={})
    await bench.run(AUTOMATION)
    assert proposed(bench) == ("", "", "")


@pytest.mark.parametrize("service", ["gitea"], indirect=True)
async def test_a_request_neither_pushes_again_nor_opens_what_a_person_closed(
    bench: Bench, service: Hosting
) -> None:
    await bench.run(AUTOMATION)
    pushed = fleet(service).revision("images")
    pulls(service).pulls[0].state = "closed"

    await bench.run(AUTOMATION, "requested")

    assert (fleet(service).revision("images"), pushes(bench)) == (pushed, 1)
    assert pulls(service).open == []


@pytest.mark.parametrize("service", ["gitea"], indirect=True)
async def test_a_branch_that_another_automation_pushes_to_gets_no_pull_request(
    bench: Bench, service: Hosting
) -> None:
    spec = msgspec.to_builtins(bench.get(AUTOMATION).spec)
    bench.put(AUTOMATION, spec, name="other")

    with pytest.raises(WaitingError, match="'other' pushes to branch 'images' as well"):
        await bench.run(AUTOMATION)

    bench.put(AUTOMATION, spec | {"suspend": True}, name="other")
    await bench.run(AUTOMATION)
    assert len(pulls(service).open) == 1


@pytest.mark.parametrize("service", ["github"], indirect=True)
@pytest.mark.parametrize(
    ("kind", "git", "words"),
    [
        (
            "bitbucket",
            {},
            "'bitbucket' is not a hosting service: write one of github, gitlab, gitea",
        ),
        ("github", {"push": {"branch": "main"}}, "need spec.git.push.branch"),
        (
            "github",
            {"checkout": {"ref": {"tag": "v1"}}, "push": {"branch": "images"}},
            "need spec.git.push.branch",
        ),
    ],
)
async def test_what_cannot_have_pull_requests_stalls(
    bench: Bench, service: Hosting, kind: str, git: dict[str, Any], words: str
) -> None:
    automate(bench, service, kind, **git)

    with pytest.raises(StalledError, match=words) as refused:
        await bench.run(AUTOMATION)

    assert refused.value.reason == "InvalidSourceConfiguration"
    assert fleet(service).revision("images") == ""
