"""Plain columns as kubectl prints them: no frames, three spaces, nothing cut.

A terminal table that can be piped into ``awk`` beats a pretty one. Values come in as text. Where a
row is longer than a line of the terminal, columns are folded between words; a word, such as a name,
is never broken. If that is not enough, a last cell that does not fit stands below its row. Rows of
objects that are not well have a colour there. Elsewhere a row is a line, unless the caller keeps
the line breaks of its cells.
"""

import os
import shutil
import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Final

import click

from cli.terminal import printable

_GAP: Final = "   "
_BELOW: Final = "  "
"""The indentation of a last cell that stands below its row."""
_NARROWEST: Final = 20
"""Characters that a folded cell needs to be readable."""
_COLOURS: Final[Mapping[str, Mapping[str, str]]] = {
    # header of a column: the values that give their row a colour
    "READY": {"False": "red", "Unknown": "yellow"},
    "RESULT": {"failed": "red", "refused": "red", "blocking": "red", "warning": "yellow"},
    "TYPE": {"Warning": "yellow"},
}


def render(  # noqa: PLR0913 - how to show it
    header: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    show_header: bool,
    width: int | None = None,
    breaks: bool = False,
    colour: bool | None = None,
) -> str:
    """Return the table as text that ends in a newline, or an empty text for no rows.

    ``width`` is that of the terminal unless it is given, and 0 is endless. ``breaks`` is whether
    cells keep their line breaks. ``colour`` is whether rows have one: by default, on a terminal
    without ``NO_COLOR``.
    """
    limit = terminal() if width is None else width
    body = [tuple(_cell(cell, breaks=breaks) for cell in row) for row in rows]
    if not body:
        return ""
    lines = [tuple(header), *body] if show_header else body
    widths = _fitted(list(zip(*lines, strict=True)), limit)
    painted = _coloured() if colour is None else colour
    return "".join(
        _row(cells, widths, limit, _colour(header, cells) if painted else None) for cells in lines
    )


class Stream:
    """A table whose rows come one by one; columns grow as wider values come."""

    def __init__(
        self, header: Sequence[str], *, show_header: bool, width: int | None = None
    ) -> None:
        self._header = tuple(header)
        self._pending = show_header
        self._columns = [{_one_line(cell)} for cell in header]
        self._width = terminal() if width is None else width
        self._painted = _coloured()

    def fit(self, rows: Iterable[Sequence[str]]) -> None:
        """Widen the columns for rows that are printed later."""
        for row in rows:
            for column, cell in zip(self._columns, row, strict=True):
                column.add(_one_line(cell))

    def render(self, row: Sequence[str]) -> str:
        """Return one row, after the header if it is the first."""
        self.fit([row])
        cells, widths = [_one_line(cell) for cell in row], _fitted(self._columns, self._width)
        head = _row(self._header, widths, self._width) if self._pending else ""
        self._pending = False
        colour = _colour(self._header, cells) if self._painted else None
        return head + _row(cells, widths, self._width, colour)


def terminal() -> int:
    """Return the width of the terminal, or 0 without a terminal."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else 0


def _coloured() -> bool:
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def _colour(header: Sequence[str], cells: Sequence[str]) -> str | None:
    """Return the colour of a row; None for one that is well, and for the header."""
    named = (_COLOURS.get(name, {}).get(cell) for name, cell in zip(header, cells, strict=True))
    return next(filter(None, named), None)


def _fitted(columns: Sequence[Iterable[str]], width: int) -> list[int]:
    """Return the widths of columns, the widest narrowed again and again until a row fits.

    No column becomes narrower than its longest word, or than can be read.
    """
    found = [max(map(_widest, column)) for column in columns]
    least = [
        max(min(size, _NARROWEST), *map(_longest, column))
        for size, column in zip(found, columns, strict=True)
    ]
    over = sum(found) + len(_GAP) * (len(found) - 1) - width
    while width and over > 0:
        wide = [size if size > low else 0 for size, low in zip(found, least, strict=True)]
        if not any(wide):
            break
        found[wide.index(max(wide))] -= 1
        over -= 1
    return found


def _row(cells: Sequence[str], widths: Sequence[int], width: int, colour: str | None = None) -> str:
    """Return a row, which has as many lines as its highest cell.

    A last cell that does not fit into what is left of the line stands below.
    """
    *others, last = cells
    left = width - sum(widths[:-1]) - len(_GAP) * len(others)
    below = ""
    if width and others and _widest(last) > max(left, 0) and widths[-1] > left:
        cells = (*others, "")
        below = "".join(
            f"{_BELOW}{line}\n" for line in _folded(last, max(width - len(_BELOW), _NARROWEST))
        )
    folded = [list(_folded(cell, size)) for cell, size in zip(cells, widths, strict=True)]
    text = "".join(_line(parts, widths) for parts in zip_longest(*folded, fillvalue="")) + below
    return text if colour is None else click.style(text.rstrip("\n"), fg=colour) + "\n"


def _folded(cell: str, width: int) -> Iterator[str]:
    for line in cell.split("\n"):
        if len(line) <= width:
            yield line
        else:
            yield from textwrap.wrap(
                line, width, break_on_hyphens=False, break_long_words=False
            ) or [""]


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    padded = (cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
    return _GAP.join(padded).rstrip() + "\n"


def _widest(cell: str) -> int:
    return max(map(len, cell.split("\n")))


def _longest(cell: str) -> int:
    return max(map(len, cell.split()), default=0)


def _cell(cell: str, *, breaks: bool) -> str:
    return printable(cell.expandtabs().strip(), keep="\n") if breaks else _one_line(cell)


def _one_line(cell: str) -> str:
    return printable(" ".join(cell.split()))
