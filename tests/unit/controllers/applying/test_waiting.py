"""Whose health may be awaited, and how a wait that failed reads."""

import asyncio
from collections.abc import Sequence

import pytest

from controllers.applying import waiting
from controllers.applying.waiting import HealthCheckError
from tests.fakes.apiserver import Failure, FakeApiServer
from toolkit.apply.health import Health, Status
from toolkit.apply.wait import Verdict
from toolkit.objects import GroupVersionKind, ObjectRef

CONFIG_MAP = GroupVersionKind("", "v1", "ConfigMap")
OWN = ObjectRef(CONFIG_MAP, "team", "own")
FOREIGN = ObjectRef(CONFIG_MAP, "other", "foreign")


def require_access(
    server: FakeApiServer, awaited: Sequence[ObjectRef], applied: Sequence[ObjectRef]
) -> list[str]:
    """Return the paths that were asked for."""

    async def main() -> None:
        async with server.running() as api:
            await waiting.require_access(api, awaited, applied)

    asyncio.run(main())
    return [path for method, path, _ in server.requests if "configmaps" in path]


def test_what_was_applied_is_not_asked_for_again() -> None:
    assert require_access(FakeApiServer(), [OWN], [OWN]) == []


def test_what_does_not_exist_yet_may_be_awaited() -> None:
    asked = require_access(FakeApiServer(), [OWN, FOREIGN], [OWN])

    assert asked == ["/api/v1/namespaces/other/configmaps/foreign"]


def test_what_may_not_be_read_is_not_awaited() -> None:
    server = FakeApiServer()
    server.put("configmaps", "foreign", "other")
    server.failures.append(Failure(method="GET", fragment="foreign", status=403))

    with pytest.raises(HealthCheckError, match="health check of ConfigMap/other/foreign: "):
        require_access(server, [FOREIGN], [])


@pytest.mark.parametrize(
    ("state", "health", "text"),
    [
        (
            "timeout",
            Status.IN_PROGRESS,
            "timeout waiting for: [ConfigMap/team/own status: 'InProgress'",
        ),
        (
            "failed",
            Status.FAILED,
            "failed early due to stalled resources: [ConfigMap/team/own status: 'Failed'",
        ),
    ],
)
def test_a_failed_wait_reads_as_in_flux(state: str, health: Status, text: str) -> None:
    verdict = Verdict(
        state=state,  # type: ignore[arg-type]  # one of its literals
        pending=((OWN, Health(health, "why")),),
        seconds=1,
    )

    assert waiting.told(verdict).startswith(text)
