"""Workers are killed, die and answer; the pool stays of use."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from toolkit.errors import PenstockError, StalledError, WaitingError
from toolkit.native import frames, relayed
from toolkit.native import pool as pools
from toolkit.native.kind import WorkerKind

_KIND = WorkerKind(module="tests.unit.toolkit.native.hostileworker", memory_limit=256 << 20)


@pytest.fixture
async def pool(tmp_path: Path) -> AsyncIterator[pools.WorkerPool]:
    pool = pools.WorkerPool(_KIND, size=1, writes=(tmp_path,))
    yield pool
    await pool.close()


async def _pid(pool: pools.WorkerPool) -> int:
    return int((await pool.call("identity", b"", timeout=60, flow="team")).split()[0])


def _is_running(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:  # there is none, or not any more
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


async def _until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110  # another process will not set an event here
            await asyncio.sleep(0.01)


async def _until_gone(pid: int) -> None:
    await _until(lambda: not _is_running(pid))


async def _until_marked(path: Path) -> int:
    await _until(lambda: path.exists() and path.read_text().endswith("\n"))
    return int(path.read_bytes())  # noqa: ASYNC240  # a few bytes


async def test_an_answer_comes_back_whole(pool: pools.WorkerPool) -> None:
    payload = os.urandom(3 << 20)

    answer = await pool.call("echo", payload, timeout=60, flow="team")

    assert answer == payload


async def test_an_answer_of_tens_of_mebibytes_is_fine(pool: pools.WorkerPool) -> None:
    answer = await pool.call("enlarge", str(48 << 20).encode(), timeout=60, flow="team")

    assert len(answer) == 48 << 20


async def test_one_worker_serves_many_calls(pool: pools.WorkerPool) -> None:
    pids = {await _pid(pool) for _ in range(5)}

    assert len(pids) == 1


async def test_no_more_workers_start_than_the_size_allows() -> None:
    pool = pools.WorkerPool(_KIND, size=2)

    pids = await asyncio.gather(*(_pid(pool) for _ in range(20)))

    assert len(set(pids)) <= 2
    await pool.close()


async def test_operations_of_one_namespace_hold_up_no_other() -> None:
    pool = pools.WorkerPool(replace(_KIND, starting=0), size=2)
    async with asyncio.TaskGroup() as group:
        builds = [
            group.create_task(pool.call("sleep", b"120", flow="evil", timeout=120))
            for _ in range(12)
        ]
        await asyncio.sleep(0)

        answer = await pool.call("echo", b"built", flow="good", timeout=60)

        assert answer == b"built"
        assert not any(build.done() for build in builds)
        for build in builds:
            build.cancel()
    await pool.close()


async def test_operation_for_which_no_worker_is_free_is_not_blamed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pool = pools.WorkerPool(_KIND, size=1)
    monkeypatch.setattr(pools, "QUEUE_SECONDS", 0.0)
    busy = asyncio.create_task(pool.call("sleep", b"120", flow="evil", timeout=120))
    await asyncio.sleep(0)

    with pytest.raises(pools.WorkersBusyError, match=r"^echo was not started: no worker was free"):
        await pool.call("echo", b"", flow="evil", timeout=60)

    busy.cancel()
    await pool.close()


async def test_short_calls_that_come_together_share_a_worker() -> None:
    pool = pools.WorkerPool(replace(_KIND, patience=60), size=2)
    first = await _pid(pool)

    pids = await asyncio.gather(*(_pid(pool) for _ in range(4)))

    assert set(pids) == {first}
    await pool.close()


async def test_short_calls_wait_for_the_worker_that_starts() -> None:
    pool = pools.WorkerPool(replace(_KIND, patience=60, starting=60), size=2)

    pids = await asyncio.gather(*(_pid(pool) for _ in range(4)))

    assert len(set(pids)) == 1
    await pool.close()


async def test_call_that_the_first_operation_holds_up_has_another_one_started(
    tmp_path: Path,
) -> None:
    pool = pools.WorkerPool(replace(_KIND, patience=60, starting=0), size=2, writes=(tmp_path,))
    busy = asyncio.create_task(
        pool.call("mark", str(tmp_path / "mark").encode(), timeout=60, flow="team")
    )
    await _until_marked(tmp_path / "mark")

    await _pid(pool)

    busy.cancel()
    await asyncio.gather(busy, return_exceptions=True)
    await pool.close()


async def test_call_that_a_busy_worker_holds_up_has_another_one_started(tmp_path: Path) -> None:
    pool = pools.WorkerPool(replace(_KIND, patience=0), size=2, writes=(tmp_path,))
    first = await _pid(pool)
    busy = asyncio.create_task(
        pool.call("mark", str(tmp_path / "mark").encode(), timeout=60, flow="team")
    )
    await _until_marked(tmp_path / "mark")

    assert await _pid(pool) != first

    busy.cancel()
    await asyncio.gather(busy, return_exceptions=True)
    await pool.close()


async def test_callers_are_served_in_order(pool: pools.WorkerPool) -> None:
    served = []

    async def ask(number: int) -> None:
        await pool.call("echo", b"", timeout=60, flow="team")
        served.append(number)

    async with asyncio.TaskGroup() as group:
        for number in range(10):
            group.create_task(ask(number))

    assert served == list(range(10))


async def test_waiting_in_the_queue_does_not_count(pool: pools.WorkerPool) -> None:
    await _pid(pool)  # so that no time goes for a start
    first = asyncio.create_task(pool.call("sleep", b"2.2", timeout=60, flow="team"))
    await asyncio.sleep(0)

    answer = await pool.call("echo", b"late", timeout=2, flow="team")

    assert answer == b"late"
    await first


async def test_printing_does_not_damage_an_answer(pool: pools.WorkerPool) -> None:
    assert await pool.call("print", b"clean", timeout=60, flow="team") == b"clean"


async def test_an_operation_cannot_read_the_next_request(pool: pools.WorkerPool) -> None:
    assert await pool.call("stdin", b"", timeout=60, flow="team") == b""


async def test_a_worker_has_its_own_session(pool: pools.WorkerPool) -> None:
    pid, session = (await pool.call("identity", b"", timeout=60, flow="team")).split()

    assert pid == session


async def test_a_late_worker_is_killed_and_replaced(pool: pools.WorkerPool) -> None:
    before = await _pid(pool)

    with pytest.raises(pools.WorkerTimeoutError, match=r"sleep did not end within 0\.2s"):
        await pool.call("sleep", b"60", timeout=0.2, flow="team")

    await _until_gone(before)
    assert await _pid(pool) != before


async def test_cancelling_the_caller_kills_the_worker(
    pool: pools.WorkerPool, tmp_path: Path
) -> None:
    mark = tmp_path / "mark"
    task = asyncio.create_task(pool.call("mark", str(mark).encode(), timeout=60, flow="team"))
    pid = await _until_marked(mark)

    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task
    await _until_gone(pid)
    assert await pool.call("echo", b"still here", timeout=60, flow="team") == b"still here"


async def test_cancelling_while_a_worker_starts_leaves_nothing(pool: pools.WorkerPool) -> None:
    for turns in range(12):
        task = asyncio.create_task(pool.call("sleep", b"60", timeout=60, flow="team"))
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    assert await pool.call("echo", b"x", timeout=60, flow="team") == b"x"


async def test_cancelling_in_the_middle_of_a_large_answer_leaves_nothing(
    pool: pools.WorkerPool,
) -> None:
    for delay in (0.01, 0.02, 0.04, 0.08):
        task = asyncio.create_task(
            pool.call("enlarge", str(64 << 20).encode(), timeout=60, flow="team")
        )
        await asyncio.sleep(delay)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    assert await pool.call("echo", b"x", timeout=60, flow="team") == b"x"


async def test_an_answer_that_nobody_could_hold_is_not_believed() -> None:
    pool = pools.WorkerPool(replace(_KIND, memory_limit=1 << 30), size=1)

    with pytest.raises(pools.WorkerDiedError, match="its answer has 257 MiB"):
        await pool.call("enlarge", str(257 << 20).encode(), timeout=60, flow="team")

    await pool.close()


async def test_a_kind_bounds_its_answers() -> None:
    pool = pools.WorkerPool(replace(_KIND, answer_limit=1 << 20), size=1)

    with pytest.raises(pools.WorkerDiedError, match="its answer has 2 MiB"):
        await pool.call("enlarge", str(2 << 20).encode(), timeout=60, flow="team")

    await pool.close()


@pytest.mark.parametrize(
    "said",
    [
        pytest.param(frames.ANSWER.pack(7, 0), id="no status"),
        pytest.param(frames.ANSWER.pack(0, 1) + b"two bodies", id="more than announced"),
    ],
)
async def test_a_malformed_answer_ends_its_worker_at_once(
    pool: pools.WorkerPool, said: bytes
) -> None:
    pid = await _pid(pool)

    with pytest.raises(pools.WorkerDiedError, match="its answer is malformed"):
        await pool.call("say", said, timeout=60, flow="team")

    assert await _pid(pool) != pid


async def test_a_worker_that_speaks_without_being_asked_is_ended(
    pool: pools.WorkerPool, tmp_path: Path
) -> None:
    pid, sign = await _pid(pool), tmp_path / "sign"
    await pool.call("say later", str(sign).encode(), timeout=60, flow="team")

    sign.touch()

    await _until_gone(pid)
    assert await _pid(pool) != pid


@pytest.mark.parametrize(
    "body",
    [
        *(b"", b"[" * 100_000, b"{}", b'{"classes": [], "message": 1, "attributes": {}}'),
        b'{"classes": 1, "message": "", "attributes": {}}',
        b'{"classes": [], "message": "", "attributes": {"a": {}}}',
    ],
)
def test_a_failure_that_cannot_be_read_is_a_failure(body: bytes) -> None:
    assert type(relayed.decode_error(body)) is frames.OperationError


@pytest.mark.parametrize("reason", ["", "a b", "x" * 1000, "line\n", None, 1])
def test_a_worker_chooses_no_reason_that_no_condition_can_have(reason: object) -> None:
    attributes = {"reason": reason, "with_traceback": 1, "retry_after": 2}
    told = {"classes": ["toolkit.errors:WaitingError"], "message": "m", "attributes": attributes}

    error = relayed.decode_error(json.dumps(told).encode())

    assert isinstance(error, WaitingError)
    assert (error.reason, error.retry_after) == ("DependencyNotReady", 2)
    assert callable(error.with_traceback)


async def test_cancelling_a_waiting_caller_disturbs_nobody(pool: pools.WorkerPool) -> None:
    before = await _pid(pool)
    running = asyncio.create_task(pool.call("sleep", b"0.3", timeout=60, flow="team"))
    await asyncio.sleep(0.05)
    waiting = asyncio.create_task(pool.call("echo", b"", timeout=60, flow="team"))
    await asyncio.sleep(0)

    waiting.cancel()

    assert await running == b"slept"
    assert await _pid(pool) == before


async def test_too_much_memory_is_said_so(pool: pools.WorkerPool) -> None:
    with pytest.raises(pools.WorkerMemoryError, match=r"eat needed more memory .* \(256 MiB\)"):
        await pool.call("eat", b"", timeout=60, flow="team")

    assert await pool.call("echo", b"next", timeout=60, flow="team") == b"next"


@pytest.mark.parametrize(
    "said",
    [
        "fatal error: runtime: out of memory",
        "runtime/cgo: pthread_create failed: Resource temporarily unavailable",
        # Go 1.26, mgcmark_greenteagc.go newSpanSPMC: nil is used as a queue of the collector
        "SIGSEGV: segmentation violation\n\nruntime.(*spanQueue).tryDrain(0x7f, 0x7f, 0x8)",
    ],
)
async def test_every_end_of_go_for_want_of_memory_is_said_so(
    said: str, pool: pools.WorkerPool
) -> None:
    with pytest.raises(pools.WorkerMemoryError, match="die needed more memory"):
        await pool.call("die", said.encode(), timeout=60, flow="team")


async def test_a_crash_tells_the_workers_last_words(pool: pools.WorkerPool) -> None:
    with pytest.raises(pools.WorkerDiedError, match=r"exit status 3: the disk is on fire"):
        await pool.call("exit", b"3", timeout=60, flow="team")


async def test_first_and_last_words_survive_a_lot_of_noise(
    pool: pools.WorkerPool, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(pools.WorkerDiedError, match="exit status 9: last words"):
        await pool.call("chatter", b"200000", timeout=60, flow="team")

    (record,) = (record for record in caplog.records if record.msg == "worker died")
    assert "last words" in vars(record)["output"]
    assert len(vars(record)["output"]) <= 4000


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGABRT, signal.SIGSEGV])
async def test_a_signal_is_named(pool: pools.WorkerPool, number: signal.Signals) -> None:
    with pytest.raises(pools.WorkerDiedError, match=f"worker of kill was ended: signal {number:d}"):
        await pool.call("kill", str(int(number)).encode(), timeout=60, flow="team")


async def test_a_worker_that_died_idle_is_not_used_again(pool: pools.WorkerPool) -> None:
    pid = await _pid(pool)

    os.kill(pid, signal.SIGKILL)
    await _until(lambda: not pool._live)

    assert await _pid(pool) != pid


async def test_errors_keep_their_class_reason_and_message(pool: pools.WorkerPool) -> None:
    with pytest.raises(StalledError, match="bad url") as stalled:
        await pool.call("stall", b"bad url", timeout=60, flow="team")
    with pytest.raises(WaitingError) as waiting:
        await pool.call("wait", b"", timeout=60, flow="team")

    assert stalled.value.reason == "InvalidURL"
    assert (waiting.value.reason, waiting.value.retry_after) == ("DependencyNotReady", 7.5)


async def test_an_error_unknown_to_the_parent_arrives_as_its_base(pool: pools.WorkerPool) -> None:
    with pytest.raises(StalledError, match="private trouble") as caught:
        await pool.call("subclass", b"", timeout=60, flow="team")

    assert type(caught.value) is StalledError


async def test_an_unforeseen_exception_is_an_operation_error_with_its_trace_in_the_log(
    pool: pools.WorkerPool, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(pools.OperationError, match="plain failed: ValueError: no such thing"):
        await pool.call("plain", b"", timeout=60, flow="team")

    (record,) = caplog.records
    assert "in _plain" in vars(record)["trace"]


async def test_an_error_leaves_the_worker_alive(pool: pools.WorkerPool) -> None:
    before = await _pid(pool)

    with pytest.raises(PenstockError, match="just so"):
        await pool.call("base", b"", timeout=60, flow="team")

    assert await _pid(pool) == before


async def test_a_module_that_cannot_start_says_why() -> None:
    pool = pools.WorkerPool(replace(_KIND, module="tests.unit.toolkit.native.missing"), size=1)

    with pytest.raises(pools.WorkerDiedError, match="No module named"):
        await pool.call("echo", b"", timeout=60, flow="team")

    await pool.close()


async def test_closing_ends_workers_and_calls(tmp_path: Path) -> None:
    pool = pools.WorkerPool(_KIND, size=2, writes=(tmp_path,))
    idle = await _pid(pool)
    mark = tmp_path / "mark"
    task = asyncio.create_task(pool.call("mark", str(mark).encode(), timeout=60, flow="team"))
    busy = await _until_marked(mark)

    await pool.close()

    with pytest.raises(pools.WorkerDiedError, match="is closed"):
        await task
    assert not _is_running(idle)
    assert not _is_running(busy)
    with pytest.raises(pools.WorkerDiedError, match="is closed"):
        await pool.call("echo", b"", timeout=60, flow="team")


async def test_closing_twice_is_fine_and_silent(
    pool: pools.WorkerPool, caplog: pytest.LogCaptureFixture
) -> None:
    await _pid(pool)

    await pool.close()
    await pool.close()

    assert not caplog.records


_PARENT = """
import asyncio, sys
from pathlib import Path
from toolkit.native.kind import WorkerKind
from toolkit.native.pool import WorkerPool

async def main():
    kind = WorkerKind(module=sys.argv[1], memory_limit=1 << 28)
    pool = WorkerPool(kind, size=1, writes=(Path(sys.argv[2]).parent,))
    await pool.call("mark", sys.argv[2].encode(), flow="team", timeout=60)

asyncio.run(main())
"""


async def test_a_busy_worker_dies_with_its_parent(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    path = os.pathsep.join(entry for entry in sys.path if entry)
    with subprocess.Popen(  # noqa: ASYNC220
        [sys.executable, "-c", _PARENT, _KIND.module, str(mark)],
        env={**os.environ, "PYTHONPATH": path},
    ) as parent:
        worker = await _until_marked(mark)

        parent.kill()

    await _until_gone(worker)
