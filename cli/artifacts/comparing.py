"""Compare local files with an artifact, file by file.

Not the packed bytes: ``flux`` and this command compress the same files to different ones.
"""

from collections.abc import Mapping
from pathlib import Path

from cli.artifacts import pulling


def differences(local: Path, remote: Path) -> tuple[str, ...]:
    """Return a line for each file that pushing would add, change or remove."""
    return lines(pulling.contents(local), pulling.contents(remote))


def lines(local: Mapping[str, str], remote: Mapping[str, str]) -> tuple[str, ...]:
    """Return the lines, in the order of the paths; pure."""
    return tuple(
        f"► {name} {word}"
        for name in sorted(local.keys() | remote.keys())
        if (word := _word(local.get(name), remote.get(name)))
    )


def _word(local: str | None, remote: str | None) -> str:
    if local == remote:
        return ""
    if remote is None:
        return "created"
    return "deleted" if local is None else "changed"
