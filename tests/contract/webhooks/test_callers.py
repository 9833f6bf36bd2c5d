"""API servers with flags: who proves to be one is answered, and what they write down.

Nobody else who reaches the port gets an answer.
"""

import asyncio
import base64
import contextlib
import json
import os
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import pytest_asyncio

from certs import injection
from controlplane.certificates import Authority, KeyPair
from tests.contract.webhooks import tenants, vaults
from tests.contract.webhooks.configured import Configured
from tests.contract.webhooks.conftest import Gate, opened
from tests.contract.webhooks.vaults import WORD
from tests.fakes.admission import REVIEW
from toolkit.decrypt import envelope
from toolkit.kube.errors import ForbiddenError, NotFoundError
from toolkit.objects import GroupVersionKind, Json, dig
from webhooks import configuration


@pytest_asyncio.fixture
async def gate(configured_plane: Configured) -> AsyncIterator[Gate]:
    """Make a gate in the cluster whose API server proves who it is; no process runs yet."""
    async with opened(configured_plane.control_plane) as made:
        yield made


async def asks(
    gate: Gate, pair: KeyPair | None, directory: Path, *, path: str = "/admit/gate"
) -> int | str:
    """Send a review as the holder of this certificate, and return what comes of it."""
    trust = await asyncio.to_thread(_context, pair, directory)
    url = f"{gate.target.url}{path}?timeout=5s"
    body = json.loads(json.dumps(REVIEW))
    body["request"]["userInfo"] = {"username": "admin", "groups": ["system:masters"]}
    try:
        async with (
            aiohttp.ClientSession() as session,
            session.post(url, json=body, ssl=trust, timeout=aiohttp.ClientTimeout(10)) as answer,
        ):
            return answer.status
    except aiohttp.ClientError as exc:
        return type(exc).__name__


def _context(pair: KeyPair | None, directory: Path) -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    if pair is not None:
        pair.write(directory, "client")
        context.load_cert_chain(directory / "client.crt", directory / "client.key")
    return context


async def test_only_api_servers_are_answered(
    gate: Gate, configured_plane: Configured, tmp_path: Path
) -> None:
    row, seen = gate.row("gate")
    trusted = {
        "webhook_client_ca_file": str(configured_plane.bundle),
        "webhook_client_names": ("kube-apiserver",),
    }
    await gate.start(row, **trusted)
    await gate.asked(seen)

    assert "created" in await gate.apply(gate.config_map("house"))
    asked = len(seen.asked)
    strangers = {
        "nobody": None,
        "another name": configured_plane.authority.client("kubelet"),
        "another authority": Authority.create("webhooks").client("kube-apiserver"),
    }
    said = {name: await asks(gate, pair, tmp_path) for name, pair in strangers.items()}
    assert said["nobody"] == 403
    assert said["another name"] == 403
    assert said["another authority"] != 200
    assert len(seen.asked) == asked
    assert await asks(gate, configured_plane.authority.client("kube-apiserver"), tmp_path) == 200


@pytest.mark.parametrize(("network", "status"), [("127.0.0.1/32", 200), ("10.0.0.0/8", 403)])
async def test_only_networks_of_api_servers_are_answered(
    gate: Gate, tmp_path: Path, network: str, status: int
) -> None:
    row, _ = gate.row("gate", fail_open=True)
    await gate.start(row, webhook_client_networks=(network,))

    async def answered() -> int | None:
        said = await asks(gate, None, tmp_path)
        return said if isinstance(said, int) else None

    assert await gate.until(answered) == status
    # What was sent is none.
    assert await asks(gate, None, tmp_path, path="/convert") == (400 if status == 200 else 403)


async def test_conversions_go_on_where_a_certificate_is_demanded(
    gate: Gate, configured_plane: Configured, tmp_path: Path
) -> None:
    """API servers show none there."""
    row, seen = gate.row("gate")
    await gate.start(
        row,
        webhook_client_ca_file=str(configured_plane.bundle),
        webhook_client_names=("kube-apiserver",),
    )
    await gate.asked(seen)

    old = tenants.old(gate.namespace)

    async def written() -> bool:
        return "created" in await gate.kubectl.answer("apply", obj=old)

    await gate.until(written)
    gvk = GroupVersionKind.parse(old["apiVersion"], old["kind"])
    back = await gate.admin.get(gvk, "app", gate.namespace)
    assert back["spec"].items() >= old["spec"].items()
    assert await asks(gate, None, tmp_path) == 403


async def test_nothing_is_disclosed_where_callers_prove_nothing(gate: Gate, tmp_path: Path) -> None:
    """What docs/security.md says is left: the rest is answered, no matter who reaches the port."""
    teller, told = gate.row("teller", discloses=True)
    row, seen = gate.row("gate")
    await gate.start(teller, row, webhook_client_networks=())
    await gate.asked(seen)

    assert await asks(gate, None, tmp_path) == 200
    assert await asks(gate, None, tmp_path, path="/admit/teller") == 404
    assert told.asked == []
    assert "created" in await gate.apply(gate.config_map("house"))


async def registered(gate: Gate) -> Json | None:
    with contextlib.suppress(NotFoundError):
        return await gate.admin.get(injection.VALIDATING, configuration.CONFIGURATION)
    return None


def endpoints(gate: Gate, *pods: str, ready: bool) -> Json:
    rows = [
        {
            "addresses": [f"192.0.2.{number}"],
            "conditions": {"ready": ready},
            **({"targetRef": {"kind": "Pod", "name": pod}} if pod else {}),
        }
        for number, pod in enumerate(pods or ("",), start=1)
    ]
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": "webhook-1",
            "namespace": gate.namespace,
            "labels": {"kubernetes.io/service-name": "webhook"},
        },
        "addressType": "IPv4",
        "endpoints": rows,
        "ports": [{"name": "https", "port": 9443}],
    }


async def test_nothing_is_armed_before_the_service_leads_to_a_replica(
    gate: Gate, configured_plane: Configured
) -> None:
    row, _ = gate.row("gate")
    await gate.admin.apply(endpoints(gate, ready=False), manager="test")
    await gate.start(row, webhook_url="")

    # both who wait for it have looked again after an answer
    await gate.until(looking(gate, configured_plane, more_than=4))
    assert await registered(gate) is None

    await gate.admin.apply(endpoints(gate, ready=True), manager="test")

    async def armed() -> Json | None:
        return await registered(gate)

    found = await gate.until(armed)
    service = found["webhooks"][0]["clientConfig"]["service"]
    assert service["name"] == "webhook"
    assert service["namespace"] == gate.namespace


def looking(
    gate: Gate, configured_plane: Configured, *, more_than: int
) -> Callable[[], Awaitable[bool]]:
    """Tell whether the endpoints were listed so often."""

    async def looked() -> bool:
        return len(looks(gate, configured_plane)) > more_than

    return looked


def looks(gate: Gate, configured_plane: Configured) -> list[Json]:
    events = configured_plane.events(gate.namespace)
    found = [each for each in events if dig(each, "objectRef", "resource") == "endpointslices"]
    done = [each for each in found if each["stage"] == "ResponseComplete"]
    return [each for each in done if each["verb"] == "list"]


async def test_what_is_asked_changes_when_replicas_of_another_version_have_ended(
    gate: Gate, configured_plane: Configured
) -> None:
    own, other = os.uname().nodename, "webhook-5d9f-x2c4v"
    old, _ = gate.row("old")
    new, _ = gate.row("new")

    async def asked_about() -> list[str]:
        found = await registered(gate)
        return [each["name"] for each in found["webhooks"]] if found else []

    async def asked_old() -> bool:
        return await asked_about() == ["old.admission.penstock.dev"]

    async def asked_both() -> bool:
        return len(await asked_about()) == 2

    await gate.admin.apply(endpoints(gate, own, other, ready=True), manager="test")
    await gate.start(old, webhook_url="")  # it does not wait: nothing is asked yet
    await gate.until(asked_old)
    await gate.replicas.pop().stop()

    await gate.start(old, new, webhook_url="")
    seen = len(looks(gate, configured_plane))
    # two looks are those for an endpoint at all
    await gate.until(looking(gate, configured_plane, more_than=seen + 3))
    assert await asked_old()

    await gate.admin.apply(endpoints(gate, own, ready=True), manager="test")
    await gate.until(asked_both)


async def test_plaintext_reaches_neither_the_audit_log_nor_ours(
    configured_plane: Configured,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
) -> None:
    caplog.set_level("DEBUG")

    async with vaults.installed(configured_plane.control_plane) as vault:
        refusal = await _decrypted_and_refused(vault)

        async def complete() -> bool:
            """Tell whether the answers to both writes are written down."""
            return {"db", "other"} <= _answered(configured_plane.events(vault.namespace))

        await vault.gate.until(complete)

    events = configured_plane.events(vault.namespace)
    assert [event for event in events if _document(event)]
    log = configured_plane.audit.read_text()
    told = log + caplog.text + "".join(capsys.readouterr()) + refusal
    assert WORD not in told
    # whole groups of three bytes look the same wherever the base64 begins with them
    assert base64.b64encode(WORD[: len(WORD) // 3 * 3].encode()).decode() not in told


async def _decrypted_and_refused(vault: vaults.Vault) -> str:
    """Have one document decrypted, and another that was tampered with refused."""
    await vault.apply(vault.carrier())
    broken = vault.carrier("other")
    document = base64.b64decode(broken["data"][envelope.CARRIER])
    tampered = document.replace(b'"name": "other"', b'"name": "third"')
    assert tampered != document
    broken["data"][envelope.CARRIER] = base64.b64encode(tampered).decode()
    with pytest.raises(ForbiddenError) as caught:
        await vault.apply(broken)
    return str(caught.value)


def _answered(events: list[Json]) -> set[str]:
    """Return the names of what was written and answered."""
    done = [each for each in events if each["stage"] == "ResponseComplete"]
    return {dig(each, "objectRef", "name", default="") for each in done if each["verb"] == "patch"}


def _document(event: dict[str, Any]) -> str:
    found = event.get("annotations") or {}
    return str(found.get(f"{envelope.WEBHOOK}/document", ""))
