"""A release of a copy of this checkout, from the one command to files, registry and signatures."""

import asyncio
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import pytest_asyncio
from cryptography.hazmat.primitives import serialization

from release import product
from tests.fakes import imagescene
from tests.fakes.imagescene import KEY, ImageScene
from tests.fakes.registry import FakeRegistry

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

VERSION = "99.1.2"
OFFLINE = "cannot download"


@dataclass(frozen=True)
class Clone:
    """A repository, and where its releases go."""

    root: Path
    into: Path

    def git(self, *words: str) -> str:
        who = ("-c", "user.name=Ada", "-c", "user.email=ada@example.com")
        answer = subprocess.run(
            ["git", *who, *words], cwd=self.root, capture_output=True, text=True, check=True
        )
        return answer.stdout.strip()

    def cut(self, *words: str, version: str = VERSION) -> "subprocess.CompletedProcess[str]":
        identity = {
            f"GIT_{role}_{field}": value
            for role in ("AUTHOR", "COMMITTER")
            for field, value in (("NAME", "Ada"), ("EMAIL", "ada@example.com"))
        }
        answer = subprocess.run(
            [sys.executable, "-m", "release", "cut", version, f"--to={self.into}", *words],
            cwd=self.root,
            env={**os.environ, **identity, "PYTHONPATH": str(self.root)},
            capture_output=True,
            text=True,
            timeout=500,
            check=False,
        )
        if OFFLINE in answer.stderr:
            pytest.skip(f"no image can be built: {answer.stderr.splitlines()[-1]}")
        return answer


@pytest.fixture
def clone(tmp_path: Path) -> Clone:
    made = Clone(tmp_path / "clone", tmp_path / "dist")
    # Of the files, not of the history: what is not committed is tested too, and a checkout may have
    # none. What .gitignore names stays out of the commit.
    large = shutil.ignore_patterns(".git", ".venv", ".*_cache", ".hypothesis", "build", "dist")
    shutil.copytree(product.ROOT, made.root, ignore=large)
    made.git("init", "--quiet")
    made.git("commit", "--quiet", "--allow-empty", "--message=Nothing")
    made.git("add", "--all")
    made.git("commit", "--quiet", "--message=The checkout")
    return made


@pytest_asyncio.fixture
async def scene() -> AsyncIterator[ImageScene]:
    async with FakeRegistry() as registry, imagescene.running(registry) as running:
        yield running


async def test_one_command_makes_a_release_and_again_the_same(
    clone: Clone, scene: ImageScene, tmp_path: Path
) -> None:
    key = tmp_path / "cosign.key"
    key.write_bytes(
        KEY.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    words = (f"--registry={scene.registry.host}/acme", "--plain-http", f"--key={key}")
    scene.require("acme/*")

    first = await asyncio.to_thread(clone.cut, *words)
    assert first.returncode == 0, first.stderr
    files = {path.name: path.read_bytes() for path in clone.into.iterdir()}
    commit = clone.git("rev-parse", "HEAD")
    second = await asyncio.to_thread(clone.cut, *words)
    assert second.returncode == 0, second.stderr

    # All is of the version, and nothing is left to commit.
    assert clone.git("log", "-1", "--format=%s") == f"Release v{VERSION}"
    assert clone.git("status", "--porcelain") == ""
    assert f"\n## {VERSION} - " in (clone.root / "CHANGELOG.md").read_text()
    assert f"version: {VERSION}\n" in (clone.root / "deploy/chart/Chart.yaml").read_text()
    # The files are whole, and signed.
    sums = files["SHA256SUMS"].decode().splitlines()
    assert len(sums) == 6
    for line in sums:
        digest, name = line.split("  ")
        assert hashlib.sha256(files[name]).hexdigest() == digest
        assert f"{name}.sig" in files
    install = files[f"penstock-{VERSION}-install.yaml"].decode()
    assert f"image: {scene.name('acme/penstock')}:v{VERSION}\n" in install
    # The image is admitted by a policy that demands the key; the chart is there with its signature.
    await scene.admit(scene.pod(f"acme/penstock:v{VERSION}"))
    assert len(scene.registry.tags["acme/charts/penstock"]) == 2
    # The second run changed nothing that has no random part.
    assert clone.git("rev-parse", "HEAD") == commit
    again = {path.name: path.read_bytes() for path in clone.into.iterdir()}
    assert {name for name in files if files[name] != again[name]} <= {
        name for name in files if name.endswith(".sig")
    }


def test_a_tree_with_changes_is_refused(clone: Clone) -> None:
    (clone.root / "README.md").write_text("changed\n")

    answer = clone.cut()

    assert answer.returncode == 1
    assert "README.md is not committed: commit or stash what is changed" in answer.stderr


def test_a_tree_that_cannot_be_committed_is_as_it_was(clone: Clone) -> None:
    hook = clone.root / ".git" / "hooks" / "pre-commit"
    hook.write_text("#!/bin/sh\necho no release on Fridays >&2\nexit 1\n")
    hook.chmod(0o755)

    answer = clone.cut()

    assert answer.returncode == 1
    assert "no release on Fridays" in answer.stderr
    assert clone.git("status", "--porcelain") == ""


def test_a_version_of_another_commit_is_refused(clone: Clone) -> None:
    clone.git("tag", f"v{VERSION}", "HEAD~1")

    answer = clone.cut()

    assert answer.returncode == 1
    assert f"v{VERSION} is released from another commit: choose a new version" in answer.stderr
    assert not clone.into.exists()
