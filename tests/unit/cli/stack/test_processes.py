"""Real child processes: started again when they die, gone when they should be."""

import asyncio
import os
import re
import signal
import sys
import textwrap
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from cli import errors
from cli.stack import install
from cli.stack.liveness import Probe
from cli.stack.processes import ProcessSpec, SupervisedProcess, last_lines

SLEEPER = "import time; time.sleep(60)"
STUBBORN = """import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("deaf", flush=True)
time.sleep(60)"""


@asynccontextmanager
async def supervised(
    tmp_path: Path, program: str, reports: list[str] | None = None
) -> AsyncIterator[SupervisedProcess]:
    spec = ProcessSpec(
        name="child",
        argv=(sys.executable, "-c", program),
        env=dict(os.environ),
        log=tmp_path / "child.log",
        health="",
    )
    process = SupervisedProcess(spec, report=(reports if reports is not None else []).append)
    async with asyncio.timeout(90), asyncio.TaskGroup() as group:
        task = group.create_task(process.run())
        try:
            yield process
        finally:
            await process.stop(grace=5)
            await task


ANSWERING = """import http.server, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        print("asked", flush=True)
    def log_message(self, *_): pass
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()"""


@pytest.mark.parametrize("program", [ANSWERING, ANSWERING.replace("(200)", "(500)")])
async def test_process_that_does_not_answer_is_started_again_and_that_is_told(
    tmp_path: Path, unused_tcp_port: int, program: str
) -> None:
    """One is frozen once it has answered, the other never says that it is well."""
    reports: list[str] = []
    healthy = program == ANSWERING
    startup = 60 if healthy else 0.1
    spec = ProcessSpec(
        name="child",
        argv=(sys.executable, "-c", program, str(unused_tcp_port)),
        env=dict(os.environ),
        log=tmp_path / "child.log",
        health=f"http://127.0.0.1:{unused_tcp_port}",
        probe=Probe(period=0.05, timeout=1, failures=2, startup=startup),
    )
    process = SupervisedProcess(spec, report=reports.append)
    async with asyncio.timeout(90), asyncio.TaskGroup() as group:
        task = group.create_task(process.run())
        if healthy:
            # Twice: the answer to the first has been read when the second is asked.
            await until(lambda: last_lines(spec.log).count("asked") >= 2)
            process.kill(signal.SIGSTOP)
        await until(lambda: process.starts >= 2)
        await process.stop(grace=5)
        await task

    assert re.match(r"child did not answer /healthz .*, ending it", reports[0])
    assert "child was ended by SIGKILL" in reports[1]


async def until(condition: Callable[[], object]) -> None:
    while not condition():  # noqa: ASYNC110 -- the kernel tells nobody
        await asyncio.sleep(0.01)


def alive(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:  # there is none, or not any more
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


async def test_killed_process_is_started_again_and_that_is_told(tmp_path: Path) -> None:
    reports: list[str] = []
    async with supervised(tmp_path, SLEEPER, reports) as process:
        await until(lambda: process.pid)
        first = process.pid

        process.kill(signal.SIGKILL)
        await until(lambda: process.pid not in (None, first))

        assert process.starts == 2
        assert "child was ended by SIGKILL" in reports[0]


async def test_stopped_process_stays_down(tmp_path: Path) -> None:
    async with supervised(tmp_path, SLEEPER) as process:
        await until(lambda: process.pid)

        await process.stop()

        assert process.pid is None
        assert process.starts == 1


async def test_process_that_ignores_sigterm_is_killed(tmp_path: Path) -> None:
    reports: list[str] = []
    async with supervised(tmp_path, STUBBORN, reports) as process:
        await until(lambda: "deaf" in last_lines(tmp_path / "child.log"))

        await process.stop(grace=0.1)

        assert process.pid is None
        assert "did not stop" in reports[0]


async def test_stop_during_the_back_off_ends_it(tmp_path: Path) -> None:
    reports: list[str] = []
    async with supervised(tmp_path, "raise SystemExit(3)", reports) as process:
        await until(lambda: reports)

        await process.stop()

        assert "exited with code 3" in reports[0]


async def test_grandchildren_do_not_survive(tmp_path: Path) -> None:
    parent = f"import subprocess, sys; p = subprocess.Popen([sys.executable, '-c', {SLEEPER!r}]);"
    parent += "print(p.pid, flush=True); p.wait()"
    async with supervised(tmp_path, parent) as process:
        await until(lambda: last_lines(tmp_path / "child.log").strip())
        grandchild = int(last_lines(tmp_path / "child.log"))
        assert alive(grandchild)

        await process.stop()
        await until(lambda: not alive(grandchild))


async def test_process_ends_with_its_supervisor_however_that_ends(tmp_path: Path) -> None:
    program = textwrap.dedent(
        f"""
        import asyncio, os, sys, pathlib
        from cli.stack.processes import ProcessSpec, SupervisedProcess

        async def main():
            spec = ProcessSpec(
                name="child", argv=(sys.executable, "-c", {SLEEPER!r}), env=dict(os.environ),
                log=pathlib.Path({str(tmp_path / "child.log")!r}), health="",
            )
            process = SupervisedProcess(spec, report=print)
            task = asyncio.create_task(process.run())
            while not process.pid:
                await asyncio.sleep(0.01)
            print(process.pid, flush=True)
            await task

        asyncio.run(main())
        """
    )
    supervisor = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", program),
        env={**os.environ, "PYTHONPATH": str(install.ROOT)},
        stdout=asyncio.subprocess.PIPE,
    )
    assert supervisor.stdout is not None
    child = int(await supervisor.stdout.readline())
    assert alive(child)

    supervisor.kill()
    await supervisor.wait()

    async with asyncio.timeout(60):
        await until(lambda: not alive(child))


def test_end_of_a_log_is_short(tmp_path: Path) -> None:
    log = tmp_path / "x.log"
    log.write_text("\n".join(str(n) for n in range(10_000)))

    assert last_lines(log, 2) == "9998\n9999"
    assert last_lines(tmp_path / "missing.log") == ""


async def test_process_that_takes_its_flags_for_wrong_is_told_and_not_started_again(
    tmp_path: Path, unused_tcp_port: int
) -> None:
    reports: list[str] = []
    program = "import sys; print('usage: it'); print('it: error: bad flag'); sys.exit(2)"
    spec = ProcessSpec(
        name="child",
        argv=(sys.executable, "-c", program),
        env=dict(os.environ),
        log=tmp_path / "child.log",
        health=f"http://127.0.0.1:{unused_tcp_port}",
    )
    process = SupervisedProcess(spec, report=reports.append)

    async with asyncio.timeout(90), aiohttp.ClientSession() as session:
        await process.run()
        with pytest.raises(errors.FailedError, match=r"^child: it: error: bad flag$"):
            await process.wait_ready(session)

    assert (process.starts, reports) == (1, [])
