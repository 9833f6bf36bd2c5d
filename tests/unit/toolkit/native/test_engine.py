"""The engine answers through its ABI, in a worker and never in this process."""

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from toolkit.errors import StalledError
from toolkit.native import calls, library
from toolkit.native.engine import Engine
from toolkit.native.pool import WorkerDiedError, WorkerPool, WorkerTimeoutError

_REPOSITORY = Path(__file__).parents[4]

# A process that loaded Go must not be forked, and must not be this one.
_PROBE = """
import json, sys, threading, time
from pathlib import Path
from toolkit.native.engine import Engine
engine = Engine(Path(sys.argv[1]))
failures = [engine.call(op, request) for op, request in (
    ("no.such.operation", b"{}"), ("kustomize.build", b"not JSON"), ("substitute", b"[]"),
)]
ticks, calling = 0, True
def count():
    global ticks
    while calling:
        ticks += 1
        time.sleep(0)
thread = threading.Thread(target=count)
thread.start()
objects = [{"v": "${a}" * 2000} for _ in range(200)]
status, body = engine.call("substitute", json.dumps({"objects": objects}).encode())
calling = False
thread.join()
late, _ = engine.call("substitute", json.dumps({"objects": objects}).encode(), milliseconds=1)
print(json.dumps({
    "failures": [[int(status), json.loads(body)["code"]] for status, body in failures],
    "ok": int(status), "ticks": ticks, "late": int(late),
}))
"""


_RESIDENT = """
import sys
from pathlib import Path
from toolkit.native.engine import Engine
engine = Engine(Path(sys.argv[1]))
assert engine.call("substitute", b'{"objects": [{"v": "a"}]}')[0] == 0
size, resident, unwritten = 0, 0, False
for line in Path("/proc/self/smaps").read_text().splitlines():
    words = line.split()
    if not words[0].endswith(":"):
        ours = words[-1].endswith(".so") and Path(words[-1]).samefile(sys.argv[1])
        unwritten = ours and "w" not in words[1]
    elif unwritten and words[0] in ("Size:", "Rss:"):
        size += int(words[1]) * (words[0] == "Size:")
        resident += int(words[1]) * (words[0] == "Rss:")
print(resident / size)
"""


@pytest.fixture
async def pool(engine_library: Path) -> AsyncIterator[WorkerPool]:  # noqa: ARG001  # it must exist
    pool = calls.start(size=1)
    yield pool
    await pool.close()


@pytest.mark.skipif(sys.platform != "linux", reason="mappings are read from /proc")
def test_a_worker_keeps_no_pages_that_only_its_start_needed(engine_library: Path) -> None:
    path = library.with_helm(engine_library)

    done = subprocess.run(
        [sys.executable, "-c", _RESIDENT, path],
        cwd=_REPOSITORY,
        capture_output=True,
        check=True,
        text=True,
    )

    # The start alone reads three quarters.
    assert 0 < float(done.stdout) < 0.5


def test_the_abi_tells_how_a_call_ended(engine_library: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _PROBE, engine_library],
        cwd=_REPOSITORY,
        capture_output=True,
        check=True,
        timeout=60,
    )

    seen = json.loads(done.stdout)

    assert seen["failures"] == [[4, "BadCall"], [1, "Failed"], [1, "Failed"]]
    assert seen["ok"] == 0
    assert seen["ticks"] > 1, "the GIL was held during the call"
    assert seen["late"] == 2


def test_a_library_that_cannot_be_loaded_is_named(tmp_path: Path) -> None:
    with pytest.raises(StalledError, match=r"engine cannot be loaded: .*nothing\.so"):
        Engine(tmp_path / "nothing.so")


async def test_a_request_is_answered_by_a_worker(pool: WorkerPool) -> None:
    request = {"objects": [{"v": "${a}"}], "variables": {"a": "1"}}

    answer = await calls.call(pool, "substitute", request, timeout=60, flow="team")

    assert answer == {"objects": [{"v": 1}]}


async def test_a_failure_carries_code_and_detail(pool: WorkerPool) -> None:
    request = {"objects": [{}, {"v": "${a"}]}

    with pytest.raises(calls.EngineError, match="closing brace") as caught:
        await calls.call(pool, "substitute", request, timeout=60, flow="team")

    assert (caught.value.code, caught.value.detail) == ("SubstitutionFailed", {"index": 1})


async def test_the_engine_ends_a_late_call_by_itself(pool: WorkerPool) -> None:
    # Read in some milliseconds, and then looked at one by one for a good while.
    request = {"objects": [{"v": "${a}" * 100} for _ in range(2000)]}
    await calls.call(pool, "substitute", {}, timeout=60, flow="team")  # the worker has started

    with pytest.raises(WorkerTimeoutError, match=r"did not end within 0\.01s"):
        await calls.call(pool, "substitute", request, timeout=0.01, flow="team")

    assert len(pool._live) == 1, "the worker was killed for it"


async def test_a_worker_without_a_library_says_how_to_get_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PENSTOCK_ENGINE", str(tmp_path / "nothing.so"))
    pool = calls.start(size=1)

    with pytest.raises(WorkerDiedError, match=r"engine cannot be loaded: .*nothing\.so"):
        await calls.call(pool, "substitute", {}, timeout=60, flow="team")

    await pool.close()


def test_a_missing_library_names_the_command(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("PENSTOCK_ENGINE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    with pytest.raises(StalledError, match=r"python -m toolkit\.native\.build"):
        library.find()


async def test_many_callers_share_one_worker(pool: WorkerPool) -> None:
    async def ask(number: int) -> object:
        request = {"objects": [{"v": "${a}"}], "variables": {"a": str(number)}}
        return await calls.call(pool, "substitute", request, timeout=30, flow="team")

    answers = await asyncio.gather(*(ask(number) for number in range(100)))

    assert answers == [{"objects": [{"v": number}]} for number in range(100)]
