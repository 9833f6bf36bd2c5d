"""``make demo``, as the reader of the README runs it."""

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.tools import waiting

ROOT = Path(__file__).parents[2]
SECONDS = 300.0
"""After which a demo hangs; never a measure of speed."""


@pytest.mark.slow  # thirteen chapters, most of which wait for rollouts
def test_demo_tells_the_whole_story_and_leaves_nothing_behind(
    tmp_path: Path, control_plane_programs: Path
) -> None:
    assert control_plane_programs.is_dir()

    told = subprocess.run(
        [sys.executable, "-m", "cli.demo"],
        cwd=ROOT,
        # What it starts inherits this, by which it is found below.
        env=os.environ | {"TMPDIR": str(tmp_path), "KEEP": ""},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )

    assert told.returncode == 0, f"{told.stdout}\n{told.stderr}"
    assert "✗" not in told.stdout
    chapters = re.findall(r"^(\d+)\. ", told.stdout, re.MULTILINE)
    assert chapters == [str(number) for number in range(1, 14)]
    words = " ".join(told.stdout.split())
    assert "denied the request: spec.verify: a signature must be demanded" in words
    assert "by ada@example.com (SHA256:" in words
    assert "no ReferenceGrant in namespace 'team-a'" in words
    assert 'in Git: password: "ENC[AES256_GCM' in words
    assert "sent: data[penstock.sops.yaml]" in words
    assert "Deployment/web: Changed by kubectl" in words
    assert "inventory.gitops.penstock.dev/shop 6 5/5 1 main@sha1:" in words
    assert "► Deployment/shop/web drifted ~ spec.replicas: 1 → 3" in words
    assert "penstock tag 1.0 as stable: rolled back" in words
    assert "image 1.1.0 is pushed: found, committed, verified, rolled out" in words
    assert re.search(r"[0-9a-f]{7} Sell from 127\.0\.0\.1:[0-9]+/booth:1\.1\.0", words)
    assert "ConfigMap/shop/news created changes: 1 created: ConfigMap/shop/news account:" in words
    assert left(tmp_path) == []
    assert list(tmp_path.glob("penstock-demo-*")) == []


def left(directory: Path) -> list[str]:
    """Return what does not end; what was killed ends a moment later."""
    deadline = time.monotonic() + waiting.SECONDS
    while (found := survivors(directory)) and time.monotonic() < deadline:
        time.sleep(0.05)
    return found


def survivors(directory: Path) -> list[str]:
    """Return the command lines of processes that were given this directory for temporary files."""
    marked = f"TMPDIR={directory}".encode()
    found = []
    for process in Path("/proc").iterdir():
        try:
            if process.name.isdigit() and marked in (process / "environ").read_bytes().split(b"\0"):
                found.append((process / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        except OSError:  # it is another user's, or has ended
            continue
    return found
