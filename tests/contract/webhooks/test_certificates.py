"""Certificates through a real API server: rotated under load, shared, injected, taken over."""

import asyncio
import base64
import datetime as dt
import ssl
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from certs import authority, injection
from tests.contract.webhooks.conftest import Gate
from toolkit.errors import PenstockError
from toolkit.kube.errors import NotFoundError
from toolkit.objects import GroupVersionKind, Json
from webhooks import configuration

SECRET = GroupVersionKind("", "v1", "Secret")
_PEM = Encoding.PEM
LABELS = {injection.LABEL: configuration.NAME}
OWN = "webhook-certificates"
FOREIGN = "webhook-tls"
OVERLAP = 3.0
"""Seconds in which a real API server takes notice of another authority, on any machine."""


async def secret(gate: Gate) -> dict[str, bytes]:
    """Return what the replicas share; nothing while there is none."""
    try:
        found = await gate.admin.get(SECRET, OWN, gate.namespace)
    except NotFoundError:
        return {}
    return {key: base64.b64decode(value) for key, value in found["data"].items()}


async def rotate(gate: Gate, mark: str) -> None:
    note = {"metadata": {"annotations": {"certs.penstock.dev/rotate": mark}}}
    await gate.admin.patch(SECRET, OWN, gate.namespace, note, strategy="merge")


async def served(gate: Gate) -> x509.Certificate:
    """Return the certificate that a new connection gets."""
    address = ("127.0.0.1", gate.port)
    pem = await asyncio.to_thread(ssl.get_server_certificate, address, timeout=10)
    return x509.load_pem_x509_certificate(pem.encode())


async def injected(gate: Gate) -> bytes:
    """Return whom the API server trusts."""
    found = await gate.admin.get(injection.VALIDATING, configuration.CONFIGURATION)
    return base64.b64decode(found["webhooks"][0]["clientConfig"]["caBundle"])


class Load:
    """Writes without pause, several at a time, and keeps what failed.

    API servers keep connections, so a stranger connects anew each time, trusting what they do.
    """

    def __init__(self, gate: Gate, *, writers: int = 6) -> None:
        self.done = 0
        self.failures: list[str] = []
        self._gate = gate
        self._tasks = [asyncio.create_task(self._write(n)) for n in range(writers)]
        self._tasks.append(asyncio.create_task(self._connect()))

    async def _write(self, number: int) -> None:
        while True:
            obj = self._gate.config_map(f"load-{number}", n=str(self.done))
            try:
                await self._gate.write(obj, dry_run=True)
                self.done += 1
            except PenstockError as exc:
                self.failures.append(str(exc))
            await asyncio.sleep(0.005)

    async def _connect(self) -> None:
        while True:
            bundle = await injected(self._gate)
            trust = ssl.create_default_context(cadata=bundle.decode())
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", self._gate.port, ssl=trust)
                writer.close()
                await writer.wait_closed()
            except ssl.SSLError as exc:
                self.failures.append(str(exc))
            await asyncio.sleep(0.005)

    async def more(self, count: int) -> None:
        """Return after so many more successes."""
        wanted = self.done + count

        async def enough() -> bool:
            return self.done >= wanted

        await self._gate.until(enough)

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


async def test_a_rotation_under_load_fails_no_request(gate: Gate) -> None:
    row, seen = gate.row("gate")
    for _ in range(2):
        await gate.start(row, certificate_overlap=OVERLAP, enable_leader_election=True)
    await gate.asked(seen)
    before, leaf = await secret(gate), await served(gate)
    load = Load(gate)

    await rotate(gate, "1")

    async def over() -> bool:
        now = await secret(gate)
        return now["ca.crt"] != before["ca.crt"] and "old-ca.crt" not in now

    await gate.until(over)

    async def served_anew() -> bool:
        return await served(gate) != leaf

    await gate.until(served_anew)
    await load.more(50)
    await load.stop()
    assert load.failures == []
    now = await secret(gate)
    assert await injected(gate) == now["ca.crt"]


async def test_replicas_that_come_and_go_fail_no_request(gate: Gate) -> None:
    row, seen = gate.row("gate")
    first = await gate.start(row, enable_leader_election=True)
    await gate.asked(seen)
    second = await gate.start(row, enable_leader_election=True)
    await second.ready()
    load = Load(gate, writers=3)

    for _ in range(2):
        await load.more(20)
        await first.stop()
        gate.replicas.remove(first)
        first = await gate.start(row, enable_leader_election=True)
        await first.ready()

    await load.more(20)
    await load.stop()
    assert load.failures == []


async def test_replicas_that_start_at_once_share_one_authority(gate: Gate) -> None:
    row, seen = gate.row("gate")
    for _ in range(3):
        await gate.start(row, enable_leader_election=True)
    await gate.asked(seen)

    now = await secret(gate)
    for _ in range(12):
        assert (await served(gate)).public_bytes(_PEM) == now["tls.crt"]


async def test_every_place_that_asks_for_it_gets_the_bundle(gate: Gate) -> None:
    row, seen = gate.row("gate")
    definition = _definition(gate)
    service = _api_service()
    await gate.admin.apply(definition, manager="test")
    await gate.admin.apply(service, manager="test")
    await _let(gate)
    try:
        await gate.start(row)
        await gate.asked(seen)

        async def everywhere() -> bool:
            want = base64.b64encode((await secret(gate))["ca.crt"]).decode()
            crd = await gate.admin.get(injection.DEFINITION, definition["metadata"]["name"])
            api = await gate.admin.get(injection.API_SERVICE, service["metadata"]["name"])
            client = crd["spec"]["conversion"]["webhook"]["clientConfig"]
            return {client.get("caBundle"), api["spec"].get("caBundle")} == {want}

        await gate.until(everywhere)
        lost = {"spec": {"caBundle": base64.b64encode(_other()).decode()}}
        await gate.admin.patch(
            injection.API_SERVICE, service["metadata"]["name"], "", lost, strategy="merge"
        )
        await gate.until(everywhere)
    finally:
        await gate.admin.delete(injection.DEFINITION, definition["metadata"]["name"])
        await gate.admin.delete(injection.API_SERVICE, service["metadata"]["name"])


@pytest_asyncio.fixture
async def refusing(gate: Gate) -> AsyncIterator[None]:
    """Have a target that trusts another authority, and that the process may not write."""
    service = _api_service()
    service["spec"]["caBundle"] = base64.b64encode(_other()).decode()
    await gate.admin.apply(service, manager="test")
    yield
    await gate.admin.delete(injection.API_SERVICE, service["metadata"]["name"])


@pytest.mark.usefixtures("refusing")
async def test_what_cert_manager_keeps_is_served_instead(gate: Gate) -> None:
    row, seen = gate.row("gate")
    await gate.start(row, certificate_overlap=OVERLAP)
    await gate.asked(seen)
    load = Load(gate)
    for _ in range(2):
        pair, ca = _cert_manager(gate)

        await gate.admin.apply(_tls_secret(gate, pair, ca), manager="test")

        async def taken(want: bytes = pair.certificate) -> bool:
            return (await served(gate)).public_bytes(_PEM) == want

        await gate.until(taken)
        assert authority.holds(await injected(gate), ca)
    await load.more(20)
    await load.stop()
    assert load.failures == []


async def test_certificates_that_are_damaged_are_made_anew(
    gate: Gate, caplog: pytest.LogCaptureFixture
) -> None:
    row, seen = gate.row("gate")
    await gate.start(row, certificate_overlap=OVERLAP)
    await gate.asked(seen)
    load = Load(gate)

    damage = {"data": {"ca.key": None}}
    await gate.admin.patch(SECRET, OWN, gate.namespace, damage, strategy="merge")

    async def whole() -> bool:
        return "ca.key" in await secret(gate)

    await gate.until(whole)
    now = await secret(gate)

    async def loaded() -> bool:
        return (await served(gate)).public_bytes(_PEM) == now["tls.crt"]

    await gate.until(loaded)
    await load.more(20)
    await load.stop()
    assert load.failures == []
    assert any(record.message == "certificates made anew" for record in caplog.records)


def _cert_manager(gate: Gate) -> tuple[authority.Pair, bytes]:
    now = dt.datetime.now(dt.UTC)
    signer = authority.new_authority("theirs", now=now, lifetime=dt.timedelta(days=1))
    leaf = authority.new_leaf(signer, gate.target.hosts, now=now, lifetime=dt.timedelta(hours=1))
    return leaf, signer.certificate


def _tls_secret(gate: Gate, pair: authority.Pair, ca: bytes) -> Json:
    data = {"tls.crt": pair.certificate, "tls.key": pair.key, "ca.crt": ca}
    notes = {"cert-manager.io/certificate-name": "webhook"}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": FOREIGN, "namespace": gate.namespace, "annotations": notes},
        "type": "kubernetes.io/tls",
        "data": {key: base64.b64encode(value).decode() for key, value in data.items()},
    }


def _definition(gate: Gate) -> Json:
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "gates.test.penstock.dev", "labels": LABELS},
        "spec": {
            "group": "test.penstock.dev",
            "scope": "Namespaced",
            "names": {"kind": "Gate", "plural": "gates"},
            "conversion": {
                "strategy": "Webhook",
                "webhook": {
                    "conversionReviewVersions": ["v1"],
                    "clientConfig": gate.target.client_config("/convert"),
                },
            },
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": {"type": "object"}},
                }
            ],
        },
    }


def _api_service() -> Json:
    return {
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": "v1alpha1.test-gate.penstock.dev", "labels": LABELS},
        "spec": {
            "group": "test-gate.penstock.dev",
            "version": "v1alpha1",
            "groupPriorityMinimum": 1,
            "versionPriority": 1,
            "service": {"name": "nobody", "namespace": "default"},
        },
    }


async def _let(gate: Gate) -> None:
    """Give the account these two targets, as the generated role gives it ours."""
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": f"{gate.namespace}-targets"},
        "rules": [
            {
                "apiGroups": ["apiextensions.k8s.io", "apiregistration.k8s.io"],
                "resources": ["customresourcedefinitions", "apiservices"],
                "verbs": ["patch"],
            }
        ],
    }
    await gate.admin.apply(role, manager="test")
    line = ("create", "clusterrolebinding", f"{gate.namespace}-targets")
    account = f"--serviceaccount={gate.namespace}:webhook"
    await gate.kubectl.run(*line, f"--clusterrole={gate.namespace}-targets", account)


def _other() -> bytes:
    now = dt.datetime.now(dt.UTC)
    made = authority.new_authority("other", now=now, lifetime=dt.timedelta(days=1))
    return made.certificate
