"""The image on a real node: installed by the command, every process works from it, and it leaves.

The tests follow one installation through its life, in the order of this file.
"""

import asyncio
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from controlplane import plane
from controlplane.binaries import Variant
from controlplane.plane import ControlPlane
from release import building
from tests.fakes.gitserver import GitServer
from tests.tools import command, realnode
from tests.tools.waiting import SECONDS, until
from toolkit.objects import Json

REASON = realnode.unavailable()
pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1200),
    pytest.mark.skipif(bool(REASON), reason=REASON or "a node can run here"),
]
PATIENCE = f"--timeout={SECONDS:.0f}s"
PLACE, TEAM = "penstock-system", "team"
REPLICAS = 2
DEPLOYMENTS = {
    "source-controller",
    "kustomize-controller",
    "helm-controller",
    "notification-controller",
    "webhook",
    "penstock-apiserver",
}


@dataclass(frozen=True)
class Cluster:
    """A node that has the image."""

    running: ControlPlane

    @property
    def address(self) -> str:
        """Where pods find servers of this machine."""
        assert self.running.addresses is not None
        return self.running.addresses.host

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        return self.running.kubectl(*arguments, stdin=stdin, timeout=SECONDS + 30)

    def of(self, *query: str) -> Json:
        """Return a list of objects, or one."""
        found: Json = json.loads(self.kubectl("get", *query, "--output=json"))
        return found

    def apply(self, *objects: Json) -> None:
        self.kubectl("apply", "--filename=-", stdin=yaml.safe_dump_all(objects))

    async def penstock(self, *arguments: str) -> command.Ended:
        return await command.penstock(self.running.kubeconfig, *arguments)


@pytest.fixture(scope="module")
def real_node(
    tmp_path_factory: pytest.TempPathFactory, built_image: building.Image
) -> Iterator[Cluster]:
    """Start a node that has the image of this checkout."""
    archive = tmp_path_factory.mktemp("image") / "penstock.tar"
    archive.write_bytes(built_image.packed.archive)
    with plane.start("pytest-image", alternatives=8, variant=Variant.NODE) as running:
        running.load(archive)
        realnode.load_probe(running, archive.parent)
        yield Cluster(running)


async def test_all_pods_become_ready_under_the_restricted_profile(real_node: Cluster) -> None:
    options = ("--image", building.reference(), "--components", "ha", "--timeout", "8m")

    done = await real_node.penstock("install", *options)

    assert done.code == 0, done.err
    labels = real_node.of("namespace", PLACE)["metadata"]["labels"]
    assert labels["pod-security.kubernetes.io/enforce"] == "restricted"
    assert real_node.of("networkpolicies", f"--namespace={PLACE}")["items"]
    pods = real_node.of("pods", f"--namespace={PLACE}")["items"]
    statuses = [row for pod in pods for row in pod["status"]["containerStatuses"]]
    assert {pod["metadata"]["labels"]["app"] for pod in pods} == DEPLOYMENTS
    assert len(pods) == len(DEPLOYMENTS) * REPLICAS
    assert {row["restartCount"] for row in statuses} == {0}
    assert {row["image"] for row in statuses} == {building.reference()}


async def test_installation_is_found_well(real_node: Cluster) -> None:
    found = await real_node.penstock("check")

    assert found.code == 0, found.out + found.err


def test_gate_answers_by_its_service(real_node: Cluster) -> None:
    real_node.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": TEAM}})

    with pytest.raises(plane.ControlPlaneError, match="no ReferenceGrant in namespace 'default'"):
        real_node.apply(_kustomization(sourceRef={**_REF, "namespace": "default"}))


async def test_commit_becomes_a_running_pod(real_node: Cluster, tmp_path: Path) -> None:
    async with GitServer(tmp_path, host=real_node.address, address=real_node.address) as server:
        repository = server.repository("app")
        commit = repository.commit({"web.yaml": yaml.safe_dump(_web())})
        await asyncio.to_thread(real_node.apply, _source(repository.url), _kustomization())

        for kind in ("gitrepository", "kustomization"):
            await asyncio.to_thread(_wait, real_node, f"{kind}/app", "Ready")

    (pod,) = real_node.of("pods", f"--namespace={TEAM}", "--selector=app=web")["items"]
    assert pod["status"]["phase"] == "Running"
    applied = real_node.of("kustomization", "app", f"--namespace={TEAM}")
    assert applied["status"]["lastAppliedRevision"] == f"main@sha1:{commit}"


async def test_chart_becomes_a_release(real_node: Cluster, tmp_path: Path) -> None:
    files = {
        "chart/Chart.yaml": "apiVersion: v2\nname: charted\nversion: 1.0.0\n",
        "chart/templates/web.yaml": yaml.safe_dump(_web("charted")),
    }
    async with GitServer(tmp_path, host=real_node.address, address=real_node.address) as server:
        repository = server.repository("charts")
        repository.commit(files)
        source = _source(repository.url, name="charts")
        await asyncio.to_thread(real_node.apply, source, _release())

        await asyncio.to_thread(_wait, real_node, "helmrelease/charted", "Ready")

    (pod,) = real_node.of("pods", f"--namespace={TEAM}", "--selector=app=charted")["items"]
    assert pod["status"]["phase"] == "Running"


def test_aggregated_api_answers(real_node: Cluster) -> None:
    inventories = real_node.of("inventories", "--all-namespaces")["items"]

    assert {inventory["metadata"]["namespace"] for inventory in inventories} == {TEAM}
    assert len(inventories) == 2
    trees = f"/apis/gitops.penstock.dev/v1alpha1/namespaces/{TEAM}/inventories"
    for inventory in inventories:
        tree = real_node.kubectl("get", "--raw", f"{trees}/{inventory['metadata']['name']}/tree")
        assert '"Pod"' in tree


async def test_another_source_controller_takes_over(real_node: Cluster) -> None:
    pods = ("pods", f"--namespace={PLACE}", "--selector=app=source-controller")
    (leader,) = [pod for pod in real_node.of(*pods)["items"] if _is_ready(pod)]

    real_node.kubectl("delete", "pod", leader["metadata"]["name"], f"--namespace={PLACE}", PATIENCE)

    # The standby, or who came for the old leader: whichever gets the Lease, and serves.
    await until(lambda: any(_is_ready(pod) for pod in real_node.of(*pods)["items"]))
    (now,) = [pod for pod in real_node.of(*pods)["items"] if _is_ready(pod)]
    assert now["metadata"]["uid"] != leader["metadata"]["uid"]


async def test_uninstalling_leaves_workloads(real_node: Cluster) -> None:
    before = real_node.of("pods", f"--namespace={TEAM}")["items"]

    done = await real_node.penstock("uninstall", "--silent")

    assert done.code == 0, done.err
    after = real_node.of("pods", f"--namespace={TEAM}")["items"]
    assert len(after) == 2
    assert _uids(after) == _uids(before)
    assert not any("deletionTimestamp" in pod["metadata"] for pod in after)
    names = {obj["metadata"]["name"] for obj in real_node.of("namespaces")["items"]}
    assert PLACE not in names


_REF = {"kind": "GitRepository", "name": "app"}


def _wait(cluster: Cluster, what: str, condition: str) -> None:
    cluster.kubectl("wait", f"--namespace={TEAM}", what, f"--for=condition={condition}", PATIENCE)


def _is_ready(pod: Json) -> bool:
    rows = {row["type"]: row["status"] for row in pod["status"]["conditions"]}
    return rows["Ready"] == "True" and "deletionTimestamp" not in pod["metadata"]


def _uids(pods: list[Json]) -> set[str]:
    return {pod["metadata"]["uid"] for pod in pods}


def _source(url: str, *, name: str = "app") -> Json:
    return {
        "apiVersion": "source.toolkit.fluxcd.io/v1",
        "kind": "GitRepository",
        "metadata": {"name": name, "namespace": TEAM},
        "spec": {"interval": "10m", "url": url, "ref": {"branch": "main"}},
    }


def _kustomization(**spec: object) -> Json:
    return {
        "apiVersion": "kustomize.toolkit.fluxcd.io/v1",
        "kind": "Kustomization",
        "metadata": {"name": "app", "namespace": TEAM},
        "spec": {
            "interval": "10m",
            "retryInterval": "2s",
            "prune": True,
            "wait": True,
            "targetNamespace": TEAM,
            "sourceRef": _REF,
            **spec,
        },
    }


def _release() -> Json:
    reference = {"kind": "GitRepository", "name": "charts"}
    return {
        "apiVersion": "helm.toolkit.fluxcd.io/v2",
        "kind": "HelmRelease",
        "metadata": {"name": "charted", "namespace": TEAM},
        "spec": {
            "interval": "10m",
            "chart": {"spec": {"chart": "./chart", "sourceRef": reference}},
        },
    }


def _web(name: str = "web") -> Json:
    labels = {"app": name}
    container = {"name": "web", "image": realnode.IMAGE, "args": ["serve"]}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [container], "terminationGracePeriodSeconds": 1},
            },
        },
    }
