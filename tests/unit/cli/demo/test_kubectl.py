"""Which cluster the demo's kubectl talks to, with a script in place of kubectl."""

from pathlib import Path

from cli.demo.kubectl import Kubectl


async def test_another_context_than_the_current_one_is_named(tmp_path: Path) -> None:
    program = tmp_path / "kubectl"
    program.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    program.chmod(0o755)
    kubectl = Kubectl(
        program=str(program), kubeconfig=Path("/home/ada/config"), context="kind-dev", patience=60
    )

    arguments = (await kubectl("get", "pods")).splitlines()

    assert arguments[:2] == ["--kubeconfig=/home/ada/config", "--context=kind-dev"]
    assert arguments[-2:] == ["get", "pods"]
