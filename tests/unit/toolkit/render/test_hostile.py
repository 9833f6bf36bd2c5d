"""A hostile repository is refused by name, and costs no more than an honest one."""

import asyncio
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.tools import peaks
from toolkit.native import calls
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
    "an absolute path of a resource": (
        {"app/kustomization.yaml": "resources: [/etc/passwd]"},
        r"resources\[0\]: .* is an absolute path",
    ),
    "a remote file": (
        {"app/kustomization.yaml": "resources: ['http://127.0.0.1:1/secret.yaml']"},
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
    "a program as transformer": (
        {
            "app/kustomization.yaml": "transformers: [g.yaml]\nresources: [a.yaml]",
            "app/a.yaml": _MANIFEST,
            "app/g.yaml": _EXEC,
        },
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
    "deep brackets": ({"app/a.yaml": f"a: {'[' * 50_000}{']' * 50_000}"}, r"app/a\.yaml"),
    "something that is not YAML": ({"app/a.yaml": "a: [1, 2\nb: }"}, r"app/a\.yaml"),
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
        await kustomize.build(pool, build, timeout=30, flow="team")


@pytest.mark.parametrize("name", _REFUSED)
async def test_what_is_hostile_is_refused_by_name(
    name: str, pool: WorkerPool, write_tree: WriteTree
) -> None:
    files, message = _REFUSED[name]

    await _fails(pool, write_tree(files), message)

    # It is the worker that built, and it lives: none that died is replaced before the next call.
    (worker,) = pool._live
    assert worker._transport is not None
    assert 0 < peaks.peak(worker._transport.get_pid()) < 350 << 20


_SERVICE = "apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {ports: [{port: 80}]}\n"


@pytest.mark.usefixtures("engine_library")
async def test_a_build_that_explodes_ends_its_worker_at_the_bound_and_the_next_one_works(
    write_tree: WriteTree,
) -> None:
    root = write_tree({"s.yaml": _SERVICE})
    doubling = [{"op": "copy", "from": "/spec", "path": f"/spec/s{n}"} for n in range(40)]
    patches = [{"patch": json.dumps(doubling), "target": {"kind": "Service"}}]

    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.unit.toolkit.render.explodingbuild"),
        *(root, json.dumps(patches)),
        stdout=asyncio.subprocess.PIPE,
    )
    told = json.loads((await process.communicate())[0])

    assert "more memory than allowed (600 MiB)" in told["error"]
    assert told["following"] == 1
    # It has come to what it may have, and pages of programs and libraries besides.
    assert calls.MEMORY_LIMIT // 2 < told["peak"] < calls.MEMORY_LIMIT + (150 << 20)


async def test_a_link_out_of_the_tree_is_refused(
    pool: WorkerPool, write_tree: WriteTree, tmp_path: Path
) -> None:
    (tmp_path / "secret.yaml").write_text(_MANIFEST)
    root = write_tree({"app/README": ""})
    (root / "app/link.yaml").symlink_to("../../secret.yaml")

    await _fails(pool, root, r"app/link\.yaml is a symbolic link that points outside the source")


async def test_a_link_out_of_the_tree_is_no_resource(
    pool: WorkerPool, write_tree: WriteTree
) -> None:
    root = write_tree({"app/kustomization.yaml": "resources: [out]"})
    (root / "app/out").symlink_to("/etc/passwd")

    await _fails(pool, root, r"out")


async def test_a_huge_patch_is_bounded(pool: WorkerPool, write_tree: WriteTree) -> None:
    data = "".join(f"  k{n}: {'x' * 400}\n" for n in range(5000))
    files = {
        "app/kustomization.yaml": "resources: [a.yaml]\npatches: [{path: p.yaml}]",
        "app/a.yaml": _MANIFEST,
        "app/p.yaml": f"{_MANIFEST}data:\n{data}",
    }
    build = kustomize.Build(mounts={"": write_tree(files)}, path="app", transformations={})

    (obj,) = (await kustomize.build(pool, build, timeout=120, flow="team")).objects

    (worker,) = pool._live
    assert worker._transport is not None
    assert len(obj["data"]) == 5000
    assert 0 < peaks.peak(worker._transport.get_pid()) < 350 << 20


async def test_a_sparse_file_of_a_gigabyte_is_refused(
    pool: WorkerPool, write_tree: WriteTree
) -> None:
    root = write_tree({"app/a.yaml": ""})
    os.truncate(root / "app/a.yaml", 1 << 30)

    await _fails(pool, root, r"app/a\.yaml is larger than 16 MiB")


@pytest.mark.slow  # engine/internal/tree proves the rule with three files
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
