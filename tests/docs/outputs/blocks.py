"""Find the outputs in the pages, and replace them."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.docs.outputs.comparison import LEFT_OUT
from tests.docs.pages import PAGES, ROOT

_BLOCK: Final = re.compile(
    r"^<!-- output: (?P<run>[\w-]+) -->\n+```\w*\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL
)


@dataclass(frozen=True, slots=True)
class Block:
    """The output of ``run`` that a page shows, and its line in the page."""

    page: Path
    line: int
    run: str
    text: str

    @property
    def whole(self) -> bool:
        """Tell whether nothing is left out, so that it can be written from the run."""
        return LEFT_OUT not in self.text

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def blocks() -> Iterator[Block]:
    """Return the outputs of all pages."""
    for page in PAGES:
        text = page.read_text()
        for found in _BLOCK.finditer(text):
            line = text.count("\n", 0, found.start()) + 1
            yield Block(page, line, found["run"], found["text"])


def write(block: Block, output: str) -> None:
    """Replace the text of the block in its page."""
    page = block.page.read_text()
    block.page.write_text(page.replace(block.text, f"{output.strip()}\n", 1))
