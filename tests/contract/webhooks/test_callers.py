"""Whoever reaches the port and is no API server gets no answer, and API servers do."""

import asyncio
import base64
import json
import secrets
import ssl
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import pytest
import pytest_asyncio
import yaml

from controlplane import plane
from controlplane.certificates import Authority, KeyPair
from controlplane.plane import ControlPlane
from tests.contract.webhooks.conftest import Gate, opened
from tests.contract.webhooks.test_conversions import old
from tests.tools.definitions import install
from tests.unit.webhooks.test_review import REVIEW
from toolkit.objects import GroupVersionKind


@dataclass(frozen=True)
class Proven:
    """A control plane whose API server shows a certificate to webhooks, and who signs these."""

    control_plane: ControlPlane
    authority: Authority
    bundle: Path


@pytest.fixture(scope="module")
def proven(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proven]:
    directory = tmp_path_factory.mktemp("admission")
    authority = Authority.create("webhooks")
    bundle = directory / "ca.crt"
    bundle.write_bytes(authority.pair.certificate)
    path = _configured(directory, authority.client("kube-apiserver"))
    flags = {"kube-apiserver": [f"--admission-control-config-file={path}"]}
    with plane.start("pytest-callers", alternatives=8, flags=flags) as running:
        yield Proven(running, authority, bundle)


def _configured(directory: Path, pair: KeyPair) -> Path:
    """Write what makes an API server show a certificate to every webhook."""
    shown = {
        "client-certificate-data": base64.b64encode(pair.certificate).decode(),
        "client-key-data": base64.b64encode(pair.key).decode(),
    }
    kubeconfig = directory / "kubeconfig"
    document = {"apiVersion": "v1", "kind": "Config", "users": [{"name": "*", "user": shown}]}
    kubeconfig.write_text(yaml.safe_dump(document))
    group = "apiserver.config.k8s.io/v1"
    kind = {"apiVersion": group, "kind": "WebhookAdmissionConfiguration"}
    plugins = [
        {"name": name, "configuration": {**kind, "kubeConfigFile": str(kubeconfig)}}
        for name in ("MutatingAdmissionWebhook", "ValidatingAdmissionWebhook")
    ]
    whole = {"apiVersion": group, "kind": "AdmissionConfiguration", "plugins": plugins}
    path = directory / "admission.yaml"
    path.write_text(yaml.safe_dump(whole))
    return path


@pytest_asyncio.fixture
async def gate(proven: Proven) -> AsyncIterator[Gate]:
    """Install the account and its rights in the cluster whose API server proves who it is."""
    plane_ = proven.control_plane
    namespace = f"test-{secrets.token_hex(4)}"
    plane_.kubectl("create", "namespace", namespace)
    async with opened(plane_, namespace) as made:
        yield made


async def asks(
    gate: Gate, pair: KeyPair | None, directory: Path, *, path: str = "/admit/gate"
) -> int | str:
    """Send a review as whoever holds this certificate, and return what comes of it."""
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


async def test_only_api_servers_are_answered(gate: Gate, proven: Proven, tmp_path: Path) -> None:
    row, seen = gate.row("gate")
    trusted = {
        "webhook_client_ca_file": str(proven.bundle),
        "webhook_client_names": ("kube-apiserver",),
    }
    await gate.start(row, **trusted)
    await gate.asked(seen)

    assert "created" in await gate.apply(gate.config_map("house"))
    asked = len(seen.asked)
    strangers = {
        "nobody": None,
        "another name": proven.authority.client("kubelet"),
        "another authority": Authority.create("webhooks").client("kube-apiserver"),
    }
    said = {name: await asks(gate, pair, tmp_path) for name, pair in strangers.items()}
    assert said["nobody"] == 403
    assert said["another name"] == 403
    assert said["another authority"] != 200
    assert len(seen.asked) == asked
    assert await asks(gate, proven.authority.client("kube-apiserver"), tmp_path) == 200


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
    gate: Gate, proven: Proven, tmp_path: Path
) -> None:
    """API servers show none there."""
    await asyncio.to_thread(install, proven.control_plane)
    row, seen = gate.row("gate")
    await gate.start(
        row, webhook_client_ca_file=str(proven.bundle), webhook_client_names=("kube-apiserver",)
    )
    await gate.asked(seen)

    async def written() -> bool:
        return "created" in await gate.apply(old(gate))

    await gate.until(written)
    gvk = GroupVersionKind.parse(old(gate)["apiVersion"], old(gate)["kind"])
    back = await gate.admin.get(gvk, "app", gate.namespace)
    assert back["spec"].items() >= old(gate)["spec"].items()
    assert await asks(gate, None, tmp_path) == 403


async def test_nothing_is_disclosed_where_callers_prove_nothing(gate: Gate, tmp_path: Path) -> None:
    """What docs/security.md says is left: the rest is answered, whoever reaches the port."""
    teller, told = gate.row("teller", discloses=True)
    row, seen = gate.row("gate")
    await gate.start(teller, row, webhook_client_networks=())
    await gate.asked(seen)

    assert await asks(gate, None, tmp_path) == 200
    assert await asks(gate, None, tmp_path, path="/admit/teller") == 404
    assert told.asked == []
    assert "created" in await gate.apply(gate.config_map("house"))
