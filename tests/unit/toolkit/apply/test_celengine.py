"""The engine is there without what its package loads besides."""

import subprocess
import sys

import pytest

_ENGINE = """
from toolkit.apply import celengine
holds = celengine.load().compile("a == 1").execute({"a": 1})
"""
_TELL = """
import sys
print(holds, sorted({"prompt_toolkit", "typer"} & set(sys.modules)))
"""


def told(*programs: str) -> str:
    """Return what a process prints that runs these, one after another."""
    done = subprocess.run(
        [sys.executable, "-c", "\n".join((*programs, _TELL))],
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def test_an_expression_loads_no_command_line() -> None:
    assert told(_ENGINE) == "True []"


@pytest.mark.parametrize("first", [True, False])
def test_the_package_and_the_engine_are_one_module(first: bool) -> None:  # noqa: FBT001
    package = "import cel"
    same = "holds = holds and cel.compile is celengine.load().compile"

    programs = (package, _ENGINE, same) if first else (_ENGINE, package, same)

    assert told(*programs).startswith("True ")
