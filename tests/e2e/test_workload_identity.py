"""Clusters that trust each other: ``configMapRef`` with provider ``generic``, and no secret at all.

The other cluster believes the tokens that this one's issuer signs, as published documents say
(structured authentication, KEP-3331): nobody is asked, and no credential is stored anywhere.
"""

import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import pytest_asyncio
import trustme
import yaml
from aiohttp import web

from controlplane import plane as planes
from controlplane.plane import ControlPlane
from tests.e2e.conftest import (
    CONFIG_MAP,
    GIT_REPOSITORY,
    KUSTOMIZATION,
    NAMESPACE,
    SERVICE_ACCOUNT,
    Space,
    World,
    condition,
    config_map,
)
from tests.fakes.serving import certified, serving
from tests.tools import rights
from tests.tools.waiting import until
from toolkit.kube import config
from toolkit.kube.client import Client
from toolkit.kube.errors import NotFoundError
from toolkit.objects import dig

pytestmark = pytest.mark.asyncio(loop_scope="session")

RBAC = "rbac.authorization.k8s.io"
AUDIENCE = "https://far.example/deploy"
REF = {"configMapRef": {"name": "far"}}


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def published(control_plane: ControlPlane) -> AsyncIterator[tuple[str, bytes]]:
    """Publish what the first cluster's issuer says of itself, as behind a web server of one's own.

    Gives the document's URL and the CA of the server. (The cluster publishes it too, but names an
    address of the machine where a control plane for tests does not listen.)
    """
    get = ("get", "--raw")
    document = json.loads(control_plane.kubectl(*get, "/.well-known/openid-configuration"))
    keys = control_plane.kubectl(*get, "/openid/v1/jwks")
    authority = trustme.CA()
    app = web.Application()

    async def discovery(request: web.Request) -> web.Response:
        return web.json_response(document | {"jwks_uri": f"https://{request.host}/keys"})

    async def jwks(_: web.Request) -> web.Response:
        return web.Response(text=keys, content_type="application/json")

    app.router.add_get("/discovery", discovery)
    app.router.add_get("/keys", jwks)
    async with serving(app, tls=certified(authority, "127.0.0.1")) as port:
        yield f"https://127.0.0.1:{port}/discovery", authority.cert_pem.bytes()


@pytest.fixture(scope="module")
def trusting_plane(
    control_plane: ControlPlane,
    published: tuple[str, bytes],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[ControlPlane]:
    """Run a second control plane that believes the first one's issuer."""
    url, ca = published
    document = json.loads(
        control_plane.kubectl("get", "--raw", "/.well-known/openid-configuration")
    )
    issuer = {
        "url": document["issuer"],
        "discoveryURL": url,
        "certificateAuthority": ca.decode(),
        "audiences": [AUDIENCE],
    }
    settings = {
        "apiVersion": "apiserver.config.k8s.io/v1",
        "kind": "AuthenticationConfiguration",
        "jwt": [
            {
                "issuer": issuer,
                "claimMappings": {"username": {"claim": "sub", "prefix": "near:"}},
            }
        ],
    }
    file = tmp_path_factory.mktemp("trust") / "authentication.yaml"
    file.write_text(yaml.safe_dump(settings))
    flags = (
        f"--authentication-config={file}",
        # Two clusters that trust each other cannot both be "the cluster".
        "--service-account-issuer=https://far.example",
    )
    with planes.start("pytest-trusting", alternatives=8, flags={"kube-apiserver": flags}) as plane:
        yield plane


class Far(Space):
    """A namespace here, and the one of the same name on the cluster that trusts this one."""

    api: Client
    plane: ControlPlane

    @property
    def user(self) -> str:
        return f"near:system:serviceaccount:{self.namespace}:deployer"

    async def connect(self, **changes: str) -> None:
        """Make the account here, and the ConfigMap that says where it is to go."""
        metadata = {"name": "far", "namespace": self.namespace}
        data = {
            "provider": "generic",
            "address": self.plane.server,
            "ca.crt": self.plane.ca.decode(),
            "audiences": AUDIENCE,
            "serviceAccountName": "deployer",
            **changes,
        }
        account = {"apiVersion": "v1", "kind": "ServiceAccount"}
        await self.world.apply(
            account | {"metadata": metadata | {"name": "deployer"}},
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data},
        )

    async def start(self, **spec: Any) -> str:
        """Commit a ConfigMap and have it applied there."""
        repository = self.repository()
        commit = repository.commit({"a.yaml": config_map("a", v="1")})
        await self.world.apply(self.source(repository))
        await self.ready(GIT_REPOSITORY, revision=commit)
        app = self.kustomization(kubeConfig=REF, **{"retryInterval": "500ms", **spec})
        await self.world.apply(app)
        return commit

    async def allow(self, *, allowed: bool = True) -> None:
        """Let the account write there, or no longer."""
        metadata = {"name": "near", "namespace": self.namespace}
        rules = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["*"]}]
        ref = {"apiGroup": RBAC, "kind": "Role", "name": "near"}
        role = {"apiVersion": f"{RBAC}/v1", "kind": "Role", "metadata": metadata}
        binding = role | {"kind": "RoleBinding", "roleRef": ref}
        users = [{"apiGroup": RBAC, "kind": "User", "name": self.user}] if allowed else []
        for obj in (role | {"rules": rules}, binding | {"subjects": users}):
            await self.api.apply(obj, manager="kubectl")

    async def applied(self) -> str:
        """Return what arrived there."""

        async def look() -> str:
            try:
                return str(dig(await self.api.get(CONFIG_MAP, "a", self.namespace), "data", "v"))
            except NotFoundError:
                return ""

        return str(await until(look))

    async def locked_out(self) -> bool:
        """Tell whether the other cluster has noticed that the account may no longer write."""
        what = {"namespace": self.namespace, "verb": "patch", "resource": "configmaps"}
        return not await rights._may(self.api, self.user, what)


@pytest_asyncio.fixture(loop_scope="session")
async def far(world: World, namespace: str, trusting_plane: ControlPlane) -> AsyncIterator[Far]:
    """Give the test a namespace of its own on both clusters."""
    space = Far(world=world, namespace=namespace)
    space.plane = trusting_plane
    async with Client.open(config.from_environment(str(trusting_plane.kubeconfig))) as space.api:
        await space.api.create(
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
        )
        await space.lend_tokens()
        yield space
        await space.api.delete(NAMESPACE, namespace)


async def test_account_of_this_cluster_applies_on_the_other_until_its_rights_are_taken(
    far: Far,
) -> None:
    await far.connect()
    await far.allow()

    commit = await far.start(interval="1s")
    await far.ready(revision=commit)
    arrived = await far.applied()
    await far.allow(allowed=False)
    await until(far.locked_out)
    newer = far.repositories[0].commit({"a.yaml": config_map("a", v="2")})
    await far.request(GIT_REPOSITORY)
    revoked = await far.refused(saying="forbidden")
    stayed = await far.applied()
    await far.allow()
    await far.ready(revision=newer)

    assert (arrived, stayed, await far.applied()) == ("1", "1", "2")
    assert f'User "{far.user}" cannot patch' in condition(revoked, "Ready")["message"]


async def test_token_for_another_audience_does_not_let_in(far: Far) -> None:
    await far.connect(audiences="https://elsewhere.example")
    await far.allow()

    await far.start()
    await far.refused(saying="Unauthorized")
    await far.connect()
    await far.ready()

    assert await far.applied() == "1"


async def test_account_that_does_not_exist_is_named(far: Far) -> None:
    await far.connect(serviceAccountName="nobody")

    await far.start()
    obj = await far.refused(saying="not found")

    message = condition(obj, "Ready")["message"]
    assert message == (
        f"failed to get service account '{far.namespace}/nobody':"
        f" ServiceAccount '{far.namespace}/nobody' not found:"
        " create it, or correct serviceAccountName"
    )


async def test_deletion_ends_although_the_account_is_gone(far: Far) -> None:
    await far.connect()
    await far.allow()
    await far.ready(revision=await far.start())
    await far.world.api.delete(SERVICE_ACCOUNT, "deployer", far.namespace)

    await far.world.api.delete(KUSTOMIZATION, "app", far.namespace)
    await far.world.gone(KUSTOMIZATION, far.namespace, "app")

    assert await far.applied() == "1"


async def test_deletion_waits_for_a_config_map_that_may_be_corrected(far: Far) -> None:
    await far.connect()
    await far.allow()
    await far.ready(revision=await far.start(timeout="5m"))
    await far.connect(address="http://plain.example")

    await far.world.api.delete(KUSTOMIZATION, "app", far.namespace)
    await far.refused(saying="correct it within spec.timeout")
    await far.connect()
    await far.world.gone(KUSTOMIZATION, far.namespace, "app")

    with pytest.raises(NotFoundError):
        await far.api.get(CONFIG_MAP, "a", far.namespace)
