"""Manifests from published guides, field for field, reconcile as they are.

Their Git hosts are answered by a server on loopback: the processes are given an ``HTTPS_PROXY``
that leads every connection there, and the credentials' Secret carries its CA. Nothing in the
manifests is changed.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
import pytest_asyncio
import trustme
import yaml

from controlplane import plane as planes
from tests.e2e.conftest import (
    CONFIG_MAP,
    DEPLOYMENT,
    GIT_REPOSITORY,
    KUSTOMIZATION,
    Space,
    World,
    build_world,
    condition,
    config_map,
    deployment,
)
from tests.fakes.gitserver import GitServer
from toolkit.objects import GroupVersionKind, Json

pytestmark = pytest.mark.asyncio(loop_scope="session")

SEEDS = Path(__file__).parent.parent / "testdata" / "seeds"
INGRESS = GroupVersionKind("networking.k8s.io", "v1", "Ingress")


def seed(name: str) -> list[Json]:
    return [doc for doc in yaml.safe_load_all((SEEDS / f"{name}.yaml").read_text()) if doc]


@asynccontextmanager
async def leading_to(port: int) -> AsyncIterator[str]:
    """Run a CONNECT proxy that leads to one port of this machine, whatever is asked for."""
    pumps: set[asyncio.Task[None]] = set()

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while data := await reader.read(1 << 16):
                writer.write(data)
                await writer.drain()
        writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        upstream_reader, upstream_writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        pumps.add(asyncio.create_task(pump(reader, upstream_writer)))
        pumps.add(asyncio.create_task(pump(upstream_reader, writer)))

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        for task in pumps:
            task.cancel()
        await asyncio.gather(*pumps, return_exceptions=True)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def github(
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[tuple[GitServer, bytes]]:
    """Serve repositories as github.com does, with credentials; yields the CA as well."""
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("github.com").configure_cert(context)
    root = tmp_path_factory.mktemp("github")
    async with GitServer(root, tls=context, basic=("team", "token"), host="github.com") as server:
        yield server, authority.cert_pem.bytes()


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def world(
    github: tuple[GitServer, bytes], tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[World]:
    """Run a world of our own, because the manifests name their namespaces."""
    server, authority = github
    with planes.start("pytest-seeds", alternatives=8) as plane:
        for namespace in ("flux-system", "production", "payments-production"):
            plane.kubectl("create", "namespace", namespace)
        async with leading_to(int(server.base.rpartition(":")[2])) as proxy:
            env = {"HTTPS_PROXY": proxy, "NO_PROXY": "127.0.0.1,localhost"}
            directory = tmp_path_factory.mktemp("seeds")
            async with build_world(plane, directory, env=env) as built:
                await built.apply(*credentials("flux-system", "git-credentials", ca=authority))
                yield built


def credentials(*names: str, ca: bytes) -> list[Json]:
    """Return the Secrets that the manifests name."""
    data = {"username": "team", "password": "token", "ca.crt": ca.decode()}
    return [
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": name, "namespace": "flux-system"},
            "stringData": data,
        }
        for name in names
    ]


@pytest.fixture
def space(world: World) -> Space:
    return Space(world=world, namespace="flux-system")


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def fleet(world: World, github: tuple[GitServer, bytes]) -> str:
    """Commit what the guide's repository holds and apply its GitRepository."""
    service = yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "payments-api"},
            "spec": {"selector": {"app": "payments-api"}, "ports": [{"port": 80}]},
        }
    )
    repository = github[0].repository("my-org/fleet-infra")
    repository.path.rename(repository.path.with_suffix(""))
    repository.path = repository.path.with_suffix("")
    commit = repository.commit(
        {
            "apps/payments-api/deployment.yaml": deployment("payments-api", replicas=2),
            "apps/payments-api/service.yaml": service,
            "apps/payments-api/settings.yaml": config_map("settings", cluster="${CLUSTER_NAME}"),
            "tenants/payments/settings.yaml": config_map("tenant", team="payments"),
            "clusters/ingress.yaml": ingress(),
        }
    )
    await world.apply(*seed("guide-gitrepository"))
    return commit


def ingress() -> str:
    """Return the guide's Ingress, completed with what the API server demands."""
    obj = seed("guide-ingress")[0]
    backend = {"service": {"name": "api", "port": {"number": 80}}}
    http = {"paths": [{"path": "/", "pathType": "Prefix", "backend": backend}]}
    obj["spec"]["rules"][0]["http"] = http
    obj["metadata"]["namespace"] = "production"
    return yaml.safe_dump(obj)


async def test_guide_repository_is_fetched(space: Space, fleet: str) -> None:
    source = await space.ready(GIT_REPOSITORY, "fleet-infra", revision=fleet)

    assert condition(source, "Ready")["message"] == (
        f"stored artifact for revision 'main@sha1:{fleet}'"
    )


async def test_guide_kustomization_waits_for_health_and_substitutes(
    space: Space, fleet: str
) -> None:
    variables = seed("guide-cluster-vars")[0]
    variables["metadata"]["name"] = "cluster-config"
    await space.world.apply(variables, *seed("guide-kustomization"))

    await space.ready(KUSTOMIZATION, "payments-api", revision=fleet)

    web = await space.world.api.get(DEPLOYMENT, "payments-api", "production")
    settings = await space.world.api.get(CONFIG_MAP, "settings", "production")
    assert web["status"]["availableReplicas"] == 2
    assert settings["data"] == {"cluster": "production"}


async def test_guide_tenant_is_applied_as_its_account(space: Space, fleet: str) -> None:
    await space.world.apply(*seed("guide-tenant-rbac"), *seed("guide-tenant"))

    await space.ready(KUSTOMIZATION, "payments-team", revision=fleet)

    obj = await space.world.api.get(CONFIG_MAP, "tenant", "payments-production")
    assert obj["data"] == {"team": "payments"}


async def test_guide_fragments_work_once_completed(space: Space, fleet: str) -> None:
    variables = seed("guide-cluster-vars")
    rest = {"interval": "5m", "prune": True, "path": "./clusters"}
    rest["sourceRef"] = {"kind": "GitRepository", "name": "fleet-infra"}
    fragment = seed("guide-substitution")[0]
    fragment["metadata"].setdefault("namespace", "flux-system")
    fragment["spec"] |= rest
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "cluster-secrets", "namespace": "flux-system"},
        "stringData": {"TOKEN": "x"},
    }

    await space.world.apply(*variables, secret, fragment)

    await space.ready(KUSTOMIZATION, fragment["metadata"]["name"], revision=fleet)
    obj = await space.world.api.get(INGRESS, "api", "production")
    assert obj["spec"]["rules"][0]["host"] == "api.myapp.example.com"


async def test_toolkit_kustomization_with_validation_is_reconciled(
    space: Space, github: tuple[GitServer, bytes]
) -> None:
    repository = github[0].repository("your-org/kubernetes-manifests")
    repository.path.rename(repository.path.with_suffix(""))
    repository.path = repository.path.with_suffix("")
    manifest = yaml.safe_load(deployment("web-app"))
    manifest["metadata"]["namespace"] = "default"
    commit = repository.commit({"apps/web-app/deployment.yaml": yaml.safe_dump(manifest)})
    source = seed("toolkit-gitrepository-v1beta2")[0]
    source["apiVersion"] = "source.toolkit.fluxcd.io/v1"  # v1beta2 is not served yet

    await space.world.apply(source, *seed("toolkit-kustomization"))

    await space.ready(KUSTOMIZATION, "web-app", revision=commit)
    web = await space.world.api.get(DEPLOYMENT, "web-app", "default")
    assert web["status"]["availableReplicas"] == 1
