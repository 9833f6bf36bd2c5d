"""An installation that a repository takes over: pods fetch it over SSH with a deploy key."""

import asyncio
from pathlib import Path

import asyncssh
import pytest
import yaml

from release import building
from tests.e2e.node.cluster import PLACE, TEAM, Cluster
from tests.fakes.sshserver import SshServer
from tests.tools import realnode

REASON = realnode.unavailable()
pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1200),
    pytest.mark.skipif(bool(REASON), reason=REASON or "a node can run here"),
    pytest.mark.usefixtures("installed", "team"),
]
PATH = "clusters/production"
CHOSEN = ("--components", "ha", "--image", building.reference(), "--timeout", "8m")
FOLLOWED = ("deployments", "gitrepositories", "kustomizations")


async def test_a_repository_over_ssh_takes_over_what_was_installed(
    real_node: Cluster, tmp_path: Path
) -> None:
    key = asyncssh.generate_private_key("ssh-ed25519")
    async with SshServer(
        tmp_path / "git", authorized=[key], host=real_node.address, address=real_node.address
    ) as server:
        repository = server.repository("fleet")
        (tmp_path / "identity").write_bytes(key.export_private_key())
        (tmp_path / "known_hosts").write_bytes(server.known_hosts)
        said = ("bootstrap", "git", "--url", repository.url, "--path", PATH, *CHOSEN)
        keys = [
            f"--private-key-file={tmp_path}/identity",
            f"--known-hosts-file={tmp_path}/known_hosts",
        ]
        installed = await written(real_node, "deployments")

        first = await real_node.penstock(*said, *keys)

        assert first.code == 0, first.err
        head = repository.revision("main")
        assert f"applied revision main@sha1:{head}\n" in first.err
        assert await written(real_node, "deployments") == installed
        before = [await written(real_node, kind) for kind in FOLLOWED]

        # The keys are those of the Secret now.
        again = await real_node.penstock(*said)

        assert again.code == 0, again.err
        assert repository.revision("main") == head
        assert [await written(real_node, kind) for kind in FOLLOWED] == before

        server.read_only.add("/fleet.git")
        metadata = {"name": "committed", "namespace": TEAM}
        wanted = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
        repository.commit({f"{PATH}/committed.yaml": yaml.safe_dump(wanted)})
        followed = await real_node.penstock(
            *("reconcile", "kustomization", PLACE, "--with-source", "--namespace", PLACE)
        )

        assert followed.code == 0, followed.err
        found = await asyncio.to_thread(real_node.of, "configmap/committed", f"--namespace={TEAM}")
        owner = found["metadata"]["labels"]["kustomize.toolkit.fluxcd.io/name"]
        assert owner == PLACE


async def written(cluster: Cluster, kind: str) -> dict[str, tuple[str, int]]:
    """Return by what it is seen that somebody has written a specification."""
    found = await asyncio.to_thread(cluster.of, kind, f"--namespace={PLACE}")
    return {
        obj["metadata"]["name"]: (obj["metadata"]["uid"], obj["metadata"]["generation"])
        for obj in found["items"]
    }
