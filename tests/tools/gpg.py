"""The real gpg, run in a key directory of its own."""

import os
import subprocess
from pathlib import Path


def run(home: Path, *args: str, stdin: bytes = b"", at: str = "") -> bytes:
    """Return what gpg prints; ``at`` is the time that it takes for now, as ``20200301T120000``."""
    time = ["--faked-system-time", f"{at}!"] if at else []
    return subprocess.run(
        ["gpg", "--quiet", "--batch", "--pinentry-mode", "loopback", *time, *args],
        env=os.environ | {"GNUPGHOME": str(home)},
        input=stdin,
        capture_output=True,
        check=True,
    ).stdout


def stop(home: Path) -> None:
    """End the agent of a key directory, which outlives the gpg that started it."""
    subprocess.run(
        ["gpgconf", "--kill", "all"], env=os.environ | {"GNUPGHOME": str(home)}, check=True
    )


def fingerprint(home: Path, name: str) -> str:
    """Return the fingerprint of the primary key of ``name@example.org``."""
    listing = run(home, "--with-colons", "--list-keys", f"{name}@example.org").decode()
    return next(line.split(":")[9] for line in listing.splitlines() if line.startswith("fpr"))
