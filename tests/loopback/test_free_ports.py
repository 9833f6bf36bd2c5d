"""Ports for servers that tests start: two runs at the same time never share one."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
ALL = """import sys
from tests.fakes.serving import free_port
ports = iter(range(30_000, 30_020))
try:
    while True:
        free_port(ports)
except AssertionError:
    print("taken", flush=True)
sys.stdin.read()"""
ONE = "from tests.fakes.serving import free_port; print(free_port(range(30_000, 30_020)))"


def test_a_port_is_given_to_one_process_until_that_ends(tmp_path: Path) -> None:
    # A directory of their own: the other tests go on.
    env = {**os.environ, "TMPDIR": str(tmp_path), "PYTHONPATH": str(ROOT)}
    another = [sys.executable, "-c", ONE]
    with subprocess.Popen(
        [sys.executable, "-c", ALL], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as first:
        assert first.stdout is not None
        assert first.stdout.readline() == b"taken\n"
        meanwhile = subprocess.run(another, env=env, capture_output=True, text=True, check=False)
        first.communicate()
    after = subprocess.run(another, env=env, capture_output=True, text=True, check=True)

    assert "all ports have been given away" in meanwhile.stderr
    assert 30_000 <= int(after.stdout) < 30_020
