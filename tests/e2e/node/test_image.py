"""The image on a real node, installed by the command: every process works from it."""

import asyncio
from pathlib import Path

import pytest
import yaml

from controlplane.errors import ControlPlaneError
from release import building
from tests.e2e.node.cluster import (
    PLACE,
    REPLICAS,
    TEAM,
    Cluster,
    chart,
    components,
    kustomization,
    release,
    source,
    web,
)
from tests.fakes.gitserver import GitServer
from tests.tools import command, realnode

REASON = realnode.unavailable()
pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1200),
    pytest.mark.skipif(bool(REASON), reason=REASON or "a node can run here"),
    pytest.mark.usefixtures("installed", "team"),
]


def test_all_pods_become_ready_under_the_restricted_profile(
    real_node: Cluster, installed: command.Ended
) -> None:
    assert installed.code == 0, installed.err
    labels = real_node.of("namespace", PLACE)["metadata"]["labels"]
    assert labels["pod-security.kubernetes.io/enforce"] == "restricted"
    assert real_node.of("networkpolicies", f"--namespace={PLACE}")["items"]
    pods = real_node.of("pods", f"--namespace={PLACE}")["items"]
    statuses = [row for pod in pods for row in pod["status"]["containerStatuses"]]
    assert {pod["metadata"]["labels"]["app"] for pod in pods} == components()
    assert len(pods) == len(components()) * REPLICAS
    assert {row["restartCount"] for row in statuses} == {0}
    assert {row["image"] for row in statuses} == {building.reference()}


async def test_installation_is_found_well(real_node: Cluster) -> None:
    found = await real_node.penstock("check")

    assert found.code == 0, found.out + found.err


def test_gate_answers_by_its_service(real_node: Cluster) -> None:
    elsewhere = {"kind": "GitRepository", "name": "app", "namespace": "default"}

    with pytest.raises(ControlPlaneError, match="no ReferenceGrant in namespace 'default'"):
        real_node.apply(kustomization(sourceRef=elsewhere))


async def test_commit_becomes_a_running_pod(real_node: Cluster, tmp_path: Path) -> None:
    async with GitServer(tmp_path, host=real_node.address, address=real_node.address) as server:
        repository = server.repository("app")
        commit = repository.commit({"web.yaml": yaml.safe_dump(web())})
        await asyncio.to_thread(real_node.apply, source(repository.url), kustomization())

        for kind in ("gitrepository", "kustomization"):
            await asyncio.to_thread(real_node.wait, f"{kind}/app")

    (pod,) = real_node.of("pods", f"--namespace={TEAM}", "--selector=app=web")["items"]
    assert pod["status"]["phase"] == "Running"
    applied = real_node.of("kustomization", "app", f"--namespace={TEAM}")
    assert applied["status"]["lastAppliedRevision"] == f"main@sha1:{commit}"


async def test_chart_becomes_a_release(real_node: Cluster, tmp_path: Path) -> None:
    async with GitServer(tmp_path, host=real_node.address, address=real_node.address) as server:
        repository = server.repository("charts")
        repository.commit(chart())
        await asyncio.to_thread(real_node.apply, source(repository.url, name="charts"), release())

        await asyncio.to_thread(real_node.wait, "helmrelease/charted")

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
