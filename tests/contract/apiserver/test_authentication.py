"""Who somebody is, at our own port: real certificates, real tokens, the real ConfigMap.

The matrix is that of front proxies: anyone else speaks for nobody but themselves.
"""

import json
import ssl

import aiohttp
import pytest
import pytest_asyncio

from apiserver.auth.configuration import KEY
from controlplane.certificates import Authority, KeyPair
from tests.contract.apiserver.window import BASE, Window
from tests.tools.waiting import until
from toolkit.objects import GroupVersionKind, Json

pytestmark = pytest.mark.asyncio(loop_scope="module")

AS_ROOT = [
    ("X-Remote-User", "root"),
    ("X-Remote-Group", "system:masters"),
    ("X-Remote-Extra-Key", "value"),
    ("X-Remote-Uid", "1"),
]
CONFIG_MAP = GroupVersionKind("", "v1", "ConfigMap")


@pytest_asyncio.fixture(loop_scope="module")
async def report(window: Window) -> str:
    """Serve one toy, whose report says who asked; anybody may ask."""
    everybody = {"apiGroups": ["gitops.penstock.dev"], "resources": ["*"], "verbs": ["*"]}
    for user in ("alice", "front-proxy-client", "system:anonymous"):
        await window.grant(user, everybody, namespace=window.namespace)
    window.shop.put(window.namespace, "bear")
    return f"{BASE}/namespaces/{window.namespace}/toys/bear/report"


async def who(
    window: Window, path: str, certificate: KeyPair | None, headers: object = AS_ROOT
) -> str:
    reply = await window.ask(path, certificate=certificate, headers=headers)
    return str(reply.json["user"]) if reply.status == 200 else str(reply.status)


async def test_only_the_front_proxy_speaks_for_others(window: Window, report: str) -> None:
    proxy, alice = window.front_proxy(), window.client_of("alice")
    namesake = window.client_of("front-proxy-client")

    assert await who(window, report, proxy) == "root"
    assert await who(window, report, None) == "system:anonymous"
    assert await who(window, report, alice) == "alice"
    assert await who(window, report, namesake) == "front-proxy-client"
    assert await who(window, report, proxy, headers=AS_ROOT[1:]) == "401"
    assert await who(window, report, None, headers=[("Authorization", "Bearer forged")]) == "401"
    # What they claim does not help those who are known either.
    forbidden = await window.ask(report, certificate=window.client_of("bob"), headers=AS_ROOT)
    assert forbidden.status == 403
    assert forbidden.json["message"] == (
        'toys.gitops.penstock.dev "bear" is forbidden: User "bob" cannot get resource'
        ' "toys/report" in API group "gitops.penstock.dev"'
        f' in the namespace "{window.namespace}"'
    )


async def test_handlers_never_see_credentials(window: Window, report: str) -> None:
    await who(window, report, window.front_proxy(), [*AS_ROOT, ("Authorization", "Bearer x")])

    (call,) = window.shop.asked(window.namespace)
    assert call.user.name == "root"
    assert not [name for name in call.web.headers if name.lower() == "authorization"]
    # The ConfigMap does not list X-Remote-Uid here, so it is a header like any other.
    assert call.user.uid == ""
    assert {name.lower() for name in call.web.headers if name.lower().startswith("x-remote")} <= {
        "x-remote-uid"
    }
    assert call.user.extra == {"key": ("value",)}


async def test_certificates_of_strangers_fail_the_handshake(window: Window, report: str) -> None:
    stranger = Authority.create("penstock-front-proxy-ca").client("front-proxy-client")

    with pytest.raises((aiohttp.ClientError, ssl.SSLError)):
        await window.ask(report, certificate=stranger, headers=AS_ROOT)


async def test_a_service_account_is_known_by_its_token(window: Window, report: str) -> None:
    metadata = {"name": "robot", "namespace": window.namespace}
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}
    await window.admin.create(account)
    token = await window.token("robot", window.namespace)

    reply = await window.ask(report, headers={"Authorization": f"Bearer {token}"})

    name = f"system:serviceaccount:{window.namespace}:robot"
    assert reply.status == 403
    assert name in reply.json["message"]


async def test_nobody_impersonates_at_our_own_port(window: Window, report: str) -> None:
    reply = await window.ask(
        report, certificate=window.client_of("alice"), headers={"Impersonate-User": "root"}
    )

    assert reply.status == 403
    assert "impersonation" in reply.json["message"]


async def test_the_aggregator_impersonates_for_those_who_may(window: Window, report: str) -> None:
    await window.available()

    answer = await window.kubectl("get", "--raw", report, "--as=alice")

    assert json.loads(answer)["user"] == "alice"


async def test_a_front_proxy_of_a_new_authority_is_taken_while_the_old_one_goes_on(
    window: Window, report: str
) -> None:
    successor = Authority.create("next-front-proxy-ca")
    new = successor.client("front-proxy-client")
    before = (await window.admin.get(CONFIG_MAP, KEY.name, KEY.namespace))["data"]
    bundle = before["requestheader-client-ca-file"]

    await rolled(window, {"requestheader-client-ca-file": bundle + pem(successor)})
    try:

        async def taken() -> bool:
            try:
                return await who(window, report, new) == "root"
            except (aiohttp.ClientError, ssl.SSLError):
                return False

        await window.until(taken)
        assert await who(window, report, window.front_proxy()) == "root"
    finally:
        await rolled(window, {"requestheader-client-ca-file": bundle})

    async def refused() -> bool:
        try:
            return await who(window, report, new) != "root"
        except (aiohttp.ClientError, ssl.SSLError):
            return True

    await window.until(refused)


async def test_what_nobody_can_read_changes_nothing(
    window: Window, report: str, caplog: pytest.LogCaptureFixture
) -> None:
    before = (await window.admin.get(CONFIG_MAP, KEY.name, KEY.namespace))["data"]
    key = "requestheader-client-ca-file"

    await rolled(window, {key: "-----BEGIN NONSENSE-----"})
    try:
        await until(lambda: "authentication not reconfigured" in caplog.text)

        assert await who(window, report, window.front_proxy()) == "root"
    finally:
        await rolled(window, {key: before[key]})


async def rolled(window: Window, data: dict[str, str]) -> None:
    patch: Json = {"data": data}
    await window.admin.patch(CONFIG_MAP, KEY.name, KEY.namespace, patch, strategy="merge")


def pem(authority: Authority) -> str:
    return authority.pair.certificate.decode()
