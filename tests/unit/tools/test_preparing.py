"""What is built for which tests, and when they begin."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.tools import preparing, programs

ROOT = Path(__file__).parents[3]


def test_nothing_is_built_for_tests_that_need_nothing() -> None:
    assert preparing.needed(["tmp_path", "http"]) == ()


@pytest.mark.parametrize(
    ("fixture", "part"),
    [
        ("cosign_program", "cosign"),
        ("notation_sign_program", "notation-sign"),
        ("object_server", "fake-gcs-server"),
        ("azure", "azurite"),
        ("control_plane", "control plane (usual)"),
        ("oldest_programs", "control plane (oldest)"),
    ],
)
def test_a_test_waits_for_what_its_fixtures_need(fixture: str, part: str) -> None:
    assert part in [each.name for each in preparing.needed([fixture])]


def test_every_program_has_a_part() -> None:
    assert {*programs.PROGRAMS} <= {part.name for part in preparing.PARTS}


def test_the_first_line_says_what_is_built_and_for_how_long() -> None:
    line = preparing.announcement(("cosign", "flux"), processors=2)

    assert line.startswith("► building cosign, flux: about ")
    assert "on 2 idle processors" in line


@pytest.mark.parametrize("workers", [(), ("-n", "2", "--dist=loadfile")], ids=["0", "2"])
def test_a_test_waits_for_its_program_before_its_timeout_begins(
    tmp_path: Path, workers: tuple[str, ...]
) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\ntimeout = 300\n")
    (tmp_path / "conftest.py").write_text(
        f"""
from pathlib import Path
import pytest
from tests.tools import preparing

log = Path({str(tmp_path / "log")!r})

def tell(line):
    with log.open("a") as file:
        file.write(f"{{line}}\\n")

preparing.PARTS = (
    preparing.Part(
        name="thing",
        fixtures=frozenset({{"thing_program"}}),
        missing=lambda: ("cosign",),
        build=lambda: tell("built"),
    ),
)

@pytest.fixture
def thing_program():
    tell("used")

@pytest.hookimpl(tryfirst=True)
def pytest_timeout_set_timer(item):
    tell(f"timer of {{item.name}}")
"""
    )
    (tmp_path / "test_one.py").write_text(
        "def test_plain(): pass\ndef test_thing(thing_program): pass\n"
    )

    done = run(tmp_path, *workers)

    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "log").read_text().splitlines() == [
        "timer of test_plain",
        "built",
        "timer of test_thing",
        "used",
    ]
    assert "► building cosign: about" in done.stderr


def run(directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the tests of a directory with the plugin."""
    return subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-p", "tests.tools.preparing"),
            *("-p", "no:cacheprovider", *arguments, "."),
        ],
        cwd=directory,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "HOME": str(directory)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
