"""Which worker runs what, and in which order."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tools import distribution

ROOT = Path(__file__).parents[3]
ROUGH = distribution.GROUPS["rough"]
TEST = """
import os, pathlib

def test_it():
    with pathlib.Path("told").open("a") as told:
        told.write(os.environ["PYTEST_XDIST_WORKER"] + " " + pathlib.Path(__file__).stem + "\\n")
"""


def test_every_file_of_a_group_exists() -> None:
    listed = [file for files in distribution.GROUPS.values() for file in files]

    assert [file for file in listed if not (ROOT / file).is_file()] == []
    assert len(set(listed)) == len(listed)


@pytest.mark.parametrize(
    ("group", "sign"),
    [("rough", "mark.rough"), ("rough", "second_control_plane"), ("ungated", "mark.ungated")],
)
def test_every_file_that_shares_a_world_is_in_its_group(group: str, sign: str) -> None:
    files = [f for at in ("contract", "e2e") for f in (ROOT / "tests" / at).rglob("test_*.py")]
    users = {f.relative_to(ROOT).as_posix() for f in files if sign in f.read_text()}

    assert users
    assert sorted(users - set(distribution.GROUPS[group])) == []


def test_what_takes_longest_begins_first_and_what_needs_least_next() -> None:
    files = [
        "tests/unit/release/test_building.py",
        "tests/e2e/node/test_upgrade.py",
        "tests/e2e/node/test_chart.py",
        "tests/unit/cli/test_table.py",
        "tests/fuzz/test_parsers.py",
        "tests/contract/kube/test_client.py",
        "tests/e2e/test_replicas.py",
        "tests/e2e/test_tree.py",
    ]

    assert sorted([*files[3:], *files[:3]], key=distribution.rank) == files


def test_files_of_a_group_run_on_one_worker_and_others_wherever_there_is_room(
    tmp_path: Path,
) -> None:
    files = (*ROUGH[:3], *(f"tests/e2e/test_{name}.py" for name in "abcdef"))
    for file in files:
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text(TEST)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")

    options = ("-n", "2", "--dist=loadfile", "--no-loadscope-reorder", "--import-mode=importlib")
    plugins = ("-p", "tests.tools.distribution", "-p", "no:cacheprovider")
    subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *plugins, *options, *files],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        check=True,
        capture_output=True,
    )

    ran = [line.split() for line in (tmp_path / "told").read_text().splitlines()]
    assert len(ran) == len(files)
    stems = {Path(file).stem for file in ROUGH}
    group = {worker for worker, name in ran if name in stems}
    assert len(group) == 1
    assert {worker for worker, _ in ran} == {"gw0", "gw1"}


def test_groups_come_first_in_their_order_and_others_stay_as_they_are() -> None:
    ids = ["tests/e2e/test_b.py::x", f"{ROUGH[1]}::y", "tests/e2e/test_a.py::z", f"{ROUGH[0]}::w"]

    ranked = sorted(ids, key=distribution.rank)

    assert ranked == [ids[3], ids[1], ids[0], ids[2]]
