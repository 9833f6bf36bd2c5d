"""Flux's controllers are stopped, and started with the replicas that they had."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from cli import session
from cli.errors import FailedError
from cli.migrating import stopping
from cli.migrating.survey import nothing
from tests.fakes import fluxinstallation
from tests.fakes.apiserver import FakeApiServer

FLUX = "flux-system"


def within(work: Callable[[session.Session], Awaitable[None]]) -> None:
    server = FakeApiServer()
    server.kinds["apps", "v1", "deployments"] = "Deployment"

    async def inside() -> None:
        async with server.running() as api:
            await work(session.Session(api=api, namespace="penstock-system", timeout=30))

    asyncio.run(inside())


def test_what_was_remembered_is_not_overwritten_by_what_was_stopped() -> None:
    parts = fluxinstallation.manifests()
    deployments = tuple(each for each in parts if each["kind"] == "Deployment")
    for each in deployments:
        each["spec"]["replicas"] = 0

    found = stopping.replicas(
        replace(nothing(FLUX), deployments=deployments), {"source-controller": 3}
    )

    assert found["source-controller"] == 3
    assert found["kustomize-controller"] == 1, "somebody had stopped it before"


def test_a_deployment_that_is_gone_has_nothing_to_stop() -> None:
    within(lambda opened: stopping.stop(opened, FLUX, ["source-controller"]))


def test_a_deployment_that_is_gone_cannot_be_started() -> None:
    async def work(opened: session.Session) -> None:
        with pytest.raises(FailedError, match="flux install"):
            await stopping.start(opened, FLUX, {"source-controller": 1})

    within(work)
