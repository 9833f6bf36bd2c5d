"""``make mutants``: what it removes, and that it tells what nobody notices."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.tools.mutants import refusals

_ROOT = Path(__file__).parents[3]
_EVERY = 75
"""The sample of a run of the slow tests, which has a minute: every so many refusals."""

TRUST = '''
class Gate:
    def enter(self, name: str) -> str:
        """Let everybody in but Mallory, and nobody twice."""
        if name == "mallory":
            raise PermissionError(f"{name} may not enter")
        return name

def known(name: str) -> bool:
    if name == "mallory":
        return False
    return True
'''

TESTS = """
import pytest
from product import trust

def test_mallory_is_kept_out():
    with pytest.raises(PermissionError):
        trust.Gate().enter("mallory")

def test_others_are_known():
    assert trust.known("alice")
    trust.known("mallory")
"""

EXCEPTION = """
[[exceptions]]
path = "product/trust.py"
function = "{function}"
text = "{text}"
reason = "an example"
"""


def test_refusals_are_named_by_function_and_message() -> None:
    _, found = refusals.instrument(TRUST, "trust.py")

    assert [(each.function, each.text) for each in found] == [
        ("Gate.enter", "{} may not enter"),
        ("known", "return False"),
    ]


@pytest.mark.parametrize("removed", ["", "Gate.enter", "known"])
def test_one_refusal_is_removed_and_the_other_stands(removed: str) -> None:
    tree, found = refusals.instrument(TRUST, "trust.py")
    keys = {each.key for each in found if each.function == removed}
    module: dict[str, Any] = {refusals.SWITCH: lambda key: key not in keys}
    exec(compile(tree, "trust.py", "exec"), module)  # noqa: S102  # the example above

    if removed == "Gate.enter":
        assert module["Gate"]().enter("mallory") == "mallory"
    else:
        with pytest.raises(PermissionError):
            module["Gate"]().enter("mallory")
    assert module["known"]("mallory") is (removed == "known")


def test_places_of_equal_text_are_told_apart() -> None:
    twice = "def f(x):\n    if x:\n        raise ValueError\n    raise ValueError\n"

    _, found = refusals.instrument(twice, "twice.py")

    assert [each.text for each in found] == ["raise ValueError", "raise ValueError #2"]


def mutants(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the tool in a folder, with the modules of this checkout."""
    command = [sys.executable, "-m", "tests.tools.mutants", *arguments]
    path = {"PYTHONPATH": f"{folder}:{_ROOT}", "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        ["env", *(f"{name}={value}" for name, value in path.items()), *command],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def product(tmp_path: Path) -> Path:
    """Make a product whose tests notice one refusal and reach the other without noticing it."""
    for name, text in {
        "pytest.ini": "[pytest]\naddopts = --import-mode=importlib\n",
        "product/__init__.py": "",
        "product/trust.py": TRUST,
        "tests/unit/product/test_trust.py": TESTS,
        "tests/mutants.toml": '[[targets]]\npath = "product"\n',
    }.items():
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return tmp_path


def excepted(product: Path, function: str, text: str) -> None:
    with (product / "tests/mutants.toml").open("a") as file:
        file.write(EXCEPTION.format(function=function, text=text))


@pytest.mark.slow
def test_unnoticed_refusal_fails_the_run_and_is_named(product: Path) -> None:
    run = mutants(product)

    assert run.returncode == 1, run.stdout + run.stderr
    assert "UNNOTICED product/trust.py:11 known: return False" in run.stdout
    assert "Gate.enter" not in run.stdout
    assert "2 refusals, 1 unnoticed, 0 excepted" in run.stdout
    assert (product / "product/trust.py").read_text() == TRUST


@pytest.mark.slow
def test_unnoticed_refusal_in_a_sample_fails_the_run(product: Path) -> None:
    lenient = TESTS.replace("import pytest", "import contextlib").replace(
        "pytest.raises", "contextlib.suppress"
    )
    (product / "tests/unit/product/test_trust.py").write_text(lenient)

    run = mutants(product, "--every=2")

    assert run.returncode == 1, run.stdout + run.stderr
    assert "UNNOTICED product/trust.py:6 Gate.enter: {} may not enter" in run.stdout
    assert "1 refusals, 1 unnoticed, 0 excepted" in run.stdout


@pytest.mark.slow
def test_exception_with_a_reason_passes_the_run(product: Path) -> None:
    excepted(product, "known", "return False")

    run = mutants(product)

    assert run.returncode == 0, run.stdout + run.stderr
    assert "2 refusals, 0 unnoticed, 1 excepted" in run.stdout


@pytest.mark.slow
@pytest.mark.parametrize("text", ["{} may not enter", "it left the code"])
def test_exception_that_nothing_needs_fails_the_run(product: Path, text: str) -> None:
    excepted(product, "known", "return False")
    excepted(product, "Gate.enter", text)

    run = mutants(product)

    assert run.returncode == 1, run.stdout + run.stderr
    assert f"STALE EXCEPTION product/trust.py::Gate.enter::{text}" in run.stdout


@pytest.mark.slow
def test_test_that_fails_by_itself_notices_nothing(product: Path) -> None:
    broken = TESTS.replace('enter("mallory")', 'enter("alice")')
    (product / "tests/unit/product/test_trust.py").write_text(broken)

    run = mutants(product)

    assert run.returncode == 1, run.stdout + run.stderr
    assert "FAILS WITHOUT A MUTANT tests/unit/product/test_trust.py::test_mallory" in run.stdout
    assert "2 refusals, 2 unnoticed" in run.stdout


@pytest.mark.slow
def test_refusals_are_noticed_in_a_sample() -> None:
    run = mutants(_ROOT, f"--every={_EVERY}")

    assert run.returncode == 0, run.stdout + run.stderr
