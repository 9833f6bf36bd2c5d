"""Discovery, schemas and kubectl, through the real aggregator."""

import json
import secrets

import pytest

from apiserver.registration import API_SERVICE
from certs import injection
from tests.contract.apiserver.window import BASE, Window, make_namespace

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_the_api_server_finds_the_resources_and_serves_them(window: Window) -> None:
    window.shop.put(window.namespace, "bear", "brown")
    await window.available()

    named = await window.kubectl("api-resources", "--api-group=gitops.penstock.dev", "--no-headers")
    got = await window.kubectl("get", "ty")

    assert named.split() == ["toys", "ty", "gitops.penstock.dev/v1alpha1", "true", "Toy"]
    assert got.split() == ["NAME", "COLOUR", "bear", "brown"]


async def test_both_forms_of_discovery_say_the_same(window: Window) -> None:
    await window.available()

    legacy = json.loads(await window.kubectl("get", "--raw", BASE))

    assert [row["name"] for row in legacy["resources"]] == ["toys", "toys/report"]


async def test_a_kind_and_its_fields_are_explained(window: Window) -> None:
    await window.available()

    async def explained() -> str:
        text = await window.answer("explain", "toys.spec.colour")
        return text if "Colour, as painted." in text else ""

    text = await window.until(explained)

    assert "GROUP:      gitops.penstock.dev" in text
    assert "KIND:       Toy" in text


async def test_a_namespace_is_deleted(window: Window) -> None:
    """What an API does not list keeps every namespace, as ``test_lifecycle.py`` shows."""
    await window.available()
    name = await make_namespace(window.admin, f"test-{secrets.token_hex(4)}")

    deleted = await window.kubectl("delete", "namespace", name, "--timeout=50s")

    assert "deleted" in deleted


async def test_what_somebody_changes_is_put_right(window: Window) -> None:
    await window.available()
    patch = {"spec": {"groupPriorityMinimum": 17000}, "metadata": {"ownerReferences": []}}

    await window.admin.patch(injection.API_SERVICE, API_SERVICE, "", patch, strategy="merge")

    async def right() -> bool:
        found = await window.admin.get(injection.API_SERVICE, API_SERVICE)
        owned = bool(found["metadata"].get("ownerReferences"))
        return owned and found["spec"]["groupPriorityMinimum"] == 1000

    await window.until(right)
