"""An applier is asked once after the takeover, and must be as ready as it was."""

import asyncio
from collections.abc import Iterable
from dataclasses import replace

import pytest

from cli import session
from cli.check.subjects import Subject
from cli.errors import FailedError
from cli.migrating import verifying
from cli.migrating.survey import Survey, nothing
from tests.fakes.apiserver import FakeApiServer
from tests.tools.waiting import until
from toolkit.objects import Json

GROUP = "kustomize.toolkit.fluxcd.io"
REQUESTED = "reconcile.fluxcd.io/requestedAt"


def condition(status: str) -> list[Json]:
    return [{"type": "Ready", "status": status, "message": f"is {status}"}]


def server() -> FakeApiServer:
    made = FakeApiServer()
    made.kinds[GROUP, "v1", "kustomizations"] = "Kustomization"
    return made


def put(made: FakeApiServer, name: str, **body: Json) -> Subject:
    status = {"conditions": condition("True")}
    return Subject(obj=made.put("kustomizations", name, "apps", status=status, **body))


def seen(some: Iterable[Subject]) -> Survey:
    return replace(nothing("flux-system"), subjects=tuple(some))


def verified(made: FakeApiServer, survey: Survey, answers: dict[str, str], *unready: str) -> None:
    """Verify, while a controller answers what was asked with the status of each object."""

    async def answer(name: str) -> None:
        key = "kustomizations", "apps", name
        await until(lambda: REQUESTED in made.objects[key]["metadata"].get("annotations", {}))
        stamp = made.objects[key]["metadata"]["annotations"][REQUESTED]
        status = {"conditions": condition(answers[name]), "lastHandledReconcileAt": stamp}
        made.put("kustomizations", name, "apps", status=status)

    async def inside() -> None:
        async with made.running() as api, asyncio.TaskGroup() as group:
            for name in answers:
                group.create_task(answer(name))
            opened = session.Session(api=api, namespace="penstock-system", timeout=60)
            await verifying.verify(opened, survey, unready)

    asyncio.run(inside())


def test_what_is_ready_after_it_was_asked_is_taken_over() -> None:
    made = server()
    some = [put(made, "web"), put(made, "api")]

    verified(made, seen(some), {"web": "True", "api": "True"})


def test_what_is_not_ready_any_more_fails_with_its_message() -> None:
    made = server()
    some = [put(made, "web"), put(made, "api")]

    with pytest.raises(ExceptionGroup) as caught:
        verified(made, seen(some), {"web": "False", "api": "True"})

    (error,) = caught.value.exceptions
    assert isinstance(error, FailedError)
    assert "Kustomization/apps/web: is False" in str(error)
    assert "apps/api" not in str(error)
    assert "--rollback" in str(error)


def test_of_what_was_not_ready_before_nothing_is_asked() -> None:
    made = server()
    some = [put(made, "web")]

    verified(made, seen(some), {"web": "False"}, "Kustomization/apps/web")


def test_what_is_suspended_is_left_alone() -> None:
    made = server()
    some = [put(made, "web", spec={"suspend": True})]

    verified(made, seen(some), {})

    assert REQUESTED not in made.objects["kustomizations", "apps", "web"]["metadata"]


def test_what_is_not_ready_now_is_remembered() -> None:
    failing = Subject(
        obj={
            "apiVersion": f"{GROUP}/v1",
            "kind": "Kustomization",
            "metadata": {"name": "web", "namespace": "apps"},
            "status": {"conditions": condition("False")},
        }
    )

    assert verifying.unready(seen([failing, put(server(), "api")])) == ("Kustomization/apps/web",)
