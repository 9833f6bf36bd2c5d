"""Plain columns as kubectl prints them: no frames, three spaces, nothing cut.

A terminal table that can be piped into ``awk`` beats a pretty one. Values come in as text.
"""

from collections.abc import Iterable, Sequence

_GAP = "   "


def render(header: Sequence[str], rows: Iterable[Sequence[str]], *, show_header: bool) -> str:
    """Return the table as text that ends in a newline, or an empty text for no rows."""
    body = [tuple(_one_line(cell) for cell in row) for row in rows]
    if not body:
        return ""
    lines = [tuple(header), *body] if show_header else body
    widths = [max(len(line[i]) for line in lines) for i in range(len(header))]
    return "".join(_line(cells, widths) for cells in lines)


class Stream:
    """A table whose rows come one by one; columns grow as wider values come."""

    def __init__(self, header: Sequence[str], *, show_header: bool) -> None:
        self._header = tuple(header)
        self._pending = show_header
        self._widths = [len(cell) for cell in header]

    def fit(self, rows: Iterable[Sequence[str]]) -> None:
        """Make the columns wide enough for rows that are known to come."""
        for row in rows:
            lengths = (len(_one_line(cell)) for cell in row)
            self._widths = [max(pair) for pair in zip(self._widths, lengths, strict=True)]

    def render(self, row: Sequence[str]) -> str:
        """Return one row, after the header if it is the first."""
        self.fit([row])
        cells = [_one_line(cell) for cell in row]
        head = _line(self._header, self._widths) if self._pending else ""
        self._pending = False
        return head + _line(cells, self._widths)


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    padded = (cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
    return _GAP.join(padded).rstrip() + "\n"


def _one_line(cell: str) -> str:
    return " ".join(cell.split())
