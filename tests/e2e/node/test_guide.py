"""A published guide, walked through in its order on a cluster that starts with nothing.

Manifests are field for field those of the guide (``tests/testdata/seeds``); only hosts and images
are servers and images of this machine. All of them come by Git, as the guide wants it.
"""

import asyncio
import base64
import subprocess
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from pathlib import Path

import pytest
import pytest_asyncio
import trustme
import yaml

from release import building
from tests.e2e.node.cluster import Cluster, namespace, until, web
from tests.fakes import monitoringchart
from tests.fakes.chartrepository import ChartRepository
from tests.fakes.gitserver import Repository
from tests.fakes.hosting import Hosting
from tests.fakes.serving import certified
from tests.tools import command, realnode
from toolkit.objects import Json, dig

REASON = realnode.unavailable()
pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1200),
    pytest.mark.skipif(bool(REASON), reason=REASON or "a node can run here"),
    pytest.mark.asyncio(loop_scope="session"),
]
SEEDS = Path(__file__).parents[2] / "testdata" / "seeds"
FLUX = "flux-system"
TOKEN = "token-s3cret"
OWNER, NAME, PATH = "my-org", "fleet-infra", "clusters/production"
NAMESPACES = ("production", "payments-production", "monitoring")
ROLES = "rbac.authorization.k8s.io/v1"


@dataclass(kw_only=True)
class Guide:
    """The reader: a cluster, a repository at a hosting service, and what the repository holds."""

    cluster: Cluster
    service: Hosting
    charts: ChartRepository
    ca: Path
    follows: bool = False
    """Whether the guide's own source is there."""

    @property
    def repository(self) -> Repository:
        return self.service.made[f"{OWNER}/{NAME}"]

    async def commit(self, files: dict[str, list[Json]]) -> None:
        """Commit manifests, and have the sources fetched and the cluster's own path applied."""
        self.repository.commit({path: yaml.safe_dump_all(docs) for path, docs in files.items()})
        if self.follows:
            done = await self.penstock("reconcile", "source", "git", NAME)
            assert done.code == 0, done.err
        await self.reconcile(FLUX)

    async def reconcile(self, name: str, *options: str) -> None:
        """Fetch and apply now."""
        said = ("reconcile", "kustomization", name, "--with-source", *options)
        done = await self.penstock(*said)
        assert done.code == 0, done.err

    async def penstock(self, *arguments: str) -> command.Ended:
        return await self.cluster.penstock(*arguments, "--namespace", FLUX)

    async def ready(self, what: str, *, place: str = FLUX) -> Json:
        """Return an object once it is Ready."""
        await asyncio.to_thread(self.cluster.kubectl, "wait", *_until("Ready", what, place))
        return await self.get(what, place=place)

    async def get(self, what: str, *, place: str = FLUX) -> Json:
        return await asyncio.to_thread(self.cluster.of, what, f"--namespace={place}")

    async def told(self, what: str, saying: str) -> None:
        """Wait until an object is not ready, and says why."""

        async def look() -> bool:
            rows = dig(await self.get(what), "status", "conditions", default=())
            return any(
                row["type"] == "Ready" and row["status"] == "False" and saying in row["message"]
                for row in rows
            )

        await until(look)


def _until(condition: str, what: str, place: str) -> tuple[str, ...]:
    return (what, f"--namespace={place}", f"--for=condition={condition}", "--timeout=90s")


def seed(name: str, **changed: object) -> list[Json]:
    """Return the objects of a file of the guide, with some fields of their specs."""
    found = [doc for doc in yaml.safe_load_all((SEEDS / f"{name}.yaml").read_text()) if doc]
    for obj in found:
        if changed:
            obj["spec"] |= changed
    return found


def config_map(name: str, place: str = "", **data: str) -> Json:
    metadata = {"name": name} | ({"namespace": place} if place else {})
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def secret(name: str, place: str, **data: str) -> Json:
    metadata = {"name": name, "namespace": place}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": data}


def follows(name: str, path: str, **spec: object) -> Json:
    """Return a Kustomization as the guide's others are."""
    return {
        "apiVersion": "kustomize.toolkit.fluxcd.io/v1",
        "kind": "Kustomization",
        "metadata": {"name": name, "namespace": FLUX},
        "spec": {
            "interval": "5m",
            "retryInterval": "2s",
            "prune": True,
            "path": path,
            "sourceRef": {"kind": "GitRepository", "name": NAME},
            **spec,
        },
    }


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def guide(
    real_node: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Guide]:
    """Run the servers, which pods reach at the address of this machine."""
    directory, address = tmp_path_factory.mktemp("guide"), real_node.address
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(directory / "ca.pem"))
    tls = certified(authority, address)
    async with (
        Hosting(
            directory / "git", "github", tls=tls, token=TOKEN, user=OWNER, address=address
        ) as service,
        ChartRepository(host=address) as charts,
    ):
        for version in ("65.8.1", "66.0.0"):
            charts.add(monitoringchart.NAME, version, files=_runnable(version))
        yield Guide(
            cluster=real_node,
            service=service,
            charts=charts,
            ca=directory / "ca.pem",
        )


def _runnable(version: str) -> dict[str, str]:
    """Return the chart with images that this node has."""
    files = monitoringchart.files(version)
    for name in ("operator", "grafana"):
        image = f'image: "registry.example/{name}:1"'
        runs = f'image: "{realnode.IMAGE}", args: [serve]'
        files = {path: text.replace(image, runs) for path, text in files.items()}
    return files


async def test_bootstrap_installs_and_follows_the_repository(
    guide: Guide, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_TOKEN", TOKEN)
    words = [f"--owner={OWNER}", f"--repository={NAME}", "--branch=main", f"--path={PATH}"]
    here = ["--hostname", guide.service.hostname, "--ca-file", str(guide.ca), "--token-auth"]
    image = ["--image", building.reference(), "--timeout", "8m"]

    done = await guide.penstock("bootstrap", "github", *words, "--personal", *here, *image)

    assert done.code == 0, done.err
    assert TOKEN not in done.out + done.err
    assert guide.service.repositories[f"{OWNER}/{NAME}"].private
    names = ("gotk-components.yaml", "gotk-sync.yaml", "kustomization.yaml")
    assert guide.repository.listing("main").keys() == {f"{PATH}/{FLUX}/{name}" for name in names}
    applied = await guide.ready(f"kustomization/{FLUX}")
    head = guide.repository.revision("main")
    assert applied["status"]["lastAppliedRevision"] == f"main@sha1:{head}"
    # The guide's URL has no suffix.
    path = guide.repository.path
    path.with_suffix("").symlink_to(path, target_is_directory=True)


async def test_sources_are_fetched(guide: Guide) -> None:
    git = seed("guide-gitrepository", url=f"https://{guide.service.hostname}/{OWNER}/{NAME}")
    helm = seed("guide-helmrepository", url=guide.charts.url)

    await guide.commit(
        {
            f"{PATH}/namespaces.yaml": [namespace(name) for name in NAMESPACES],
            f"{PATH}/sources.yaml": [*git, *helm],
        }
    )

    guide.follows = True
    fetched = await guide.ready(f"gitrepository/{NAME}")
    head = guide.repository.revision("main")
    assert fetched["status"]["artifact"]["revision"] == f"main@sha1:{head}"
    await guide.ready("helmrepository/prometheus-community")


async def test_kustomization_waits_for_health_and_substitutes(guide: Guide) -> None:
    variables = seed("guide-cluster-vars")[0]
    variables["metadata"]["name"] = "cluster-config"

    await guide.commit(
        {
            "apps/payments-api/api.yaml": [
                web("payments-api"),
                config_map("settings", cluster="${CLUSTER_NAME}"),
            ],
            f"{PATH}/payments-api.yaml": [variables, *seed("guide-kustomization")],
        }
    )
    await guide.reconcile("payments-api")

    await guide.ready("kustomization/payments-api")
    api = await guide.get("deployment/payments-api", place="production")
    settings = await guide.get("configmap/settings", place="production")
    assert api["status"]["availableReplicas"] == 1
    assert settings["data"] == {"cluster": "production"}


async def test_dependency_is_applied_first(guide: Guide) -> None:
    apps = seed("guide-dependencies", **follows("", "./apps")["spec"] | {"path": "./apps/shop"})
    broken = follows("cert-manager", "./infrastructure/missing", wait=True)
    there = {"targetNamespace": "production", "wait": True}
    await guide.commit(
        {
            "infrastructure/cert-manager/web.yaml": [web("cert-manager")],
            "infrastructure/external-dns/web.yaml": [web("external-dns")],
            "apps/shop/shop.yaml": [config_map("shop", "production")],
            f"{PATH}/infrastructure.yaml": [
                broken,
                follows("external-dns", "./infrastructure/external-dns", **there),
            ],
            f"{PATH}/apps.yaml": apps,
        }
    )
    await guide.told("kustomization/apps", "cert-manager' is not ready")

    await guide.commit(
        {
            f"{PATH}/infrastructure.yaml": [
                follows("cert-manager", "./infrastructure/cert-manager", **there),
                follows("external-dns", "./infrastructure/external-dns", **there),
            ],
        }
    )

    await guide.ready("kustomization/apps")
    await guide.get("configmap/shop", place="production")
    first = await guide.get("deployment/cert-manager", place="production")
    assert first["status"]["availableReplicas"] == 1


async def test_chart_is_released_with_its_values(guide: Guide) -> None:
    values = {"values.yaml": yaml.safe_dump({"prometheus": {"prometheusSpec": {"replicas": 2}}})}
    hook = {"slack_webhook_url": "https://hooks.example.com/secret"}
    await asyncio.to_thread(
        guide.cluster.apply,
        config_map("prometheus-values-override", "monitoring", **values),
        secret("alertmanager-slack-webhook", "monitoring", **hook),
    )

    await guide.commit({f"{PATH}/monitoring.yaml": seed("guide-helmrelease")})

    released = await guide.ready("helmrelease/kube-prometheus-stack", place="monitoring")
    assert released["status"]["history"][0]["chartVersion"] == "65.8.1"
    operator = await guide.get("deployment/kube-prometheus-stack-operator", place="monitoring")
    assert operator["status"]["availableReplicas"] == 1
    prometheus = await guide.get("prometheus/kube-prometheus-stack", place="monitoring")
    assert prometheus["spec"]["replicas"] == 2
    assert prometheus["spec"]["retention"] == "30d"


async def test_tenant_is_held_to_the_rights_of_its_account(guide: Guide) -> None:
    path = "tenants/payments/team.yaml"
    await guide.commit(
        {
            path: [config_map("tenant", team="payments")],
            f"{PATH}/tenant.yaml": [*seed("guide-tenant-rbac"), *seed("guide-tenant")],
        }
    )
    await guide.reconcile("payments-team")
    tenant = await guide.get("configmap/tenant", place="payments-production")
    assert tenant["data"] == {"team": "payments"}

    role = {"apiVersion": ROLES, "kind": "ClusterRole", "metadata": {"name": "stolen"}}
    await guide.commit({path: [config_map("tenant", team="payments"), role]})
    refused = await guide.penstock("reconcile", "kustomization", "payments-team", "--with-source")

    assert refused.code == 1
    assert f"system:serviceaccount:{FLUX}:payments-reconciler" in refused.err
    assert 'clusterroles.rbac.authorization.k8s.io "stolen" is forbidden' in refused.err
    await guide.commit({path: [config_map("tenant", team="payments")]})
    await guide.ready("kustomization/payments-team")


async def test_secret_of_sops_is_decrypted(
    guide: Guide, sops_program: Path, age_keygen_program: Path, tmp_path: Path
) -> None:
    database = secret("database", "production", password="hunter2")
    key, sealed = await asyncio.to_thread(
        sealing, tmp_path, database, sops=sops_program, age_keygen=age_keygen_program
    )
    guide.cluster.apply(secret("sops-age-key", FLUX, **{"age.agekey": key}))
    decryption = {"provider": "sops", "secretRef": {"name": "sops-age-key"}}

    guide.repository.commit({"secrets/database.yaml": sealed})
    await guide.commit(
        {f"{PATH}/secrets.yaml": [follows("secrets", "./secrets", decryption=decryption)]}
    )

    await guide.ready("kustomization/secrets")
    found = await guide.get("secret/database", place="production")
    assert base64.b64decode(found["data"]["password"]) == b"hunter2"


def sealing(directory: Path, obj: Json, *, sops: Path, age_keygen: Path) -> tuple[str, str]:
    """Return a new key, and the object encrypted for it, by the guide's commands."""
    key, plain = directory / "age.agekey", directory / "secret.yaml"
    subprocess.run([age_keygen, "-o", key], check=True, capture_output=True)
    recipient = key.read_text().split("public key: ")[1].split()[0]
    plain.write_text(yaml.safe_dump(obj))
    rule = ("--encrypted-regex", "^(data|stringData)$")
    words: list[str | Path] = [sops, f"--age={recipient}", "--encrypt", *rule, plain]
    sealed = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    return key.read_text(), sealed


async def test_suspended_kustomization_rests_until_it_is_resumed(guide: Guide) -> None:
    path = "apps/payments-api/api.yaml"
    changed = [web("payments-api"), config_map("settings", cluster="${CLUSTER_NAME}", more="yes")]
    assert (await guide.penstock("suspend", "kustomization", "payments-api")).code == 0
    guide.repository.commit({path: yaml.safe_dump_all(changed)})
    assert (await guide.penstock("reconcile", "source", "git", NAME)).code == 0
    # What the same revision changes elsewhere is there.
    await guide.reconcile("apps")
    rested = await guide.get("configmap/settings", place="production")

    resumed = await guide.penstock("resume", "kustomization", "payments-api")

    assert rested["data"] == {"cluster": "production"}
    assert resumed.code == 0, resumed.err
    after = await guide.get("configmap/settings", place="production")
    assert after["data"] == {"cluster": "production", "more": "yes"}


async def test_reconcile_with_source_fetches_first(guide: Guide) -> None:
    changed = [web("payments-api"), config_map("settings", cluster="${CLUSTER_NAME}", now="yes")]
    head = guide.repository.commit({"apps/payments-api/api.yaml": yaml.safe_dump_all(changed)})

    await guide.reconcile("payments-api")

    applied = await guide.get("kustomization/payments-api")
    assert applied["status"]["lastAppliedRevision"] == f"main@sha1:{head}"
    settings = await guide.get("configmap/settings", place="production")
    assert settings["data"]["now"] == "yes"


async def test_what_leaves_the_repository_leaves_the_cluster(guide: Guide) -> None:
    await guide.commit({"apps/payments-api/api.yaml": [web("payments-api")]})
    await guide.reconcile("payments-api")

    left = guide.cluster.kubectl("get", "configmap", "--namespace=production", "--output=name")

    assert "configmap/settings" not in left.split()


async def test_uninstalling_leaves_the_cluster_as_it_was(guide: Guide) -> None:
    refused = await guide.penstock("uninstall", "--silent", "--custom-resources")
    assert refused.code == 1
    assert f"Secret {FLUX}/sops-age-key" in refused.err

    done = await guide.penstock("uninstall", "--silent", "--custom-resources", "--force")

    assert done.code == 0, done.err
    (pod,) = guide.cluster.pods("payments-api", "production")
    assert pod["status"]["phase"] == "Running"
    remove(
        guide.cluster, ("namespace", NAMESPACES), ("crd", [f"prometheuses.{monitoringchart.GROUP}"])
    )
    await guide.cluster.emptied()


def remove(cluster: Cluster, *rows: tuple[str, Iterable[str]]) -> None:
    """Delete what the user, and not the installation, has brought."""
    for kind, names in rows:
        cluster.kubectl("delete", kind, *names, "--wait=true")
