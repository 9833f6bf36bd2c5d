"""``build`` beside Flux's command, without a cluster: the same files, and the same failures."""

import asyncio
import os
import tarfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.tools import command
from tests.tools.command import Ended

KUSTOMIZATION = {
    "apiVersion": "kustomize.toolkit.fluxcd.io/v1",
    "kind": "Kustomization",
    "metadata": {"name": "apps", "namespace": "flux-system"},
    "spec": {
        "interval": "10m",
        "path": "./deploy",
        "prune": True,
        "sourceRef": {"kind": "GitRepository", "name": "apps"},
        "postBuild": {"substitute": {"who": "you"}},
    },
}


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """Return a directory with a manifest, a link to it, and what is left out."""
    root = tmp_path / "deploy"
    root.mkdir()
    (root / "app.yaml").write_text(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: app, namespace: apps}\n"
        "data: {text: 'hello ${who}${nobody}'}\n"
    )
    (root / "logo.png").write_bytes(b"png")
    (tmp_path / "apps.yaml").write_text(yaml.safe_dump(KUSTOMIZATION))
    return root


async def flux(program: Path, home: Path, *words: str) -> Ended:
    process = await asyncio.create_subprocess_exec(
        program,
        *words,
        cwd=home,
        env={"PATH": os.defpath, "HOME": str(home)},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    said, complaint = await process.communicate()
    return Ended(process.returncode or 0, said.decode(), complaint.decode())


@pytest.mark.parametrize(("flags", "code"), [((), 0), (("--strict-substitute",), 1)])
async def test_both_build_alike(
    flux_program: Path, files: Path, flags: tuple[str, ...], code: int
) -> None:
    words = ("build", "kustomization", "apps", "--path", str(files), "--dry-run", *flags)
    named = ("--kustomization-file", str(files.parent / "apps.yaml"), "-n", "flux-system")

    theirs = await flux(flux_program, files.parent, *words, *named)
    ours = await command.alone(*words, *named)

    assert (ours.code, theirs.code) == (code, code), ours.err + theirs.err
    assert documents(ours.out) == documents(theirs.out)
    assert ("nobody" in ours.err) is bool(code)


@pytest.fixture
def fleet(tmp_path: Path) -> Path:
    """Return a repository whose Kustomization applies two more, one of another repository."""
    root = tmp_path / "fleet"
    sources = {"base": "flux-system", "own": "apps"}
    below = [nested("base", "./base", sources["base"]), nested("own", "./", sources["own"])]
    for place, objects in (
        ("clusters/app.yaml", [config_map("top", "hello ${who}")]),
        ("clusters/below.yaml", below),
        ("clusters/skip/left.yaml", [config_map("left", "out")]),
        ("base/base.yaml", [config_map("base", "hello ${who}"), nested("base", "./base", "x")]),
    ):
        (root / place).parent.mkdir(parents=True, exist_ok=True)
        (root / place).write_text(yaml.safe_dump_all(objects))
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "own.yaml").write_text(yaml.safe_dump(config_map("own", "x")))
    top = {**KUSTOMIZATION["spec"], "path": "./clusters"}  # type: ignore[dict-item]  # a mapping
    top["sourceRef"] = {"kind": "GitRepository", "name": "flux-system"}
    (root / "apps.yaml").write_text(yaml.safe_dump({**KUSTOMIZATION, "spec": top}))
    return root


def config_map(name: str, text: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "apps"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"text": text}}


def nested(name: str, path: str, source: str) -> dict[str, Any]:
    spec = {
        "interval": "10m",
        "path": path,
        "prune": True,
        "sourceRef": {"kind": "GitRepository", "name": source},
    }
    return {**KUSTOMIZATION, "metadata": {"name": name, "namespace": "flux-system"}, "spec": spec}


async def test_both_go_down_into_what_kustomizations_apply(flux_program: Path, fleet: Path) -> None:
    words = (
        *("build", "kustomization", "apps", "--path", str(fleet / "clusters"), "--dry-run"),
        *("--kustomization-file", str(fleet / "apps.yaml"), "-n", "flux-system", "--recursive"),
        *("--ignore-paths", "/skip/,nothing.yaml", "--in-memory-build"),
        *("--local-sources", f"GitRepository/flux-system/apps={fleet.parent / 'other'}"),
    )
    theirs_too = f"GitRepository/flux-system/flux-system={fleet}"

    theirs = await flux(flux_program, fleet.parent, *words, "--local-sources", theirs_too)
    ours = await command.alone(*words)

    assert (ours.code, theirs.code) == (0, 0), ours.err + theirs.err
    named = [doc["metadata"]["name"] for doc in documents(ours.out) if doc["kind"] == "ConfigMap"]
    assert sorted(named) == ["base", "own", "top"]
    assert sorted(documents(ours.out), key=identity) == sorted(documents(theirs.out), key=identity)


def identity(document: dict[str, Any]) -> tuple[str, str, str]:
    metadata = document["metadata"]
    return document["kind"], metadata["name"], yaml.safe_dump(document)


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ((), "name its directory with --local-sources GitRepository/flux-system/apps=DIRECTORY"),
        (("--local-sources", "GitRepository/apps=x"), "must be KIND/NAMESPACE/NAME=DIRECTORY"),
        (("--local-sources", "GitRepository/a/b=/nowhere"), "/nowhere is not a directory"),
        (("--ignore-paths", "a" * 5000), "--ignore-paths"),
    ],
)
async def test_a_source_that_is_not_here_is_named(
    fleet: Path, flags: tuple[str, ...], said: str
) -> None:
    ended = await command.alone(
        *("build", "kustomization", "apps", "--path", str(fleet / "clusters"), "--dry-run"),
        *("--kustomization-file", str(fleet / "apps.yaml"), "-n", "flux-system", "-r", *flags),
    )

    assert ended.code == 1
    assert said in ended.err


@pytest.mark.parametrize("flags", [(), ("--ignore-paths", "app.yaml")], ids=["all", "ignored"])
async def test_both_pack_the_same_files(
    flux_program: Path, files: Path, tmp_path: Path, flags: tuple[str, ...]
) -> None:
    packed = [tmp_path / "theirs.tgz", tmp_path / "ours.tgz"]
    words = ("build", "artifact", "--path", str(files), *flags, "--output")

    theirs = await flux(flux_program, tmp_path, *words, str(packed[0]))
    ours = await command.alone(*words, str(packed[1]))

    assert (ours.code, theirs.code) == (0, 0), ours.err + theirs.err
    assert contents(packed[0]) == contents(packed[1])
    assert "artifact created at" in ours.err


def documents(text: str) -> list[Any]:
    """Return the documents; Flux ends them with a separator."""
    return [each for each in yaml.safe_load_all(text) if each is not None]


def contents(file: Path) -> dict[str, bytes]:
    with tarfile.open(file) as archive:
        found = {entry.name: archive.extractfile(entry) for entry in archive if entry.isfile()}
        return {name.removeprefix("./"): file.read() for name, file in found.items() if file}


async def test_a_file_that_cannot_be_written_is_told(files: Path) -> None:
    words = ("build", "artifact", "--path", str(files), "--output")

    ended = await command.alone(*words, str(files / "no" / "such.tgz"))

    assert ended.code == 1
    assert "--output: cannot write" in ended.err


@pytest.mark.parametrize(
    ("place", "rules", "left"),
    [
        (".sourceignore", "deploy/extra.yaml\n", "extra.yaml"),
        ("deploy/.sourceignore", "extra.*\n", "extra.yaml"),
        ("", "", ".travis.yml"),  # by a built-in rule
    ],
)
async def test_files_that_are_not_in_the_artifact_are_not_built(
    files: Path, place: str, rules: str, left: str
) -> None:
    (files.parent / ".git").mkdir()
    if place:
        (files.parent / place).write_text(rules)
    (files / left).write_text(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: extra, namespace: apps}\n"
    )

    words = ("build", "kustomization", "apps", "--path", str(files), "--dry-run")
    ended = await command.alone(
        *words, "-n", "flux-system", "--kustomization-file", str(files.parent / "apps.yaml")
    )

    assert ended.code == 0, ended.err
    names = [doc["metadata"]["name"] for doc in yaml.safe_load_all(ended.out)]
    assert names == ["app"]
