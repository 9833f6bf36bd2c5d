"""Manifests from published guides, field for field, reconcile as they are.

Their hosts are answered by servers on loopback: the processes are given an ``HTTPS_PROXY`` that
leads each host to its own, and trust the CA of their certificates. Nothing in the manifests is
changed.
"""

import asyncio
import ssl
from base64 import b64encode
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

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
    SECRET,
    Space,
    World,
    build_world,
    condition,
    config_map,
    deployment,
)
from tests.fakes import monitoringchart, objectservers
from tests.fakes.chartrepository import ChartRepository
from tests.fakes.charts import chart
from tests.fakes.gitrepository import Repository
from tests.fakes.gitserver import GitServer
from tests.fakes.objectservers import S3Server
from tests.fakes.registry import FakeRegistry, tarball
from tests.fakes.serving import certified
from tests.tools import programs
from toolkit.objects import GroupVersionKind, Json, dig
from toolkit.remote.objectstore.dialect import Ask
from toolkit.remote.objectstore.objectstore import ObjectStore

pytestmark = pytest.mark.asyncio(loop_scope="session")

SEEDS = Path(__file__).parent.parent / "testdata" / "seeds"
LOGIN = ("team", "token")
PLAIN = (
    "charts.bitnami.com",
    "prometheus-community.github.io",
    "ghcr.io",
    "registry-1.docker.io",
    "123456789.dkr.ecr.us-east-1.amazonaws.com",
    "s3.us-east-1.amazonaws.com",
    "s3.amazonaws.com",
)
"""Hosts whose servers here speak no TLS themselves."""

IMAGES = GroupVersionKind("image.toolkit.fluxcd.io", "v1", "ImageUpdateAutomation")
BUCKET = GroupVersionKind("source.toolkit.fluxcd.io", "v1", "Bucket")
HELM_REPOSITORY = GroupVersionKind("source.toolkit.fluxcd.io", "v1", "HelmRepository")
OCI_REPOSITORY = GroupVersionKind("source.toolkit.fluxcd.io", "v1", "OCIRepository")
INGRESS = GroupVersionKind("networking.k8s.io", "v1", "Ingress")
HELM_RELEASE = GroupVersionKind("helm.toolkit.fluxcd.io", "v2", "HelmRelease")
PROMETHEUS = GroupVersionKind(monitoringchart.GROUP, "v1", "Prometheus")
SERVICE = GroupVersionKind("", "v1", "Service")

NGINX = {
    "templates__deployment_yaml": """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: {{ .Release.Name }}}
spec:
  replicas: {{ .Values.replicaCount }}
  selector: {matchLabels: {app: nginx}}
  template:
    metadata: {labels: {app: nginx}}
    spec: {containers: [{name: nginx, image: "registry.example/nginx:1"}]}
""",
    "templates__configmap_yaml": """\
apiVersion: v1
kind: Service
metadata: {name: {{ .Release.Name }}}
spec: {type: {{ .Values.service.type }}, selector: {app: nginx}, ports: [{port: 80}]}
""",
}
TAG = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: {{ .Release.Name }}}
data: {tag: {{ .Values.image.tag }}}
"""


def seed(name: str) -> list[Json]:
    return [doc for doc in yaml.safe_load_all((SEEDS / f"{name}.yaml").read_text()) if doc]


class Pipes:
    """Connections that are passed on, until the end of the block."""

    def __init__(self) -> None:
        self._servers: list[asyncio.Server] = []
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        for server in self._servers:
            server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def proxy(self, ports: Mapping[str, int]) -> str:
        """Run a CONNECT proxy that leads each host to a port of this machine."""

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            head = await reader.readuntil(b"\r\n\r\n")
            host = head.split(b" ")[1].rpartition(b":")[0].decode()
            if host not in ports:
                writer.close()
                return
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            await self._connect(reader, writer, ports[host])

        return f"http://127.0.0.1:{await self._listen(serve)}"

    async def terminate(self, port: int, context: ssl.SSLContext) -> int:
        """Speak TLS in front of a server that does not; return where."""

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await self._connect(reader, writer, port)

        return await self._listen(serve, context)

    async def _listen(self, serve: Any, context: ssl.SSLContext | None = None) -> int:
        server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
        self._servers.append(server)
        return int(server.sockets[0].getsockname()[1])

    async def _connect(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, port: int
    ) -> None:
        upstream_reader, upstream_writer = await asyncio.open_connection("127.0.0.1", port)
        self._tasks.add(asyncio.create_task(_pump(reader, upstream_writer)))
        self._tasks.add(asyncio.create_task(_pump(upstream_reader, writer)))


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        with suppress(ConnectionError, ssl.SSLError):
            while data := await reader.read(1 << 16):
                writer.write(data)
                await writer.drain()
    finally:  # a connection that is left to the collector is a warning in some later test
        writer.close()


@dataclass(kw_only=True)
class Internet:
    """The servers that the manifests name."""

    authority: trustme.CA
    github: GitServer
    charts: ChartRepository
    registry: FakeRegistry
    bucket: S3Server


@pytest.fixture(scope="session")
def versitygw_program() -> Path:
    return programs.path("versitygw")


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def internet(
    tmp_path_factory: pytest.TempPathFactory, versitygw_program: Path
) -> AsyncIterator[Internet]:
    """Run the servers: Git and the registry with credentials, S3 with keys, charts for all."""
    authority = trustme.CA()
    root = tmp_path_factory.mktemp("internet")
    (root / "s3").mkdir()
    async with (
        GitServer(
            root, tls=certified(authority, "github.com"), basic=LOGIN, host="github.com"
        ) as github,
        ChartRepository() as charts,
        FakeRegistry(basic=LOGIN) as registry,
        objectservers.s3(versitygw_program, root / "s3") as bucket,
    ):
        yield Internet(
            authority=authority, github=github, charts=charts, registry=registry, bucket=bucket
        )


@pytest.fixture(scope="module")
def github(internet: Internet) -> GitServer:
    return internet.github


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def world(
    internet: Internet, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[World]:
    """Run a world of our own, because the manifests name their namespaces.

    It is installed into Flux's own namespace, which exists.
    """
    directory = tmp_path_factory.mktemp("seeds")
    authority = internet.authority.cert_pem.bytes()
    trusted = directory / "ca.pem"
    trusted.write_bytes(authority)
    with planes.start("pytest-seeds", alternatives=8) as plane:
        for namespace in ("flux-system", "production", "payments-production", "monitoring"):
            plane.kubectl("create", "namespace", namespace)
        async with Pipes() as pipes:
            context = certified(internet.authority, *PLAIN)
            ports = {"github.com": _port(internet.github.base)}
            for host, address in (
                ("charts.bitnami.com", internet.charts.origin),
                ("prometheus-community.github.io", internet.charts.origin),
                ("ghcr.io", internet.registry.base),
                ("registry-1.docker.io", internet.registry.base),
                ("123456789.dkr.ecr.us-east-1.amazonaws.com", internet.registry.base),
                ("s3.us-east-1.amazonaws.com", internet.bucket.endpoint),
                ("s3.amazonaws.com", internet.bucket.endpoint),
            ):
                ports[host] = await pipes.terminate(_port(address), context)
            env = {
                "HTTPS_PROXY": await pipes.proxy(ports),
                "NO_PROXY": "127.0.0.1,localhost",
                "SSL_CERT_FILE": str(trusted),
            }
            async with build_world(plane, directory, env=env, namespace="flux-system") as built:
                await built.apply(*credentials("flux-system", "git-credentials", ca=authority))
                yield built


def _port(address: str) -> int:
    return int(address.rpartition(":")[2])


def credentials(*names: str, ca: bytes) -> list[Json]:
    """Return the Secrets that the manifests name."""
    data = {"username": LOGIN[0], "password": LOGIN[1], "ca.crt": ca.decode()}
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


async def test_an_installation_into_the_namespace_of_flux_shares_its_sources(world: World) -> None:
    assert world.stack.options.namespace == "flux-system"
    grant = GroupVersionKind("policy.penstock.dev", "v1alpha1", "ReferenceGrant")

    (given,) = await world.api.list(grant)

    assert given["metadata"]["namespace"] == "flux-system"
    assert {each["namespace"] for each in given["spec"]["from"]} == {"*"}


def hosted(github: GitServer, name: str) -> Repository:
    """Make a repository whose address does not end in ``.git``."""
    made = github.repository(name)
    made.path = made.path.rename(made.path.with_suffix(""))
    return made


@pytest.fixture(scope="module")
def infra(github: GitServer) -> Repository:
    return hosted(github, "my-org/fleet-infra")


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def fleet(world: World, infra: Repository) -> str:
    """Commit what the guide's repository holds and apply its GitRepository."""
    service = yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "payments-api"},
            "spec": {"selector": {"app": "payments-api"}, "ports": [{"port": 80}]},
        }
    )
    commit = infra.commit(
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


@pytest.fixture(scope="module")
def manifests(github: GitServer) -> Repository:
    return hosted(github, "your-org/kubernetes-manifests")


async def test_toolkit_kustomization_with_validation_is_reconciled(
    space: Space, manifests: Repository
) -> None:
    manifest = yaml.safe_load(deployment("web-app"))
    manifest["metadata"]["namespace"] = "default"
    commit = manifests.commit({"apps/web-app/deployment.yaml": yaml.safe_dump(manifest)})
    source = seed("toolkit-gitrepository-v1beta2")[0]

    await space.world.apply(source, *seed("toolkit-kustomization"))

    await space.ready(KUSTOMIZATION, "web-app", revision=commit)
    web = await space.world.api.get(DEPLOYMENT, "web-app", "default")
    assert web["status"]["availableReplicas"] == 1


@pytest.fixture(scope="module")
def offered(internet: Internet) -> None:
    """Have the charts in the repositories that the guides name."""
    published = (
        ("nginx", "13.2.20", chart("nginx", "13.2.20", **NGINX)),
        (monitoringchart.NAME, "65.8.1", monitoringchart.files("65.8.1")),
        (monitoringchart.NAME, "66.0.0", monitoringchart.files("66.0.0")),
    )
    for name, version, files in published:
        data = internet.charts.add(name, version, files=files, urls=[f"{name}-{version}.tgz"])
        for folder in ("bitnami", "helm-charts"):
            internet.charts.files[f"/{folder}/{name}-{version}.tgz"] = data
            internet.charts.files[f"/{folder}/index.yaml"] = internet.charts.index


@pytest.mark.usefixtures("offered")
async def test_chart_repositories_are_indexed(space: Space) -> None:
    await space.world.apply(*seed("toolkit-helmrepository-v1beta2"), *seed("guide-helmrepository"))

    for name in ("bitnami", "prometheus-community"):
        source = await space.ready(HELM_REPOSITORY, name)
        assert condition(source, "Ready")["message"].startswith("stored artifact: revision 'sha")


@pytest.mark.usefixtures("offered")
async def test_toolkit_chart_of_a_repository_is_released(space: Space) -> None:
    await space.world.apply(*seed("toolkit-helmrepository-v1beta2"))
    await space.world.apply(*seed("toolkit-helmrelease-v2beta1"))

    obj = await space.ready(HELM_RELEASE, "nginx")

    assert obj["status"]["history"][0]["chartVersion"] == "13.2.20"
    assert (await space.get(DEPLOYMENT, "nginx"))["spec"]["replicas"] == 3
    assert (await space.get(SERVICE, "nginx"))["spec"]["type"] == "LoadBalancer"


async def test_toolkit_chart_of_git_is_released(space: Space, github: GitServer) -> None:
    repository = github.repository("my-repo")
    files = chart("my-app", "0.1.0", templates__configmap_yaml=TAG)
    repository.commit({f"charts/my-app/{name}": text for name, text in files.items()})
    source = space.source(repository, "my-repo", secretRef={"name": "git-credentials"})

    await space.world.apply(source, *seed("toolkit-helmrelease-git-v2beta1"))

    await space.ready(HELM_RELEASE, "my-app")
    assert (await space.get(CONFIG_MAP, "my-app"))["data"] == {"tag": "v1.0.0"}


@pytest.mark.usefixtures("offered")
async def test_guide_stack_is_released_with_its_values(world: World) -> None:
    there = Space(world=world, namespace="monitoring")
    override = yaml.safe_dump({"prometheus": {"prometheusSpec": {"replicas": 2}}})
    url = {"slack_webhook_url": "https://hooks.example.com/secret"}
    await world.apply(
        *seed("guide-helmrepository"),
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "prometheus-values-override", "namespace": "monitoring"},
            "data": {"values.yaml": override},
        },
        _secret("alertmanager-slack-webhook", url, "monitoring"),
        *seed("guide-helmrelease"),
    )

    obj = await there.ready(HELM_RELEASE, "kube-prometheus-stack")

    release = obj["status"]["history"][0]
    assert release["chartVersion"] == "65.8.1"
    prometheus = await there.get(PROMETHEUS, "kube-prometheus-stack")
    given = seed("guide-helmrelease")[0]["spec"]["values"]["prometheus"]["prometheusSpec"]
    assert prometheus["spec"] == {**given, "replicas": 2}
    alerts = await there.get(SECRET, "alertmanager")
    assert alerts["data"]["url"] == b64encode(url["slack_webhook_url"].encode()).decode()
    for name in ("operator", "grafana"):
        web = await there.get(DEPLOYMENT, f"kube-prometheus-stack-{name}")
        assert web["status"]["availableReplicas"] == 1
    hook = await there.get(CONFIG_MAP, "kube-prometheus-stack-admission")
    assert hook["data"] == {"revision": "1"}
    assert "hooks.example.com" not in str(obj)


async def test_chart_repository_in_a_registry_is_left_alone(space: Space) -> None:
    await space.world.apply(*seed("guide-helmrepository-oci"))
    await space.world.apply(*seed("guide-helmrepository"))

    await space.ready(HELM_REPOSITORY, "prometheus-community")
    source = await space.get(HELM_REPOSITORY, "karpenter")
    assert "conditions" not in source["status"]
    assert "finalizers" not in source["metadata"]


async def test_bucket_is_stored(space: Space, internet: Internet) -> None:
    place = await internet.bucket.place()
    named = replace(place, bucket="my-manifests-bucket")
    async with ObjectStore(named) as store:
        await store._ask(Ask(method="PUT", path=f"/{named.bucket}"), store._subject("make it"))
        await store.write_bytes("app.yaml", config_map("app", from_="a bucket").encode())
    keys = {
        "accesskey": objectservers.ACCESS_KEY,
        "secretkey": objectservers.SECRET_KEY,
    }

    await space.world.apply(_secret("s3-credentials", keys), *seed("toolkit-bucket-v1beta2"))

    source = await space.ready(BUCKET, "manifests")
    assert condition(source, "Ready")["message"].startswith("stored artifact: revision 'sha256:")


async def test_artifact_of_a_registry_is_stored(space: Space, internet: Internet) -> None:
    files = {"app.yaml": config_map("app", from_="a registry")}
    pushed = internet.registry.push("your-org/manifests", "latest", [tarball(files)])
    login = internet.registry.dockerconfig(*LOGIN).decode()
    config = {".dockerconfigjson": login.replace(internet.registry.host, "ghcr.io")}
    secret = _secret("oci-credentials", config) | {"type": "kubernetes.io/dockerconfigjson"}

    await space.world.apply(secret, *seed("toolkit-ocirepository-v1beta2"))

    source = await space.ready(OCI_REPOSITORY, "oci-artifacts")
    assert condition(source, "Ready")["message"] == (
        f"stored artifact for digest 'latest@{pushed['digest']}'"
    )


async def test_toolkit_image_becomes_a_commit(
    space: Space, internet: Internet, manifests: Repository
) -> None:
    image = "docker.io/your-org/web-app"
    _offer(internet.registry, "your-org/web-app", "0.9.0", "1.4.2", "2.0.0")
    manifests.accept_pushes()
    manifests.commit({"apps/web-app/image.yaml": _marked(image, "web-app")})
    login = _login(internet.registry, "registry-credentials", "https://index.docker.io/v1/")
    source = seed("toolkit-gitrepository-v1beta2")[0]

    await space.world.apply(source, login, *seed("toolkit-image-automation-v1beta2"))

    await _pushed(space, "web-app", manifests)
    told = manifests.git("log", "-1", "--format=%an|%B", "main").decode().strip()
    assert told == f"Flux|Update image: {image}:1.4.2"
    assert f"{image}:1.4.2 #" in manifests.content("apps/web-app/image.yaml")


@pytest.mark.usefixtures("fleet")
async def test_guide_image_becomes_a_commit(
    space: Space, internet: Internet, infra: Repository
) -> None:
    host = "123456789.dkr.ecr.us-east-1.amazonaws.com"
    _offer(internet.registry, "payments-api", "1.4.2", "1.5.0", "1.6.0-rc.1")
    infra.accept_pushes()
    infra.commit({"apps/payments-api/image.yaml": _marked(f"{host}/payments-api", "payments-api")})
    login = _login(internet.registry, "ecr-credentials", host)

    await space.world.apply(login, *seed("guide-image-automation-v1beta2"))

    await _pushed(space, "flux-system", infra)
    told = infra.git("log", "-1", "--format=%ae|%s", "main").decode().strip()
    assert told == f"flux@codingprotocols.com|chore: update {host}/payments-api:1.5.0"
    assert f"{host}/payments-api:1.5.0 #" in infra.content("apps/payments-api/image.yaml")


def _offer(registry: FakeRegistry, name: str, *tags: str) -> None:
    for tag in tags:
        registry.push(name, tag, [tag.encode()])


def _marked(image: str, policy: str) -> str:
    marker = f'# {{"$imagepolicy": "flux-system:{policy}"}}'
    manifest = config_map("image", image="OLD")
    return manifest.replace("OLD", f"{image}:1.0.0 {marker}")


def _login(registry: FakeRegistry, name: str, host: str) -> Json:
    config = registry.dockerconfig(*LOGIN).decode().replace(registry.host, host)
    secret = _secret(name, {".dockerconfigjson": config})
    return secret | {"type": "kubernetes.io/dockerconfigjson"}


async def _pushed(space: Space, name: str, repository: Repository) -> None:
    """Wait until the automation has pushed what is on the branch."""
    await space.world.until(
        IMAGES,
        "flux-system",
        name,
        lambda obj: dig(obj, "status", "lastPushCommit") == repository.revision("main"),
    )


def _secret(name: str, data: Mapping[str, str], namespace: str = "flux-system") -> Json:
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": dict(data)}
