"""Arguments of ``penstock up``."""

from pathlib import Path

import pytest

from cli import errors
from cli.commands import up
from cli.stack import stack
from cli.stack import up as running
from cli.stack.liveness import Probe


def test_flags_are_sorted_by_component() -> None:
    found = up.component_flags(
        ("kustomize=--concurrent=1", "source=--log-level=debug", "kustomize=--log-level=debug")
    )

    assert found == {
        "kustomize": ["--concurrent=1", "--log-level=debug"],
        "source": ["--log-level=debug"],
    }


@pytest.mark.parametrize("pair", ["--concurrent=1", "imagery=--concurrent=1", "source=concurrent"])
def test_flag_of_no_component_is_refused_with_the_known_ones(pair: str) -> None:
    with pytest.raises(
        errors.UsageError, match="components are apiserver, helm, image, kustomize, "
    ):
        up.component_flags((pair,))


def test_detached_process_gets_all_that_was_asked_for(tmp_path: Path) -> None:
    settings = running.Settings(
        directory=tmp_path,
        kubeconfig=Path("/kc"),
        context="kind",
        name="two",
        options=stack.Options(
            namespace="ns",
            replicas=2,
            flags={"source": ["--log-level=debug"]},
            probe=Probe(period=5.0, timeout=2.5, failures=4),
        ),
    )

    words = up.command_line(settings)

    assert words[:3] == ["-m", "cli", "up"]
    assert "--detach" not in words
    assert set(words[3:]) == {
        f"--state={tmp_path}",
        "--namespace=ns",
        "--replicas=2",
        "--name=two",
        "--kubeconfig=/kc",
        "--context=kind",
        "--no-gate",
        "--liveness-period=5.0",
        "--liveness-timeout=2.5",
        "--liveness-failures=4",
        "--flag=source=--log-level=debug",
    }
