"""Discovery, schemas and kubectl, through the real aggregator."""

import json

from tests.contract.apiserver.conftest import BASE, Window


async def test_the_api_server_finds_the_resources_and_serves_them(window: Window) -> None:
    await window.start()
    window.shop.put(window.namespace, "bear", "brown")
    await window.available()

    named = await window.kubectl("api-resources", "--api-group=gitops.penstock.dev", "--no-headers")
    got = await window.kubectl("get", "ty")

    assert named.split() == ["toys", "ty", "gitops.penstock.dev/v1alpha1", "true", "Toy"]
    assert got.split() == ["NAME", "COLOUR", "bear", "brown"]


async def test_both_forms_of_discovery_say_the_same(window: Window) -> None:
    await window.start()
    await window.available()

    legacy = json.loads(await window.kubectl("get", "--raw", BASE))

    assert [row["name"] for row in legacy["resources"]] == ["toys", "toys/report"]


async def test_a_kind_and_its_fields_are_explained(window: Window) -> None:
    await window.start()
    await window.available()

    async def explained() -> str:
        text = await window.kubectl("explain", "toys.spec.colour")
        return text if "Colour, as painted." in text else ""

    text = await window.until(explained)

    assert "GROUP:      gitops.penstock.dev" in text
    assert "KIND:       Toy" in text
