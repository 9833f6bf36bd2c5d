"""What is made of a worker's answers, which a tenant's templates may have had a hand in."""

import asyncio
import json
import struct
from typing import Any

import pytest

from toolkit.helm import actions
from toolkit.helm.actions import Order, Outcome, Release
from toolkit.native.calls import EngineError
from toolkit.native.engine import Status
from toolkit.native.pool import WorkerStuckError, WorkerTimeoutError
from toolkit.native.questions import Ask
from toolkit.release.record import RecordError

RECORD = {"name": "app", "version": 2, "info": {"status": "failed"}}
FAILED = {
    "code": "RenderFailed",
    "message": "a template failed",
    "detail": {"answer": {"records": [RECORD]}, "file": "templates/a.yaml", "line": 3},
}


class Pool:
    """Workers that all answer the same, or fail."""

    def __init__(self, answer: bytes | Exception) -> None:
        self.answer = answer

    async def call(self, *_: Any, **__: Any) -> bytes:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


class Hanging:
    """A worker that answers when it is asked to end, or never."""

    def __init__(self, *, ends: bool) -> None:
        self.ends = ends
        self.begun = asyncio.Event()
        self.told: list[bytes] = []
        self.stopped = False

    async def call(self, *_: Any, answering: Any, **__: Any) -> bytes:
        asked = asyncio.Event()

        def tell(frames: bytes) -> None:
            self.told.append(frames)
            if self.ends:
                asked.set()

        answering.begin(tell, None)
        answering.asked(struct.pack("<BI", Ask.DROP, 1))
        self.begun.set()
        try:
            await asked.wait()
        except asyncio.CancelledError:
            self.stopped = True
            raise
        return answer(Status.CANCELLED, {"code": "Cancelled", "message": "ended"})


def answer(status: Status, body: Any) -> bytes:
    return bytes([status]) + json.dumps(body).encode()


async def run(pool: Any) -> Outcome:
    unused: Any = None
    release = Release(
        cluster="test",
        name="app",
        namespace="team",
        storage_namespace="team",
        acting=unused,
        keeping=unused,
        flow="team",
    )
    return await actions.run(pool, release, Order(action="upgrade", timeout=5, manager="us"))


async def fails(found: bytes | Exception) -> EngineError:
    with pytest.raises(EngineError) as caught:
        await run(Pool(found))
    return caught.value


async def test_records_come_from_an_answer() -> None:
    outcome = await run(Pool(answer(Status.OK, {"records": [RECORD], "log": None})))

    assert [(each.version, each.info.status) for each in outcome.records] == [(2, "failed")]
    assert outcome.log == ()


async def test_failure_tells_what_was_done_until_then_and_where_it_happened() -> None:
    error = await fails(answer(Status.FAILED, FAILED))

    assert (str(error), error.code) == ("a template failed", "RenderFailed")
    assert error.detail == {"file": "templates/a.yaml", "line": 3}
    assert [each.version for each in error.outcome.records] == [2]


@pytest.mark.parametrize("status", [Status.PANICKED, Status.BAD_CALL])
async def test_failure_of_the_engine_itself_has_no_outcome(status: Status) -> None:
    error = await fails(answer(status, {"code": "Panic", "message": "x", "detail": "a stack"}))

    assert error.code == "Panic"
    assert error.outcome == Outcome()


@pytest.mark.parametrize(
    "found",
    [
        b"",
        b"\xff{}",
        b"\x00{",
        answer(Status.OK, {"objects": "x"}),
        answer(Status.OK, []),
        answer(Status.FAILED, {"message": "no code"}),
        answer(Status.FAILED, {**FAILED, "detail": {"line": "x"}}),
        answer(Status.FAILED, {**FAILED, "detail": {"answer": {"records": "x"}}}),
        b'\x00{"objects":' + b"[" * 100_000,
    ],
)
async def test_answer_that_cannot_be_read_is_refused(found: bytes) -> None:
    error = await fails(found)

    assert (str(error), error.code) == ("the answer of helm.upgrade cannot be read", "Malformed")


async def test_record_that_cannot_be_read_is_told_as_such() -> None:
    with pytest.raises(RecordError, match="record of the release in Helm's storage"):
        await run(Pool(answer(Status.OK, {"records": [{"name": 1}]})))


async def test_action_that_was_ended_is_told() -> None:
    ended = answer(Status.CANCELLED, {"code": "Cancelled", "message": "ended"})

    with pytest.raises(WorkerTimeoutError, match=r"^helm\.upgrade was ended$"):
        await run(Pool(ended))


async def test_templates_without_an_end_are_told_apart() -> None:
    error = await fails(WorkerStuckError("the templates of the chart did not end"))

    assert error.code == "RenderTimeout"
    assert str(error) == "the templates of the chart did not end"
    assert error.outcome == Outcome()


async def test_cancelled_action_is_asked_to_end_and_is_waited_for() -> None:
    worker = Hanging(ends=True)
    task = asyncio.create_task(run(worker))
    await worker.begun.wait()

    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert len(worker.told) == 1
    assert not worker.stopped
