"""A hostile repository is refused by name, and costs no more than an honest one."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from toolkit.native.pool import WorkerPool
from toolkit.render import kustomize

WriteTree = Callable[..., Path]

_MANIFEST = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n"


def _bomb(levels: int) -> str:
    first = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n"
    lines = (f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, levels))
    return _MANIFEST + first + "".join(lines)


_PLUGIN = "apiVersion: evil/v1\nkind: Shell\nmetadata:\n  name: x\n  annotations:\n"
_EXEC = _PLUGIN + "    config.kubernetes.io/function: 'exec: {path: /bin/sh}'\n"
_CONTAINER = _PLUGIN + "    config.kubernetes.io/function: 'container: {image: evil}'\n"
_MANY = "".join(f"---\n{_MANIFEST.replace('{name: c}', f'{{name: c{n}}}')}" for n in range(20_000))


_REFUSED = {
    "a parent path": (
        {"app/kustomization.yaml": "resources: [../../etc]"},
        r"app/kustomization\.yaml: resources\[0\]: .* is outside of the source",
    ),
    "an absolute path": (
        {"app/kustomization.yaml": "configMapGenerator: [{name: x, files: [/etc/passwd]}]"},
        r"configMapGenerator\[0\]\.files\[0\]: .* is an absolute path",
    ),
    "a remote git base": (
        {"app/kustomization.yaml": "resources: ['git@github.com:org/repo.git']"},
        r"resources\[0\]: .* is remote",
    ),
    "a remote https base": (
        {"app/kustomization.yaml": "resources: ['https://github.com/org/repo//x?ref=v1']"},
        r"resources\[0\]: .* is remote",
    ),
    "charts": (
        {"app/kustomization.yaml": "helmCharts: [{name: x, repo: 'https://example.com'}]"},
        r"app/kustomization\.yaml: helmCharts: .* HelmRelease",
    ),
    "a program as generator": (
        {"app/kustomization.yaml": "generators: [g.yaml]", "app/g.yaml": _EXEC},
        r"generators\[0\]: evil/v1 Shell is not run",
    ),
    "a container as transformer": (
        {"app/kustomization.yaml": "transformers: [g.yaml]", "app/g.yaml": _CONTAINER},
        r"transformers\[0\]: evil/v1 Shell is not run",
    ),
    "an alias bomb": (
        {"app/a.yaml": _bomb(12)},
        r"app/a\.yaml: its YAML aliases expand to more than",
    ),
    "deep YAML": (
        {"app/a.yaml": f"{_MANIFEST}a: {'[' * 9000}{']' * 9000}"},
        r"ConfigMap c is nested more than 250 levels",
    ),
    "deeper YAML": ({"app/a.yaml": f"a: {'{a: ' * 50_000}"}, r"app/a\.yaml: .*max depth"),
    "many objects": ({"app/a.yaml": _MANY}, r"more than 10000 objects"),
    "many objects to transform": (
        {"app/kustomization.yaml": "namePrefix: x-\nresources: [a.yaml]", "app/a.yaml": _MANY},
        r"more than 10000 objects",
    ),
    "a huge patch": (
        {
            "app/kustomization.yaml": "resources: [a.yaml]\npatches: [{path: p.yaml}]",
            "app/a.yaml": _MANIFEST,
            "app/p.yaml": "#" * (17 << 20),
        },
        r"app/p\.yaml is larger than 16 MiB",
    ),
}


async def _fails(pool: WorkerPool, root: Path, message: str) -> None:
    build = kustomize.Build(mounts={"": root}, path="app", transformations={})
    with pytest.raises(kustomize.BuildError, match=message):
        await kustomize.build(pool, build, timeout=30)


@pytest.mark.parametrize("name", _REFUSED)
async def test_what_is_hostile_is_refused_by_name(
    name: str, pool: WorkerPool, write_tree: WriteTree
) -> None:
    files, message = _REFUSED[name]

    await _fails(pool, write_tree(files), message)

    (worker,) = pool._live
    assert worker._transport is not None
    assert _peak_mebibytes(worker._transport.get_pid()) < 350


def _peak_mebibytes(pid: int) -> int:
    (peak,) = (
        line.split()[1]
        for line in Path(f"/proc/{pid}/status").read_text().splitlines()
        if line.startswith("VmHWM")
    )
    return int(peak) >> 10


async def test_a_link_out_of_the_tree_is_refused(
    pool: WorkerPool, write_tree: WriteTree, tmp_path: Path
) -> None:
    (tmp_path / "secret.yaml").write_text(_MANIFEST)
    root = write_tree({"app/README": ""})
    (root / "app/link.yaml").symlink_to("../../secret.yaml")

    await _fails(pool, root, r"app/link\.yaml is a symbolic link that leads out of the source")


async def test_a_sparse_file_of_a_gigabyte_is_refused(
    pool: WorkerPool, write_tree: WriteTree
) -> None:
    root = write_tree({"app/a.yaml": ""})
    os.truncate(root / "app/a.yaml", 1 << 30)

    await _fails(pool, root, r"app/a\.yaml is larger than 16 MiB")


async def test_a_hundred_thousand_files_are_refused(
    pool: WorkerPool, write_tree: WriteTree
) -> None:
    root = write_tree({"app/README": ""})
    for directory in range(101):
        below = root / f"app/d{directory}"
        below.mkdir()
        (below / "0").touch()
        for file in range(1, 1000):
            os.link(below / "0", below / str(file))

    await _fails(pool, root, r"more than 100000 files and directories: add a kustomization\.yaml")
