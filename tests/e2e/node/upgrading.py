"""An installation of the previous version by kustomize, and its upgrade to this one.

Both have two replicas of each process. The processes of the previous version are those of this
checkout: its manifests and definitions are what an upgrade changes.
"""

import asyncio
import lzma
import os
from pathlib import Path
from typing import Final

import yaml

from controlplane.node import image
from release import building
from tests.e2e.node.cluster import PATIENCE, PLACE, REPLICAS, Cluster, renewed
from tests.e2e.node.load import Noticed, load
from toolkit.objects import Json

_ROOT: Final = Path(__file__).parents[3]
(_MANIFESTS,) = (_ROOT / "tests" / "testdata" / "releases").glob("*.yaml.xz")
_PREVIOUS: Final = f"localhost/penstock:{_MANIFESTS.name.removesuffix('.yaml.xz')}"
_APPLY: Final = ("apply", "--server-side")
_FIRST: Final = frozenset({"CustomResourceDefinition", "Namespace"})
_OVERLAP: Final = """\
- op: add
  path: /spec/template/spec/containers/0/args/-
  value: --certificate-overlap=3s
"""
"""Authorities of certificates follow each other so quickly that a test can see it."""


def install_previous(cluster: Cluster, built: building.Image, directory: Path) -> None:
    """Install the previous version, and return when its processes are available."""
    archive = directory / "previous.tar"
    config = building.config(built.architecture)
    layers = [part.layer for part in built.parts]
    archive.write_bytes(image.pack(layers, config, annotations={image.NAME: _PREVIOUS}).archive)
    cluster.running.load(archive)
    objects = _previous()
    first = [obj for obj in objects if obj["kind"] in _FIRST]
    cluster.kubectl(*_APPLY, "--filename=-", stdin=yaml.safe_dump_all(first))
    cluster.kubectl("wait", "crd", "--all", "--for=condition=Established", "--timeout=60s")
    cluster.kubectl(*_APPLY, "--filename=-", stdin=yaml.safe_dump_all(objects))
    # Of the source-controller only the leader becomes ready.
    available = (f"--namespace={PLACE}", "--for=jsonpath={.status.readyReplicas}", PATIENCE)
    cluster.kubectl("wait", "deployment", "--all", *available)


async def upgrade(cluster: Cluster, directory: Path) -> list[Noticed]:
    """Upgrade while users are at work, and return what they noticed of it."""
    overlay = directory / "overlay"
    overlay.mkdir()
    (overlay / "kustomization.yaml").write_text(yaml.safe_dump(_overlay(overlay)))
    async with load(cluster, directory / "git") as users:
        await asyncio.to_thread(cluster.kubectl, *_APPLY, "--kustomize", str(overlay))
        async with cluster.client() as api:
            await renewed(api, _is_of_this_version)
        return await users.noticed()


def _is_of_this_version(pod: Json) -> bool:
    return all(row["image"] == building.reference() for row in pod["spec"]["containers"])


def _previous() -> list[Json]:
    manifests = lzma.decompress(_MANIFESTS.read_bytes()).decode()
    objects = [obj for obj in yaml.load_all(manifests, Loader=yaml.CSafeLoader) if obj]
    for obj in objects:
        if obj["kind"] == "Deployment":
            obj["spec"]["replicas"] = REPLICAS
    return objects


def _overlay(folder: Path) -> Json:
    name, _, tag = building.reference().rpartition(":")
    deploy = Path(os.path.relpath(_ROOT / "deploy", folder))
    return {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": [str(deploy / "base")],
        "components": [str(deploy / "components" / "ha")],
        "images": [{"name": "penstock", "newName": name, "newTag": tag}],
        "patches": [
            {
                "target": {"kind": "Deployment", "name": "webhook|penstock-apiserver"},
                "patch": _OVERLAP,
            }
        ],
    }
