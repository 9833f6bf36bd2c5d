"""An artifact store behind its server, on loopback."""

from pathlib import Path

import pytest

from crds.meta import Artifact
from tests.fakes.bucketreplicas import stored
from tests.fakes.serving import Serve
from toolkit.artifact import server as artifact_server
from toolkit.artifact.storage import Storage


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    tree = tmp_path / "tree"
    (tree / "app").mkdir(parents=True)
    (tree / "app" / "a.yaml").write_text("a: 1\n")
    (tree / "run.sh").write_text("#!/bin/sh\n")
    (tree / "run.sh").chmod(0o755)
    return tree


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return Storage(tmp_path / "root", advertised="artifacts.test")


@pytest.fixture
async def artifact(storage: Storage, tree: Path) -> Artifact:
    return await stored(storage, tree)


@pytest.fixture
async def address(storage: Storage, artifact: Artifact, serve: Serve) -> str:
    del artifact
    return await serve(artifact_server.application(storage))
