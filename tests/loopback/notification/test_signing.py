"""Providers that sign in with what is lent: as ServiceAccounts, as GitHub Apps, with key files.

The clouds and GitHub check what they are shown as the real ones do.
"""

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import jwt
import msgspec
import pytest
from aiohttp import web
from cryptography.hazmat.primitives.asymmetric import rsa

from controllers.notification.sending.asking import Asking
from controllers.notification.sending.keyfiles import TOKENS, KeyFiles
from controllers.notification.sending.signing import SignIns
from controllers.notification.sending.targets import Place, Reachable, Targets
from controllers.notification.services import SERVICES
from controllers.notification.services.service import Target
from crds.notification import Provider
from tests.fakes import githubapp
from tests.fakes.accounts import FakeAccounts
from tests.fakes.clouds import FakeClouds
from tests.fakes.githubapp import Clock, FakeGitHub
from tests.fakes.notices import event
from tests.fakes.serving import serving
from toolkit.errors import PenstockError, StalledError
from toolkit.kube.secrets import Secrets
from toolkit.kube.tokens import ServiceAccountTokens
from toolkit.remote.cloud.cache import TokenCache
from toolkit.remote.cloud.cloud import Cloud
from toolkit.remote.errors import AuthError, HttpError
from toolkit.remote.git.github import GitHubTokens
from toolkit.remote.http.http import Http

CLIENT, TENANT = "0a1b2c3d-0000-4000-8000-000000000001", "9f8e7d6c-0000-4000-8000-000000000002"
AZURE = {
    "azure.workload.identity/client-id": CLIENT,
    "azure.workload.identity/tenant-id": TENANT,
}
PROVIDER = "projects/1/locations/global/workloadIdentityPools/fleet/providers/far"
GCP = {"gcp.auth.fluxcd.io/workload-identity-provider": PROVIDER}
HUB = {"type": "azureeventhub", "address": "hub", "channel": "team"}
DEVOPS = {"type": "azuredevops", "address": "https://dev.azure.com/org/p/_git/app"}
PUBSUB = {"type": "googlepubsub", "address": "project", "channel": "events"}
ACCOUNT = {"serviceAccountName": "deployer"}
SERVICE_KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
KEY_FILE = json.dumps(
    {
        "client_email": "a@p.iam.gserviceaccount.com",
        "private_key": githubapp.pem(SERVICE_KEY).decode(),
    }
)


@dataclass
class Scene:
    """Providers of the namespace ``team``, whose account is known at both clouds."""

    http: Http
    clouds: FakeClouds
    accounts: FakeAccounts
    github: FakeGitHub
    stack: AsyncExitStack
    heard: list[tuple[str, str, str]] = field(default_factory=list)

    async def prepare(self) -> None:
        """Let the account be an application and a principal, and services listen."""
        issuer, subject = self.accounts.issuer, "system:serviceaccount:team:deployer"
        self.clouds.believe(issuer)
        self.clouds.azure.applications[TENANT, CLIENT] = issuer.url, subject
        audience = f"//iam.googleapis.com/{PROVIDER}"
        self.clouds.gcp.providers[audience] = issuer.url, audience
        self.clouds.more = {
            ".servicebus.windows.net": self._take,
            "dev.azure.com": self._take,
            "pubsub.googleapis.com": self._take,
            "oauth2.googleapis.com": self._exchange,
        }
        self.accounts.put("team", "deployer", **AZURE, **GCP)
        self.client = await self.stack.enter_async_context(self.accounts.running())

    async def _take(self, request: web.BaseRequest, _: bytes) -> web.Response:
        token = request.headers.get("Authorization", "")
        self.heard.append((request.host, request.path, token))
        return web.json_response({})

    async def _exchange(self, _: web.BaseRequest, body: bytes) -> web.Response:
        assertion = dict(item.split("=") for item in body.decode().split("&"))["assertion"]
        claims = jwt.decode(
            assertion, SERVICE_KEY.public_key(), algorithms=["RS256"], audience=TOKENS
        )
        token = self.clouds.gcp.mint(claims["iss"])
        return web.json_response({"access_token": token, "expires_in": 3600})

    def secret(self, name: str, **data: str | bytes) -> dict[str, Any]:
        """Make a Secret; return the reference of it."""
        raw = {key: v if isinstance(v, bytes) else v.encode() for key, v in data.items()}
        self.accounts.objects[f"/api/v1/namespaces/team/secrets/{name}"] = {
            "kind": "Secret",
            "metadata": {"name": name, "namespace": "team", "resourceVersion": "1"},
            "data": {key: base64.b64encode(value).decode() for key, value in raw.items()},
        }
        return {"name": name}

    def way(self, *, ca: bool = True) -> dict[str, Any]:
        """Return the fields that lead to the clouds of the test."""
        assert self.clouds.trust.ca
        found = {"proxySecretRef": self.secret("proxy", address=self.clouds.proxy.address)}
        if ca:
            found["certSecretRef"] = self.secret("ca", **{"ca.crt": self.clouds.trust.ca})
        return found

    async def place(self, *, private: bool = True, gate: bool = True, **spec: Any) -> Place:
        """Return the place of a Provider."""
        self.cache = TokenCache()
        cloud = Cloud(
            self.http,
            cache=self.cache,
            environment={"AZURE_POD_IDENTITY_AUTHORITY_HOST": self.clouds.node},
            trust=self.clouds.trust,
        )
        self.sign_ins = SignIns(
            cloud=cloud,
            github=GitHubTokens(self.http, self.github.clock),
            accounts=ServiceAccountTokens(self.client, cache=self.cache, object_level=gate),
            keys=KeyFiles(self.http, self.cache),
        )
        reachable = Reachable(plain_http=True, private=frozenset({"team"} if private else ()))
        provider = msgspec.convert(
            {"metadata": {"name": "p", "namespace": "team"}, "spec": spec}, Provider
        )
        return await Targets(Secrets(self.client), reachable, self.sign_ins).place(provider)

    async def send(self, place: Place) -> Target:
        """Send an event as the sender does; return to what."""
        signed = await place.signed_in()
        await SERVICES[signed.target.type](event(), signed.target, Asking(self.http, signed))
        return signed.target

    def app(self, **more: str | bytes) -> dict[str, Any]:
        """Return the Secret of a GitHub App whose API is the test's."""
        base = {"githubAppBaseURL": self.github.base}
        return {"secretRef": self.secret("app", **{**githubapp.SECRET, **base, **more})}


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    async with AsyncExitStack() as stack:
        http = await stack.enter_async_context(Http())
        clouds = await stack.enter_async_context(FakeClouds().running())
        github = FakeGitHub(Clock())
        github.base = (
            f"http://127.0.0.1:{await stack.enter_async_context(serving(github.application()))}"
        )
        made = Scene(http, clouds, FakeAccounts(), github, stack)
        await made.prepare()
        yield made


@pytest.mark.parametrize(
    ("spec", "host", "scope"),
    [
        (HUB, "team.servicebus.windows.net", "https://eventhubs.azure.net/.default"),
        (DEVOPS, "dev.azure.com", "499b84ac-1321-427f-aa17-267ca6975798/.default"),
    ],
    ids=["azureeventhub", "azuredevops"],
)
async def test_an_account_sends_as_its_application(
    scene: Scene, spec: dict[str, Any], host: str, scope: str
) -> None:
    await scene.send(await scene.place(**spec, **ACCOUNT, **scene.way()))

    ((heard, _, header),) = scene.heard
    assert heard == host
    assert scene.clouds.azure.tokens[header.removeprefix("Bearer ")] == (CLIENT, scope)
    assert [each["audiences"] for each in scene.accounts.tokens] == [["api://AzureADTokenExchange"]]


async def test_an_account_publishes_as_its_principal(scene: Scene) -> None:
    await scene.send(await scene.place(**PUBSUB, **ACCOUNT, **scene.way()))

    ((_, path, header),) = scene.heard
    assert path == "/v1/projects/project/topics/events:publish"
    who = scene.clouds.gcp.tokens[header.removeprefix("Bearer ")]
    assert who == "system:serviceaccount:team:deployer"


async def test_a_key_file_is_exchanged_once(scene: Scene) -> None:
    key = scene.secret("key", token=KEY_FILE)
    place = await scene.place(**PUBSUB, secretRef=key, **scene.way())

    await scene.send(place)
    await scene.send(place)

    assert scene.clouds.asked("oauth2.googleapis.com") == 1
    assert len({header for _, _, header in scene.heard}) == 1
    assert scene.clouds.gcp.tokens[scene.heard[0][2].removeprefix("Bearer ")].startswith("a@p.")


@pytest.mark.parametrize(
    ("key", "why"),
    [
        ("no JSON", "is not a key file"),
        ('{"client_email": "a"}', "is not a key file"),
        ('{"client_email": "a", "private_key": "b"}', "is not a PEM private key"),
        (json.dumps({"client_email": "a", "private_key": "b" * 5000}), "is longer than"),
    ],
)
async def test_what_is_not_a_key_file_asks_nobody(scene: Scene, key: str, why: str) -> None:
    with pytest.raises(AuthError, match=why):
        await scene.send(
            await scene.place(**PUBSUB, secretRef=scene.secret("key", token=key), **scene.way())
        )

    assert scene.clouds.dialled == []


async def test_a_token_service_that_gives_no_token_is_told(scene: Scene) -> None:
    async def nothing(_: web.BaseRequest, __: bytes) -> web.Response:
        return web.json_response({})

    scene.clouds.more["oauth2.googleapis.com"] = nothing
    key = scene.secret("key", token=KEY_FILE)

    with pytest.raises(HttpError, match="answered without a token"):
        await scene.send(await scene.place(**PUBSUB, secretRef=key, **scene.way()))


@pytest.mark.parametrize("kind", ["github", "githubdispatch", "githubpullrequestcomment"])
async def test_an_app_signs_in_where_github_is(scene: Scene, kind: str) -> None:
    heard: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        heard.append(request.headers["Authorization"])
        return web.json_response([] if request.method == "GET" else {})

    async with serving(answer) as port:
        address = f"http://127.0.0.1:{port}/org/app"
        place = await scene.place(type=kind, address=address, **scene.app())
        signed = await place.signed_in()
        await SERVICES[kind](event(change_request="7"), signed.target, Asking(scene.http, signed))

    assert set(heard) == {"Bearer ghs_5_1"}
    assert scene.github.requests == ["/app/installations/5/access_tokens"]
    assert "ghs_5_1" not in signed.masked("refused ghs_5_1")


async def test_a_token_of_an_app_that_is_refused_is_given_back(scene: Scene) -> None:
    place = await scene.place(type="github", address="http://a.example/o/r", **scene.app())
    first = await place.signed_in()
    scene.github.clock.now += timedelta(minutes=2)

    first.refused()
    second = await place.signed_in()

    assert first.target.token != second.target.token


async def test_a_token_wins_over_an_app(scene: Scene) -> None:
    secret = scene.app(token="t0ken")

    place = await scene.place(type="github", address="https://github.com/o/r", **secret)

    assert (await place.signed_in()).target.token == "t0ken"
    assert scene.github.requests == []


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "169.254.169.254", "[::1]"])
async def test_a_tenants_app_does_not_lead_to_private_addresses(scene: Scene, host: str) -> None:
    base = scene.github.base.replace("127.0.0.1", host)
    app = scene.app(githubAppBaseURL=base)

    place = await scene.place(private=False, type="github", address="https://github.com/o/r", **app)
    with pytest.raises(PenstockError, match="a private address"):
        await place.signed_in()

    assert scene.github.requests == []


@pytest.mark.parametrize("spec", [HUB, DEVOPS, PUBSUB], ids=lambda spec: spec["type"])
async def test_a_tenants_proxy_inside_is_not_used_to_sign_in(
    scene: Scene, spec: dict[str, Any]
) -> None:
    place = await scene.place(private=False, **spec, **ACCOUNT, **scene.way())

    with pytest.raises(PenstockError, match="a private address"):
        await place.signed_in()

    assert scene.clouds.dialled == []


@pytest.mark.parametrize("spec", [HUB, DEVOPS, PUBSUB], ids=lambda spec: spec["type"])
async def test_a_tenant_does_not_act_as_the_controller(scene: Scene, spec: dict[str, Any]) -> None:
    scene.clouds.azure.node_client = "node"

    with pytest.raises(StalledError, match=r"spec\.serviceAccountName"):
        await scene.place(private=False, **spec)

    assert scene.clouds.requests == []


async def test_the_administrators_provider_acts_as_the_controller(scene: Scene) -> None:
    scene.clouds.azure.node_client = "node"

    signed = await (await scene.place(**HUB)).signed_in()

    scope = "https://eventhubs.azure.net/.default"
    assert scene.clouds.azure.tokens[signed.target.token] == ("node", scope)


async def test_the_controllers_token_is_not_shown_to_a_ca_of_the_object(scene: Scene) -> None:
    scene.clouds.azure.node_client = "node"

    with pytest.raises(PenstockError, match="a CA of the object's own"):
        await (await scene.place(**HUB, **scene.way())).signed_in()

    assert scene.clouds.requests == []


@pytest.mark.parametrize(
    "spec",
    [
        {**HUB, "channel": "collector.example"},
        {**HUB, "address": "https://servicebus.windows.net.example", "channel": "hub"},
        {**HUB, "address": "http://team.servicebus.windows.net", "channel": "hub"},
        {**DEVOPS, "address": "https://dev.azure.com.example/org/p/_git/app"},
        {**DEVOPS, "address": "http://dev.azure.com/org/p/_git/app"},
    ],
    ids=lambda spec: f"{spec['address']} {spec.get('channel', '')}",
)
async def test_a_token_is_for_hosts_of_its_service_only(scene: Scene, spec: dict[str, Any]) -> None:
    place = await scene.place(**spec, **ACCOUNT)

    with pytest.raises(StalledError, match=r"is not a namespace of Event Hubs|not one of Azure"):
        await place.signed_in()

    assert scene.accounts.tokens == []


@pytest.mark.parametrize(
    ("spec", "data"),
    [
        (HUB, {"token": "jwt"}),
        (HUB, {"address": "Endpoint=sb://a.servicebus.windows.net;SharedAccessKey=k"}),
        (DEVOPS, {"token": "pat"}),
        (PUBSUB, {"token": KEY_FILE}),
    ],
)
async def test_credentials_and_an_account_are_too_much(
    scene: Scene, spec: dict[str, Any], data: dict[str, str]
) -> None:
    with pytest.raises(AuthError, match="remove one of the two"):
        await scene.place(**spec, **ACCOUNT, secretRef=scene.secret("s", **data))


async def test_an_account_takes_the_feature_gate(scene: Scene) -> None:
    with pytest.raises(StalledError, match="ObjectLevelWorkloadIdentity") as caught:
        await scene.place(gate=False, **HUB, **ACCOUNT)

    assert caught.value.reason == "FeatureGateDisabled"


async def test_an_account_that_is_missing_is_named(scene: Scene) -> None:
    with pytest.raises(PenstockError, match="ServiceAccount 'team/nobody' not found"):
        await scene.place(**HUB, serviceAccountName="nobody")


async def test_many_providers_of_one_account_ask_for_one_token(scene: Scene) -> None:
    place = await scene.place(**HUB, **ACCOUNT, **scene.way())

    found = await asyncio.gather(*(place.signed_in() for _ in range(20)))

    assert len({each.target.token for each in found}) == 1
    assert scene.clouds.asked("login.microsoftonline.com") == 1


async def test_an_app_of_another_type_is_refused_with_what_takes_it(scene: Scene) -> None:
    with pytest.raises(AuthError, match="only github, githubdispatch, githubpullrequestcomment do"):
        await scene.place(type="gitlab", address="https://gitlab.com/o/r", **scene.app())
