"""The API server carries what others send, from its own address; that is not proof of who asks."""

import asyncio
import contextlib
import json
import socket
import ssl
from dataclasses import dataclass

import aiohttp
import pytest
import pytest_asyncio

from tests.contract.webhooks.conftest import Gate, Recorder
from tests.contract.webhooks.tenants import RBAC
from tests.fakes.admission import REVIEW
from tests.tools import namespaces, rights
from toolkit.kube import impersonation
from toolkit.kube.client import Client
from toolkit.kube.errors import ApiError, NotFoundError
from toolkit.objects import GroupVersionKind, Json

POD = GroupVersionKind("", "v1", "Pod")
ACCOUNT = GroupVersionKind("", "v1", "ServiceAccount")
ANYTHING: Json = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}


def own_address() -> str:
    """Return an address of this machine; API servers carry nothing to loopback."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        try:
            one.connect(("192.0.2.1", 9))  # sends nothing
        except OSError:
            pytest.skip("this machine has no address but loopback")
        return str(one.getsockname()[0])


@dataclass(frozen=True, kw_only=True)
class Attack:
    """Who may do anything in one namespace, where a Pod and a Service have the gate's address."""

    gate: Gate
    seen: Recorder
    mallory: Client
    namespace: str

    def path(self, kind: str, plugin: str) -> str:
        target = f"https:fake:{self.gate.port}"
        return f"/api/v1/namespaces/{self.namespace}/{kind}/{target}/proxy{plugin}"

    async def send(self, kind: str, path: str, **headers: str) -> str:
        """Have a review carried, in the name of an administrator; return what comes of it."""
        body = json.loads(json.dumps(REVIEW))
        body["request"]["userInfo"] = {"username": "admin", "groups": ["system:masters"]}
        try:
            answer = await self.mallory.request(
                "POST", self.path(kind, path), body=body, headers=headers
            )
        except ApiError as exc:
            return str(exc)
        return f"answered: {answer}"


@pytest_asyncio.fixture
async def attack(gate: Gate) -> Attack:
    address = own_address()
    row, seen = gate.row("gate")
    # The API server's own address, as the process sees it: both ways are open.
    networks = ("127.0.0.0/8", f"{address}/32")
    await gate.start(row, webhook_addr=f":{gate.port}", webhook_client_networks=networks)
    await gate.asked(seen)
    namespace = await namespaces.create(gate.admin)
    mallory = await everything(gate, namespace)
    for obj in disguise(namespace, address, gate.port):
        await mallory.create(obj)
    status = {"podIP": address, "podIPs": [{"ip": address}]}
    await mallory.patch(
        POD, "fake", namespace, {"status": status}, strategy="merge", subresource="status"
    )
    return Attack(gate=gate, seen=seen, mallory=mallory, namespace=namespace)


async def everything(gate: Gate, namespace: str) -> Client:
    """Return a client of who may do anything in the namespace, and nothing elsewhere."""
    made = {
        "apiVersion": f"{RBAC}/v1",
        "metadata": {"name": "mallory", "namespace": namespace},
    }
    await gate.admin.create({**made, "kind": "Role", "rules": [ANYTHING]})
    ref = {"apiGroup": RBAC, "kind": "Role", "name": "mallory"}
    subjects = [{"apiGroup": RBAC, "kind": "User", "name": "mallory"}]
    await gate.admin.create({**made, "kind": "RoleBinding", "roleRef": ref, "subjects": subjects})
    await rights.noticed(gate.admin, "mallory", ANYTHING, namespace=namespace)
    return gate.admin.impersonating("mallory")


def disguise(namespace: str, address: str, port: int) -> list[Json]:
    """Return a Pod that runs nowhere, and a Service that leads to the gate."""
    metadata = {"name": "fake", "namespace": namespace}
    pod = {
        "schedulerName": "nobody",
        "automountServiceAccountToken": False,
        "containers": [{"name": "a", "image": "x"}],
    }
    pointer = {"ip": address, "targetRef": {"kind": "Pod", "name": "fake", "namespace": namespace}}
    subset = {"addresses": [pointer], "ports": [{"port": port}]}
    made = {"apiVersion": "v1", "metadata": metadata}
    return [
        {**made, "kind": "Pod", "spec": pod},
        {**made, "kind": "Service", "spec": {"ports": [{"port": port}]}},
        {**made, "kind": "Endpoints", "subsets": [subset]},
    ]


@pytest.mark.parametrize("kind", ["pods", "services"])
async def test_what_an_api_server_carries_is_refused(attack: Attack, kind: str) -> None:
    attack.seen.asked.clear()
    said = {
        "plain": await attack.send(kind, "/admit/gate"),
        # what a proxy takes away because a client calls it hop-by-hop
        "stripped": await attack.send(
            kind,
            "/admit/gate",
            Connection="close, X-Forwarded-Uri, X-Forwarded-Host, X-Forwarded-For",
        ),
        "conversion": await attack.send(kind, "/convert"),
        "upgrade": await upgraded(attack, kind),
    }

    assert all("this caller is not one" in each for each in said.values()), said
    assert attack.seen.asked == []
    assert "created" in await attack.gate.apply(attack.gate.config_map("house"))
    assert len(attack.seen.asked) == 1


async def has_account(attack: Attack) -> bool:
    """Tell whether the namespace has got the account that each of them gets."""
    with contextlib.suppress(NotFoundError):
        return bool(await attack.gate.admin.get(ACCOUNT, "default", attack.namespace))
    return False


async def upgraded(attack: Attack, kind: str) -> str:
    """Send it as what another part of the API server carries, and return what comes of it."""
    await attack.gate.until(lambda: has_account(attack))
    token = await asyncio.to_thread(attack.gate.control_plane.token, attack.namespace, "default")
    await attack.gate.admin.create(
        {
            "apiVersion": f"{RBAC}/v1",
            "kind": "RoleBinding",
            "metadata": {"name": "default", "namespace": attack.namespace},
            "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": "mallory"},
            "subjects": [{"kind": "ServiceAccount", "name": "default"}],
        }
    )
    user = impersonation.service_account(attack.namespace, "default")
    await rights.noticed(attack.gate.admin, user, ANYTHING, namespace=attack.namespace)
    plane = attack.gate.control_plane
    headers = {
        "Authorization": f"Bearer {token}",
        "Connection": "Upgrade, X-Forwarded-For",
        "Upgrade": "anything",
    }
    async with (
        aiohttp.ClientSession() as session,
        session.post(
            plane.server + attack.path(kind, "/admit/gate"),
            json=REVIEW,
            headers=headers,
            ssl=ssl.create_default_context(cadata=plane.ca.decode()),
        ) as answer,
    ):
        return await answer.text()
