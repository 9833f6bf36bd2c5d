"""``trigger receiver`` without a cluster: tokens of a CI, and endpoints that are not there yet."""

import asyncio
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from aiohttp import web
from yarl import URL

from cli.stack import state
from controllers.notification.receiving import senders
from tests.fakes.serving import Seen, serving
from tests.tools import command
from tests.tools.command import Ended

VARIABLE = "FLUX_TRIGGER_RECEIVER_OIDC_TOKEN"
REQUEST_URL, REQUEST_TOKEN = "ACTIONS_ID_TOKEN_REQUEST_URL", "ACTIONS_ID_TOKEN_REQUEST_TOKEN"
JOB = "of-the-job"


@dataclass
class Server:
    """The endpoint of hooks and, below ``/issue``, a CI that issues tokens."""

    url: str = ""
    statuses: list[int] = field(default_factory=list)
    issued: dict[str, str] = field(default_factory=lambda: {"value": "id-token"})
    hooks: list[Seen] = field(default_factory=list)
    asked: list[Seen] = field(default_factory=list)

    async def answer(self, request: web.Request) -> web.Response:
        seen = Seen(request.method, request.path_qs, dict(request.headers), await request.read())
        if request.path == "/issue":
            self.asked.append(seen)
            return web.json_response(self.issued)
        self.hooks.append(seen)
        return web.Response(status=self.statuses.pop(0) if self.statuses else 200)


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    made = Server()
    async with serving(made.answer) as port:
        made.url = f"http://localhost:{port}"
        yield made


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, str]:
    """Return what both commands find set; no cluster is among it."""
    for name in (VARIABLE, REQUEST_URL, REQUEST_TOKEN):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    return {"PATH": os.defpath, "HOME": str(tmp_path), "KUBECONFIG": str(tmp_path / "none")}


async def both(
    flux: Path, server: Server, environment: dict[str, str], *more: str
) -> tuple[Ended, Ended]:
    """Run Flux's command, then ours, in a job with this environment."""
    words = ("trigger", "receiver", "hook", "-n", "apps", f"--url={server.url}", *more)
    process = await asyncio.create_subprocess_exec(
        flux,
        *words,
        env=environment,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    said, complaint = await process.communicate()
    theirs = Ended(process.returncode or 0, said.decode(), complaint.decode())
    with pytest.MonkeyPatch.context() as patched:
        for name, value in environment.items():
            patched.setenv(name, value)
        return theirs, await command.alone(*words)


def in_job(server: Server, environment: dict[str, str]) -> dict[str, str]:
    return environment | {REQUEST_URL: f"{server.url}/issue?v=1", REQUEST_TOKEN: JOB}


@pytest.mark.parametrize(
    ("provider", "audience"), [("github", ""), ("forgejo", "fleet & more")], ids=["github", "named"]
)
async def test_the_token_of_a_job_is_asked_for_as_flux_asks(
    flux_program: Path,
    server: Server,
    environment: dict[str, str],
    provider: str,
    audience: str,
) -> None:
    job = in_job(server, environment)
    more = (f"--oidc-audience={audience}",) if audience else ()

    ended = await both(
        flux_program, server, job, "--type=generic-oidc", f"--oidc-provider={provider}", *more
    )

    assert [each.code for each in ended] == [0, 0], ended[1].err
    theirs, ours = map(asked_for, server.asked)
    assert theirs == ours
    assert ours["audience"] == (audience or "notification-controller")
    first, second = server.hooks
    assert first.path == second.path == senders.path(b"", "hook", "apps")
    assert first.authorization == second.authorization == "Bearer id-token"
    assert not any(secret in ended[1].err for secret in ("id-token", JOB))


def asked_for(seen: Seen) -> dict[str, str]:
    """Return the query, and the login, whose scheme has no case."""
    return {**URL(f"http://x{seen.path}").query, "token": seen.authorization.lower()}


async def test_a_token_in_the_environment_is_enough(
    flux_program: Path, server: Server, environment: dict[str, str]
) -> None:
    ended = await both(
        flux_program, server, environment | {VARIABLE: "given"}, "--type=generic-oidc"
    )

    assert [each.code for each in ended] == [0, 0], ended[1].err
    assert {each.authorization for each in server.hooks} == {"Bearer given"}


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--type=generic-oidc",), "wants a token of its issuer"),
        (("--type=generic-oidc", "--token=t"), "has no Secret"),
        (("--token=t", "--oidc-token=x"), "--oidc-token is for Receivers of the types"),
        (("--token=t", "--oidc-provider=github"), "--oidc-provider is for Receivers of the type"),
        (("--type=generic-oidc", "--oidc-audience=x"), "--oidc-audience needs --oidc-provider"),
        (
            ("--type=generic-oidc", "--oidc-provider=github", "--oidc-token=x"),
            "exclude each other",
        ),
        (("--type=generic-oidc", "--oidc-provider=github"), "permission `id-token: write`"),
        (("--type=generic-oidc", "--oidc-provider=gitlab"), "'gitlab' is not one of"),
    ],
)
async def test_what_does_not_fit_is_refused_by_both(
    flux_program: Path,
    server: Server,
    environment: dict[str, str],
    words: tuple[str, ...],
    told: str,
) -> None:
    ended = await both(flux_program, server, environment, *words)

    assert [each.code for each in ended] == [1, 1]
    assert told in ended[1].err
    assert not server.hooks


async def test_an_answer_without_a_token_is_told(
    flux_program: Path, server: Server, environment: dict[str, str]
) -> None:
    server.issued = {"error": "no"}

    ended = await both(
        flux_program,
        server,
        in_job(server, environment),
        "--type=generic-oidc",
        "--oidc-provider=github",
    )

    assert [each.code for each in ended] == [1, 1]
    assert "holds no identity token" in ended[1].err


@pytest.mark.parametrize(
    ("statuses", "retries", "code", "requests"),
    [
        ((404, 503), 2, 0, 3),
        ((429, 500), 1, 1, 2),
        ((404,), 0, 1, 1),
        ((400,), 5, 1, 1),
        ((403,), 5, 1, 1),
    ],
)
async def test_a_request_is_sent_again_as_often_as_flux_sends_it(  # noqa: PLR0917
    flux_program: Path,
    server: Server,
    environment: dict[str, str],
    statuses: tuple[int, ...],
    retries: int,
    code: int,
    requests: int,
) -> None:
    server.statuses = [*statuses, *[200] * (requests - len(statuses)), *statuses]

    ended = await both(
        flux_program,
        server,
        environment,
        "--token=t",
        f"--retries={retries}",
        "--retry-delay=1ms",
    )

    assert [each.code for each in ended] == [code, code], ended[1].err
    assert len(server.hooks) == 2 * requests
    assert ended[1].err.count("trying again") == requests - 1


async def test_nobody_at_the_address_is_told_after_the_last_try(
    server: Server, environment: dict[str, str]
) -> None:
    del environment
    async with serving(server.answer) as port:
        pass

    words = ("trigger", "receiver", "hook", "--token=t", f"--url=http://localhost:{port}")
    gone = await command.alone(*words, "--retries=1", "--retry-delay=1ms")
    late = await command.alone(*words, "--timeout=100ms")
    wrong = await command.alone(*words[:-1], "--url=hooks.example.com")

    assert (gone.code, late.code, wrong.code) == (1, 1, 1)
    assert gone.err.count("trying again") == 1
    assert "the request was not accepted" in gone.err
    assert "--timeout" in late.err
    assert "--address: 'hooks.example.com' is not an HTTP URL" in wrong.err


async def test_the_receivers_of_a_local_up_are_found(
    server: Server, environment: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    del environment  # no cluster
    monkeypatch.setenv(state.VARIABLE, str(tmp_path / "up"))
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(
        "{apiVersion: v1, kind: Config, current-context: a, "
        "contexts: [{name: a, context: {cluster: a, user: a}}], users: [{name: a, user: {}}], "
        "clusters: [{name: a, cluster: {server: 'http://127.0.0.1:1'}}]}"
    )
    record = state.Record(
        pid=os.getpid(),
        kubeconfig=str(kubeconfig),
        namespace="penstock-system",
        phase="ready",
        addresses={"receivers": server.url},
    )
    with state.exclusive(tmp_path / "up"):
        state.write(tmp_path / "up", record)
        ended = await command.alone(
            *("trigger", "receiver", "hook", "-n", "apps", "--token", "secret", "--retries", "0")
        )

    assert ended.code == 0, ended.err
    assert len(server.hooks) == 1
