"""Plain columns as kubectl prints them: no frames, three spaces, nothing cut.

A terminal table that can be piped into ``awk`` beats a pretty one. Values come in as text. On a
terminal the widest columns are folded where a row is longer than a line; elsewhere a row is a line,
unless the caller keeps the line breaks of its cells.
"""

import shutil
import sys
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from typing import Final

from cli.terminal import printable

_GAP: Final = "   "
_NARROWEST: Final = 10
"""Columns that a folded cell needs to be readable; in less, nothing is folded."""


def render(
    header: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    show_header: bool,
    width: int | None = None,
    breaks: bool = False,
) -> str:
    """Return the table as text that ends in a newline, or an empty text for no rows.

    ``width`` is that of the terminal unless it is given, and 0 is endless. ``breaks`` is whether
    cells keep their line breaks.
    """
    body = [tuple(_cell(cell, breaks=breaks) for cell in row) for row in rows]
    if not body:
        return ""
    lines = [tuple(header), *body] if show_header else body
    widths = [max(map(_widest, column)) for column in zip(*lines, strict=True)]
    widths = _fitted(widths, terminal() if width is None else width)
    return "".join(_row(cells, widths) for cells in lines)


class Stream:
    """A table whose rows come one by one; columns grow as wider values come."""

    def __init__(
        self, header: Sequence[str], *, show_header: bool, width: int | None = None
    ) -> None:
        self._header = tuple(header)
        self._pending = show_header
        self._widths = [len(cell) for cell in header]
        self._width = terminal() if width is None else width

    def fit(self, rows: Iterable[Sequence[str]]) -> None:
        """Widen the columns for rows that are printed later."""
        for row in rows:
            lengths = (len(_one_line(cell)) for cell in row)
            self._widths = [max(pair) for pair in zip(self._widths, lengths, strict=True)]

    def render(self, row: Sequence[str]) -> str:
        """Return one row, after the header if it is the first."""
        self.fit([row])
        cells, widths = [_one_line(cell) for cell in row], _fitted(self._widths, self._width)
        head = _row(self._header, widths) if self._pending else ""
        self._pending = False
        return head + _row(cells, widths)


def terminal() -> int:
    """Return the width of the terminal, or 0 without a terminal."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else 0


def _fitted(widths: Sequence[int], width: int) -> list[int]:
    """Narrow the widest column, again and again, until a row fits.

    Where columns would be too narrow to read, nothing is folded.
    """
    found = list(widths)
    over = sum(found) + len(_GAP) * (len(found) - 1) - width
    while width and over > 0:
        widest = max(found)
        if widest <= _NARROWEST:
            return list(widths)
        second = max(sorted((0, *found))[-2], _NARROWEST)  # the same where two are as wide
        cut = min(over, max(1, widest - second))
        found[found.index(widest)] -= cut
        over -= cut
    return found


def _row(cells: Sequence[str], widths: Sequence[int]) -> str:
    """Return a row, which has as many lines as its highest cell."""
    folded = [list(_folded(cell, width)) for cell, width in zip(cells, widths, strict=True)]
    return "".join(_line(parts, widths) for parts in zip_longest(*folded, fillvalue=""))


def _folded(cell: str, width: int) -> Iterator[str]:
    for line in cell.split("\n"):
        if len(line) <= width:
            yield line
        else:
            yield from textwrap.wrap(line, width, break_on_hyphens=False)


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    padded = (cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
    return _GAP.join(padded).rstrip() + "\n"


def _widest(cell: str) -> int:
    return max(map(len, cell.split("\n")))


def _cell(cell: str, *, breaks: bool) -> str:
    return printable(cell.expandtabs().strip(), keep="\n") if breaks else _one_line(cell)


def _one_line(cell: str) -> str:
    return printable(" ".join(cell.split()))
