"""``make docs``: compare outputs in the documents with runs; ``write`` rewrites what differs."""

import itertools
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from cli import progress
from tests.docs.outputs import blocks, comparison, picture, runs
from tests.docs.pages import ROOT

PICTURE: Final = ROOT / "docs/images/demo.svg"
_LABEL: Final = "A terminal that shows the output of make demo"
_CHAPTERS: Final = ("2", "3", "4", "5", "7", "9")
"""The chapters of the demo that the picture shows."""
_CHAPTER: Final = re.compile(r"^(?=\d+\. )", re.MULTILINE)


def main(arguments: Sequence[str]) -> int:
    """Return 1 if a document shows what no run prints."""
    write = list(arguments) == ["write"]
    failed = False
    shown = sorted(blocks.blocks(), key=lambda block: block.run)
    for name, each in itertools.groupby(shown, key=lambda block: block.run):
        progress.action(name)
        output = comparison.plain(runs.RUNS[name]())
        for message in _compare(list(each), output, write=write):
            failed = True
            progress.failure(message)
    return 1 if failed else 0


def pictured(output: str) -> list[str]:
    """Return the lines of the demo's output that the picture shows."""
    parts = _CHAPTER.split(output)
    shown = [part.rstrip() for part in parts if part.partition(".")[0] in _CHAPTERS]
    return ["$ make demo", *"\n\n".join(shown).splitlines()]


def _compare(shown: Sequence[blocks.Block], output: str, *, write: bool) -> Iterator[str]:
    for block in shown:
        missing = comparison.difference(block.text, output)
        if missing is None:
            progress.success(str(block))
        elif write and block.whole:
            blocks.write(block, output)
            progress.success(f"{block} is rewritten")
        else:
            yield f"{block}: {block.run!r} does not print {missing!r}; it prints:\n{output}"
    if any(block.run == "demo" for block in shown):
        yield from _compare_picture(PICTURE, output, write=write)


def _compare_picture(path: Path, output: str, *, write: bool) -> Iterator[str]:
    drawn = picture.text(path.read_text()) if path.exists() else ""
    now = "\n".join(pictured(output))
    if comparison.words(drawn) == comparison.words(now):
        return
    if not write:
        yield f"{path.name} shows other words than the demo prints: make docs WRITE=1"
        return
    path.parent.mkdir(exist_ok=True)
    path.write_text(picture.draw(pictured(output), label=_LABEL))
    progress.success(f"{path.name} is redrawn")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
