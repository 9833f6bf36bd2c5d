"""A cluster of the user's own is used with the user's own kubectl, and nothing is built for it."""

from pathlib import Path

import pytest

from controlplane import __main__ as command
from controlplane import plane


@pytest.mark.parametrize("arguments", [["build"], ["build", "--check"]])
def test_nothing_is_built_for_a_cluster_that_exists(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
) -> None:
    kubectl = tmp_path / "kubectl"
    kubectl.write_text("#!/bin/sh\nexit 1\n")
    kubectl.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv(plane.EXISTING, "kind-dev")

    options = command._parser().parse_args(arguments)
    status = options.run(options)

    assert status == 0
    assert f"nothing is built: {plane.EXISTING} names a cluster" in capsys.readouterr().err
    assert not (tmp_path / "cache").exists()
