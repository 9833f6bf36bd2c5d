"""What is generated, on disk: written, or compared with what would be written.

Every generator of this repository ends here, so ``generate`` and ``check`` mean the same for all;
it stands beside the API types because everything may import those. What the files say is the
generators' affair.
"""

import difflib
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
"""The repository; files are named from here."""


def main(argv: Sequence[str], files: Mapping[Path, str], *, whole: Sequence[str] = ()) -> int:
    """Do what the one word says, ``generate`` or ``check``, and return the exit code."""
    match list(argv):
        case ["generate"]:
            write(files, whole=whole)
            return 0
        case ["check"]:
            found = list(differences(files, whole=whole))
            sys.stdout.writelines(found)
            if found:
                sys.stderr.write("what is generated is stale: run `make generate`\n")
            return 1 if found else 0
        case _:
            sys.stderr.write("usage: generate|check\n")
            return 2


def write(files: Mapping[Path, str], *, whole: Sequence[str] = (), root: Path = ROOT) -> None:
    """Write every file, and remove what else the patterns of ``whole`` find below the root."""
    for path in _gone(files, whole, root):
        (root / path).unlink()
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)


def differences(
    files: Mapping[Path, str], *, whole: Sequence[str] = (), root: Path = ROOT
) -> Iterator[str]:
    """Yield the lines of a unified diff for every file that ``write`` would change."""
    for path in _gone(files, whole, root):
        yield f"{path} is no longer generated\n"
    for path, text in files.items():
        found = (root / path).read_text() if (root / path).exists() else ""
        yield from difflib.unified_diff(
            found.splitlines(keepends=True), text.splitlines(keepends=True), str(path), "generated"
        )


def _gone(files: Mapping[Path, str], whole: Sequence[str], root: Path) -> list[Path]:
    present = {path.relative_to(root) for pattern in whole for path in root.glob(pattern)}
    return sorted(present - files.keys())
