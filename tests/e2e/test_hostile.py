"""A hostile repository is refused with a clear message, and its neighbours do not notice."""

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
import yaml

from tests.e2e.conftest import (
    CONFIG_MAP,
    GIT_REPOSITORY,
    Space,
    condition,
    config_map,
)
from tests.fakes.gitrepository import Entry, Repository, link

pytestmark = pytest.mark.asyncio(loop_scope="session")

MEMORY_LIMIT = 900 << 20
"""Bytes that one of our processes may come to hold, whatever it is fed."""

Files = Mapping[str, str | bytes | Entry | None]


def kustomization(**fields: object) -> str:
    head = {"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization"}
    return yaml.safe_dump(head | fields)


def alias_bomb() -> str:
    lines = ["a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol]"]
    for n in range(1, 12):
        again = ", ".join([f"*a{n - 1}"] * 9)
        lines.append(f"a{n}: &a{n} [{again}]")
    return "\n".join(["apiVersion: v1", "kind: ConfigMap", "metadata: {name: bomb}", *lines])


BUILDS: dict[str, tuple[Files, str]] = {
    "remote base": (
        {"kustomization.yaml": kustomization(resources=["https://github.com/evil/base"])},
        "github.com/evil/base",
    ),
    "remote file": (
        {"kustomization.yaml": kustomization(resources=["http://127.0.0.1:1/secret.yaml"])},
        "127.0.0.1:1",
    ),
    "parent directory": (
        {"kustomization.yaml": kustomization(resources=["../../../../etc/passwd"])},
        "etc/passwd",
    ),
    "absolute path": (
        {"kustomization.yaml": kustomization(resources=["/etc/passwd"])},
        "/etc/passwd",
    ),
    "helm charts": (
        {"kustomization.yaml": kustomization(helmCharts=[{"name": "evil", "repo": "https://x"}])},
        "helmCharts",
    ),
    "exec function": (
        {
            "kustomization.yaml": kustomization(transformers=["run.yaml"], resources=["a.yaml"]),
            "a.yaml": config_map("a", v="1"),
            "run.yaml": yaml.safe_dump(
                {
                    "apiVersion": "example.org/v1",
                    "kind": "Run",
                    "metadata": {
                        "name": "run",
                        "annotations": {
                            "config.kubernetes.io/function": "exec: {path: /bin/touch}"
                        },
                    },
                }
            ),
        },
        "",
    ),
    "alias bomb": ({"bomb.yaml": alias_bomb()}, ""),
    "deep nesting": ({"deep.yaml": "a: " + "[" * 50_000 + "]" * 50_000}, ""),
    "not YAML": ({"broken.yaml": "a: [1, 2\nb: }"}, "broken.yaml"),
    "link out of the tree": (
        {"kustomization.yaml": kustomization(resources=["out"]), "out": link("/etc/passwd")},
        "out",
    ),
}


@pytest.mark.parametrize("case", sorted(BUILDS))
async def test_hostile_manifests_are_refused(space: Space, case: str) -> None:
    files, saying = BUILDS[case]
    repository = space.repository()
    repository.commit(files)

    await space.world.apply(space.source(repository), space.kustomization())
    obj = await space.refused(saying=saying or "")

    ready = condition(obj, "Ready")
    assert ready["reason"] in {"BuildFailed", "ArtifactFailed"}, ready
    assert "root:x:0:0" not in str(obj)
    assert "internal error" not in ready["message"]
    assert peak_memory(space) < MEMORY_LIMIT


async def test_neighbour_of_a_bomb_is_reconciled(space: Space) -> None:
    bomb, good = space.repository("bomb"), space.repository("good")
    bomb.commit({"bomb.yaml": alias_bomb()})
    commit = good.commit({"a.yaml": config_map("good", v="1")})
    bad_source = {"sourceRef": {"kind": "GitRepository", "name": "bomb"}}

    await space.world.apply(
        space.source(bomb, name="bomb"),
        *(space.kustomization(f"bomb-{n}", **bad_source) for n in range(6)),
        space.source(good),
        space.kustomization(),
    )

    await space.ready(revision=commit)
    assert (await space.get(CONFIG_MAP, "good"))["data"] == {"v": "1"}


def too_many_files(repository: Repository) -> None:
    blob = repository.raw_object("blob", b"x")
    leaf = repository.raw_tree([("100644", f"f{n:04}".encode(), blob) for n in range(1000)])
    root = repository.raw_tree([("40000", f"d{n:03}".encode(), leaf) for n in range(100)])
    repository.commit_tree(root)


def sparse_giant(repository: Repository) -> None:
    """One gigabyte of zeroes, a megabyte on the wire."""
    oid = repository.zeros(1 << 10)
    repository.commit_tree(repository.raw_tree([("100644", b"giant.yaml", oid)]))


def escaping_tree(repository: Repository) -> None:
    blob = repository.raw_object("blob", b"evil")
    inner = repository.raw_tree([("100644", b"evil.yaml", blob)])
    repository.commit_tree(repository.raw_tree([("40000", b"..", inner)]))


def dot_git(repository: Repository) -> None:
    blob = repository.raw_object("blob", b"[core] fsmonitor = touch /tmp/x")
    inner = repository.raw_tree([("100644", b"config", blob)])
    repository.commit_tree(repository.raw_tree([("40000", b".GIT", inner)]))


SOURCES: dict[str, tuple[Callable[[Repository], None], str]] = {
    "100,000 files": (too_many_files, "more files than"),
    "1 GB file": (sparse_giant, "giant.yaml"),
    "parent directory": (escaping_tree, ".."),
    "git directory": (dot_git, ".GIT"),
}


@pytest.mark.parametrize("case", sorted(SOURCES))
async def test_hostile_repositories_are_refused(space: Space, case: str) -> None:
    prepare, saying = SOURCES[case]
    repository = space.repository()
    await asyncio.to_thread(prepare, repository)

    await space.world.apply(space.source(repository))
    source = await space.refused(GIT_REPOSITORY, saying=saying)

    assert condition(source, "FetchFailed")["status"] == "True"
    assert "artifact" not in source["status"]
    assert peak_memory(space) < MEMORY_LIMIT


async def test_huge_patch_is_refused_or_bounded(space: Space) -> None:
    repository = space.repository()
    patch = yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "a"},
            "data": {f"k{n}": "x" * 100 for n in range(20_000)},
        }
    )
    repository.commit(
        {
            "kustomization.yaml": kustomization(
                resources=["a.yaml"], patches=[{"path": "patch.yaml"}]
            ),
            "a.yaml": config_map("a", v="1"),
            "patch.yaml": patch,
        }
    )

    await space.world.apply(space.source(repository), space.kustomization())
    obj = await space.refused()

    assert condition(obj, "Ready")["message"]
    assert peak_memory(space) < MEMORY_LIMIT


def peak_memory(space: Space) -> int:
    """Return the largest peak resident size of our processes and their workers, in bytes."""
    pids = set(space.world.stack.pids().values())
    return max(_peak(pid) for pid in pids | _children(pids))


def _children(parents: set[int]) -> set[int]:
    found = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(stat[1]) in parents:
                found.add(int(entry.name))
    return found


def _peak(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    sizes = [int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM:")]
    return sizes[0] if sizes else 0
