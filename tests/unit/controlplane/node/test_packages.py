"""What is said where a node cannot be."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from controlplane.errors import NodeUnavailableError
from controlplane.node import node, packages
from tests.tools import realnode


@pytest.mark.skipif(os.geteuid() == 0, reason="it is about other users")
def test_other_users_than_root_are_refused() -> None:
    with pytest.raises(NodeUnavailableError, match="needs root"):
        packages.find()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root is told what is missing")
def test_missing_programs_are_named_with_what_installs_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(packages, "SEARCH", str(tmp_path))

    with pytest.raises(NodeUnavailableError, match=r"containerd, .*apt-get install .*runc"):
        packages.find()


@pytest.mark.skipif(bool(realnode.unavailable()), reason="no node can run here")
def test_root_without_the_rights_of_root_is_refused() -> None:
    # As in a container: root, without CAP_SYS_ADMIN.
    confined = ("setpriv", "--bounding-set=-sys_admin", "--inh-caps=-sys_admin")
    script = "from controlplane.node import packages; packages.find()"

    answer = subprocess.run(
        (*confined, sys.executable, "-c", script), capture_output=True, text=True, check=False
    )

    assert "NodeUnavailableError: a node needs mount, network" in answer.stderr
    assert "leave out --node" in answer.stderr


@pytest.mark.parametrize("hidden", ["/run/user/0/cache", "/var/lib/ci/cache", "/var/log/cache"])
def test_directory_that_the_node_would_not_see_is_refused(hidden: str) -> None:
    with pytest.raises(NodeUnavailableError, match="set XDG_CACHE_HOME"):
        node.refuse_hidden(Path(hidden))
