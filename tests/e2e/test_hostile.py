"""A hostile repository is refused with a clear message, and its neighbours do not notice.

The engine refuses each hostile file (``unit/toolkit/render/test_hostile.py``), what reads packs and
trees of Git each hostile repository (``loopback/git/test_worker.py``, ``unit/toolkit/remote/git``).
"""

import json

import pytest
import yaml

from tests.e2e.conftest import (
    CONFIG_MAP,
    GIT_REPOSITORY,
    Space,
    condition,
    config_map,
)
from tests.fakes.gitrepository import Repository
from tests.tools import peaks

pytestmark = pytest.mark.asyncio(loop_scope="session")

MEMORY_LIMIT = 900 << 20
"""Bytes that one of our processes may come to hold, whatever it is fed."""


def kustomization(**fields: object) -> str:
    head = {"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization"}
    return yaml.safe_dump(head | fields)


def alias_bomb() -> str:
    lines = ["a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol]"]
    for n in range(1, 12):
        again = ", ".join([f"*a{n - 1}"] * 9)
        lines.append(f"a{n}: &a{n} [{again}]")
    return "\n".join(["apiVersion: v1", "kind: ConfigMap", "metadata: {name: bomb}", *lines])


def doubling() -> list[dict[str, object]]:
    """Return patches with which a ConfigMap outgrows every memory."""
    copies = [{"op": "copy", "from": "/data", "path": f"/data/k{n}"} for n in range(40)]
    return [{"patch": json.dumps(copies), "target": {"kind": "ConfigMap"}}]


async def test_manifests_that_lead_out_are_refused(space: Space) -> None:
    repository = space.repository()
    repository.commit({"kustomization.yaml": kustomization(resources=["../../../../etc/passwd"])})

    await space.world.apply(space.source(repository), space.kustomization())
    obj = await space.refused(saying="etc/passwd")

    ready = condition(obj, "Ready")
    assert ready["reason"] in {"BuildFailed", "ArtifactFailed"}, ready
    assert "root:x:0:0" not in str(obj)
    assert "internal error" not in ready["message"]


async def test_bombs_are_refused_and_their_neighbour_is_reconciled(space: Space) -> None:
    bomb, good = space.repository("bomb"), space.repository("good")
    bomb.commit({"bomb/a.yaml": alias_bomb(), "fuse/a.yaml": config_map("a", v="1")})
    commit = good.commit({"a.yaml": config_map("good", v="1")})
    source = {"sourceRef": {"kind": "GitRepository", "name": "bomb"}}
    bombs = [f"bomb-{n}" for n in range(6)]
    # Its worker comes to its bound and dies; once is enough.
    exploding = {"path": "./fuse", "patches": doubling(), "retryInterval": "1h"}

    with peaks.watching(space.world.stack.pids().values()) as held:
        await space.world.apply(
            space.source(bomb, name="bomb"),
            *(space.kustomization(name, path="./bomb", **source) for name in bombs),
            space.kustomization("exploding", **source, **exploding),
            space.source(good),
            space.kustomization(),
        )
        await space.ready(revision=commit)
        refused = [await space.refused(name=name, saying="bomb/a.yaml") for name in bombs]
        exploded = await space.refused(name="exploding", saying="more memory than allowed")

    assert (await space.get(CONFIG_MAP, "good"))["data"] == {"v": "1"}
    for obj in (*refused, exploded):
        assert condition(obj, "Ready")["reason"] == "BuildFailed"
        assert "internal error" not in condition(obj, "Ready")["message"]
    assert held.largest < MEMORY_LIMIT


def escaping_tree(repository: Repository) -> None:
    blob = repository.raw_object("blob", b"evil")
    inner = repository.raw_tree([("100644", b"evil.yaml", blob)])
    repository.commit_tree(repository.raw_tree([("40000", b"..", inner)]))


async def test_hostile_repository_is_refused(space: Space) -> None:
    repository = space.repository()
    escaping_tree(repository)

    await space.world.apply(space.source(repository))
    source = await space.refused(GIT_REPOSITORY, saying="..")

    assert condition(source, "FetchFailed")["status"] == "True"
    assert "artifact" not in source["status"]
