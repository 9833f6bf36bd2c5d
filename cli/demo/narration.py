"""Print the story: chapters, and steps with their durations."""

import sys
import textwrap
import time
from collections.abc import Iterator
from contextlib import contextmanager

import click

_WIDTH = 78


class Clock:
    """Measures one step; starts with it, unless ``start`` is called later."""

    def __init__(self) -> None:
        self._began = time.perf_counter()
        self._ended: float | None = None
        self.note = ""

    def start(self) -> None:
        """Begin here: what came before was preparation."""
        self._began = time.perf_counter()

    def stop(self) -> None:
        """End the measurement here; later steps only show the result."""
        self._ended = time.perf_counter()

    @property
    def seconds(self) -> float:
        """Return the measured seconds."""
        return (self._ended or time.perf_counter()) - self._began


def chapter(title: str) -> None:
    """Begin a new part of the story."""
    click.echo(f"\n{click.style(title, bold=True)}")


def tell(text: str) -> None:
    """Print something worth knowing, below the step that it belongs to."""
    for line in text.splitlines():
        click.echo(f"    {line}")


def quote(text: str) -> str:
    """Fold a long message as the terminal would, for ``note`` and ``tell``."""
    return textwrap.fill(text, _WIDTH - 4, break_long_words=False, break_on_hyphens=False)


@contextmanager
def step(text: str) -> Iterator[Clock]:
    """Run one step and print how long it took; ``clock.note`` is printed below."""
    clock = Clock()
    live = sys.stdout.isatty()
    if live:
        click.echo(f"  ◎ {text}", nl=False)
    try:
        yield clock
    except BaseException:
        _end(f"  ✗ {text}", live=live)
        raise
    seconds = clock.seconds
    _end(f"  ✔ {text:<{_WIDTH - 14}} {duration(seconds):>9}", live=live)
    if clock.note:
        tell(clock.note)


def duration(seconds: float) -> str:
    """Return milliseconds below a second, else seconds."""
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.2f} s"


def _end(line: str, *, live: bool) -> None:
    click.echo(f"\r\x1b[K{line}" if live else line)
