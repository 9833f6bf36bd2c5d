"""An installation of an earlier version by kustomize becomes one of this version, under load."""

import asyncio
import lzma
from pathlib import Path

import pytest
import yaml

from controlplane.node import image
from release import building
from tests.e2e.node.cluster import PATIENCE, PLACE, TEAM, Cluster, components, namespace
from tests.e2e.node.load import load
from tests.tools import realnode

REASON = realnode.unavailable()
pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1200),
    pytest.mark.skipif(bool(REASON), reason=REASON or "a node can run here"),
]
ROOT = Path(__file__).parents[3]
(MANIFESTS,) = (ROOT / "tests" / "testdata" / "releases").glob("*.yaml.xz")
PREVIOUS = f"localhost/penstock:{MANIFESTS.name.removesuffix('.yaml.xz')}"
APPLY = ("apply", "--server-side")


@pytest.fixture(scope="module")
def previous(
    real_node: Cluster,
    built_image: building.Image,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """Install the earlier version; its processes are those of this checkout."""
    archive = tmp_path_factory.mktemp("previous") / "penstock.tar"
    layers = [part.layer for part in built_image.parts]
    packed = image.pack(
        layers, building.config(built_image.architecture), annotations={image.NAME: PREVIOUS}
    )
    archive.write_bytes(packed.archive)
    real_node.running.load(archive)
    manifests = lzma.decompress(MANIFESTS.read_bytes()).decode()
    documents = [doc for doc in yaml.load_all(manifests, Loader=yaml.CSafeLoader) if doc]
    first = [doc for doc in documents if doc["kind"] in {"CustomResourceDefinition", "Namespace"}]
    real_node.kubectl(*APPLY, "--filename=-", stdin=yaml.safe_dump_all(first))
    real_node.kubectl("wait", "crd", "--all", "--for=condition=Established", "--timeout=60s")
    real_node.kubectl(*APPLY, "--filename=-", stdin=manifests)
    real_node.kubectl("wait", "deployment", "--all", *_READY)
    real_node.apply(namespace(TEAM))


_READY = (f"--namespace={PLACE}", "--for=condition=Available", PATIENCE)


@pytest.mark.usefixtures("previous")
async def test_users_lose_nothing_by_an_upgrade(real_node: Cluster, tmp_path: Path) -> None:
    overlay = tmp_path / "overlay"
    overlay.mkdir()
    base = Path(
        "..", *[".."] * len(tmp_path.relative_to("/").parts), *ROOT.parts[1:], "deploy/base"
    )
    name, _, tag = building.reference().rpartition(":")
    wanted = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": [str(base)],
        "images": [{"name": "penstock", "newName": name, "newTag": tag}],
    }
    (overlay / "kustomization.yaml").write_text(yaml.safe_dump(wanted))
    async with load(real_node, tmp_path / "git") as users:
        await asyncio.to_thread(real_node.kubectl, *APPLY, "--kustomize", str(overlay))
        for each in sorted(components()):
            await asyncio.to_thread(rolled_out, real_node, each)
        await users.more()
        await users.settled()
        assert users.failures == []
        assert await users.lost() == set()
    pods = real_node.of("pods", f"--namespace={PLACE}")["items"]
    images = {
        row["image"]
        for pod in pods
        if "deletionTimestamp" not in pod["metadata"]  # it may still finish its work
        for row in pod["spec"]["containers"]
    }
    assert images == {building.reference()}


def rolled_out(cluster: Cluster, name: str) -> None:
    cluster.kubectl("rollout", "status", f"deployment/{name}", f"--namespace={PLACE}")


async def test_what_was_upgraded_is_found_well(real_node: Cluster) -> None:
    found = await real_node.penstock("check")

    assert found.code == 0, found.out


async def test_uninstalling_leaves_the_cluster_as_it_was(real_node: Cluster) -> None:
    done = await real_node.penstock("uninstall", "--silent", "--custom-resources")

    assert done.code == 0, done.err
    real_node.kubectl("delete", "namespace", TEAM, "--wait=true")
    await real_node.emptied()
