"""Colours are for terminals, and for those who want them."""

import io
import sys

import pytest

from cli import progress


class Terminal(io.StringIO):
    """A stream that says that a person reads it."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("stream", "no_color", "coloured"),
    [(Terminal, "", True), (Terminal, "1", False), (io.StringIO, "", False)],
)
def test_symbols_have_colours_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, stream: type[io.StringIO], no_color: str, *, coloured: bool
) -> None:
    written = stream()
    monkeypatch.setattr(sys, "stderr", written)
    monkeypatch.setenv("NO_COLOR", no_color)

    progress.success("done")

    assert written.getvalue() == ("\x1b[32m✔\x1b[0m done\n" if coloured else "✔ done\n")
