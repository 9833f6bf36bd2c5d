"""What objects say once Penstock was uninstalled."""

import asyncio
from datetime import UTC, datetime
from typing import Any

from cli.installing import leaving
from tests.fakes.apiserver import FakeApiServer

NOW = datetime(2026, 1, 2, tzinfo=UTC)
OPEN = {"type": "Ready", "status": "Unknown", "reason": "Progressing", "message": "Running checks"}
WORK = {"type": "Reconciling", "status": "True", "reason": "Progressing", "message": "Running"}
DONE = {"type": "Ready", "status": "True", "reason": "Succeeded", "message": "Applied"}
HEALTHY = {"type": "Healthy", "status": "True"}


def conditions(*rows: dict[str, Any]) -> list[dict[str, Any]] | None:
    return leaving.settled({"status": {"conditions": [*rows]}}, NOW)


def test_work_in_progress_is_ended() -> None:
    found = conditions(OPEN, WORK, HEALTHY)

    assert found is not None
    ready, healthy = found
    assert (ready["status"], ready["reason"]) == ("False", "Uninstalled")
    assert "uninstalled" in ready["message"]
    assert ready["message"].endswith("Running checks")
    assert ready["lastTransitionTime"] == "2026-01-02T00:00:00Z"
    assert healthy == HEALTHY


def test_a_result_stays() -> None:
    assert conditions(DONE, HEALTHY) is None
    assert conditions() is None
    assert conditions(DONE, WORK) == [DONE]


def test_the_status_is_written_and_nothing_else() -> None:
    async def main() -> Any:
        server = FakeApiServer()
        server.put("gitrepositories", "web", spec={"url": "x"}, status={"conditions": [OPEN, WORK]})
        async with server.running() as api:
            for obj in [*server.objects.values()]:
                await leaving.settle(api, obj)
        return server.objects["gitrepositories", "default", "web"]

    obj = asyncio.run(main())

    assert obj["spec"] == {"url": "x"}
    assert [row["reason"] for row in obj["status"]["conditions"]] == ["Uninstalled"]
