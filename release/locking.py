"""Resolve the Debian packages into a lock: each with its version and SHA-256, and no host.

A dependency with alternatives is met by the first of them; versions are what the machine's apt
offers, of which the newest is taken.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from release import debian

ARCHITECTURES: Final = ("amd64", "arm64")

_HEADER: Final = (
    "# This file was written by the following command, from the packages in release/debian.py:\n"
    "#    make lock\n"
)
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9.+-]+")


def lock(architecture: str) -> None:
    """Write the lock for an architecture.

    Raises:
        ReleaseError: apt cannot be asked, or has no such package.
    """
    apt = debian.Apt(architecture)
    stanzas: dict[str, Mapping[str, str]] = {}
    wanted = list(debian.ROOTS)
    while wanted:
        name = wanted.pop()
        if name not in stanzas and name not in debian.LEFT_OUT:
            stanzas[name] = fields(apt.run("apt-cache", "show", "--no-all-versions", name))
            wanted.extend(dependencies(stanzas[name]))
    lines = [
        f"{name}={stanza['Version']} --hash=sha256:{stanza['SHA256']}\n"
        for name, stanza in sorted(stanzas.items())
    ]
    debian.lock_file(architecture).write_text(_HEADER + "".join(lines))


def fields(stanza: str) -> Mapping[str, str]:
    """Return the fields of one line each."""
    pairs = (line.partition(":") for line in stanza.splitlines() if not line.startswith(" "))
    return {name: value.strip() for name, _, value in pairs}


def dependencies(stanza: Mapping[str, str]) -> Iterator[str]:
    """Yield the names of the packages that a package needs to be there."""
    for field in ("Pre-Depends", "Depends"):
        for clause in stanza.get(field, "").split(","):
            if found := _NAME.match(clause.strip()):
                yield found[0]
