"""A policy that was stored under another definition refuses, also by a gate that starts anew."""

import contextlib
from collections.abc import AsyncIterator

import pytest_asyncio

import crds
from certs.injection import DEFINITION
from tests.contract.webhooks.conftest import Gate
from tests.contract.webhooks.tenants import SOURCE_POLICY, Tenant
from toolkit.kube.client import Client
from toolkit.kube.errors import ApiError, NotFoundError
from toolkit.objects import Json

NAME = crds.SOURCE_POLICY.crd_name


async def _schemas(client: Client, schemas: list[Json]) -> None:
    """Give the versions of the definition these schemas."""
    body = [
        {"op": "replace", "path": f"/spec/versions/{number}/schema", "value": schema}
        for number, schema in enumerate(schemas)
    ]
    await client.patch(DEFINITION, NAME, "", body, strategy="json", manager="test")


@pytest_asyncio.fixture
async def stored(gate: Gate, definitions: None) -> AsyncIterator[Tenant]:
    """Store a policy with a kind of source that is not known yet, for a tenant's namespace."""
    del definitions
    tenant = Tenant(gate, (await gate.beside()).namespace)
    later = tenant.policy(sources=[{"kind": "Later", "urls": ["https://github.com/acme/**"]}])
    ours = [each["schema"] for each in (await gate.admin.get(DEFINITION, NAME))["spec"]["versions"]]
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}

    async def created() -> bool:
        with contextlib.suppress(ApiError):
            await gate.admin.apply(later, manager="test", force=True)
            return True
        return False

    async def refused() -> bool:
        another = {**later, "metadata": {"name": f"{tenant.namespace}-2"}}
        with contextlib.suppress(ApiError):
            await gate.admin.apply(another, manager="test", dry_run=True)
            return False
        return True

    try:
        await _schemas(gate.admin, [{"openAPIV3Schema": anything} for _ in ours])
        await gate.until(created)
        await _schemas(gate.admin, ours)
        await gate.until(refused)
        yield tenant
    finally:
        await _schemas(gate.admin, ours)
        with contextlib.suppress(NotFoundError):
            await gate.admin.delete(SOURCE_POLICY, tenant.namespace)


async def test_policy_that_cannot_be_read_refuses_also_after_a_restart(stored: Tenant) -> None:
    gate = stored.gate
    await stored.open()

    first = await stored.kubectl.refused("create", "--dry-run=server", obj=stored.repository())
    await gate.replicas.pop().stop()
    await stored.open()
    again = await stored.kubectl.refused("create", "--dry-run=server", obj=stored.repository())
    await gate.admin.apply(stored.policy(), manager="test", force=True)

    async def admitted() -> bool:
        obj = stored.repository()
        return "created" in await stored.kubectl.answer("create", "--dry-run=server", obj=obj)

    await gate.until(admitted)
    for text in (first, again):
        assert "the policy cannot be read, so nothing satisfies it: spec.sources[0].kind" in text
        assert f"(SourcePolicy '{stored.namespace}')" in text
