"""An object that was stored under another definition gets a condition from a real API server."""

import asyncio
import contextlib
import dataclasses
from collections.abc import AsyncIterator

import pytest_asyncio

import crds
from crds import manifest
from crds.notification import Alert
from tests.tools.waiting import until
from toolkit.events import Recorder
from toolkit.kube.client import Client
from toolkit.kube.controller import Controller, ControllerOptions, Outcome, Reconciliation
from toolkit.kube.errors import ApiError
from toolkit.objects import GroupVersionKind, Json

GROUP = "undecoded.tests.penstock.dev"
KIND = dataclasses.replace(crds.ALERT, group=GROUP, older=(), categories=())
GVK = GroupVersionKind(*KIND.gvk)
DEFINITION = GroupVersionKind("apiextensions.k8s.io", "v1", "CustomResourceDefinition")
EVENT = GroupVersionKind("", "v1", "Event")
SELECTED = [{"kind": "FluxInstance", "name": "*"}]


async def _defined(client: Client, definition: Json) -> None:
    await client.apply(definition, manager="test", force=True)


@pytest_asyncio.fixture
async def stored(client: Client, namespace: str) -> AsyncIterator[Json]:
    """Store an Alert that selects a kind that nobody has, and then define Alerts as we do."""
    ours = manifest.definition(KIND, release="v1")
    loose = manifest.definition(KIND, release="v1")
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    loose["spec"]["versions"][0]["schema"] = {"openAPIV3Schema": anything}
    sources = [{"kind": "Unknown", "name": "*"}]
    alert = {
        "apiVersion": KIND.api_version,
        "kind": "Alert",
        "metadata": {"name": "others", "namespace": namespace},
        "spec": {"providerRef": {"name": "chat"}, "eventSources": sources},
    }
    await _defined(client, loose)

    async def created() -> bool:
        client.mapper.invalidate()
        with contextlib.suppress(ApiError):
            return bool(await client.create(alert))
        return False

    async def refused() -> bool:
        another = {**alert, "metadata": {"name": "another", "namespace": namespace}}
        try:
            await client.apply(another, manager="test", dry_run=True)
        except ApiError as error:
            return "Unsupported value" in str(error)
        return False

    try:
        await until(created)
        await _defined(client, ours)
        await until(refused)
        yield alert
    finally:
        await client.delete(DEFINITION, KIND.crd_name)


async def _never(_: Reconciliation[Alert]) -> Outcome:
    raise AssertionError


async def _nothing(_: Reconciliation[Alert]) -> None:
    return None


async def test_object_under_an_older_definition_is_reported_and_then_works(
    client: Client, stored: Json
) -> None:
    metadata = stored["metadata"]
    recorder = Recorder(client, controller="notification-controller")
    controller = Controller(
        kind=KIND,
        client=client,
        reconcile=_never,
        finalize=_nothing,
        options=ControllerOptions(namespace=metadata["namespace"], grace=5),
        recorder=recorder,
        field_manager="gotk-notification-controller",
        static=lambda _: True,
    )
    runs = (controller.informer.run, recorder.run, controller.run)
    tasks = [asyncio.create_task(run()) for run in runs]

    async def conditions() -> dict[str, Json]:
        live = await client.get(GVK, metadata["name"], metadata["namespace"])
        return {row["type"]: row for row in live.get("status", {}).get("conditions", ())}

    async def reported() -> bool:
        return "Ready" in await conditions()

    async def told() -> list[str]:
        events = await client.list(EVENT, metadata["namespace"])
        return [each["message"] for each in events if each["reason"] == "ValidationFailed"]

    try:
        await until(reported)
        rows = await conditions()
        (message,) = await until(told)
        fixed = {**stored, "spec": {**stored["spec"], "eventSources": SELECTED}}
        await client.apply(fixed, manager="test", force=True)

        async def forgotten() -> bool:
            return not await conditions()

        await until(forgotten)
    finally:
        await controller.stop()
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)

    assert {name: row["status"] for name, row in rows.items()} == {
        "Ready": "False",
        "Stalled": "True",
    }
    assert "spec.eventSources[0].kind 'Unknown'" in message
