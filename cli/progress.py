"""Progress messages of commands, on stderr, with Flux's symbols.

Results go only to stdout, so a pipe gets nothing else. Symbols have a colour on a terminal, unless
``NO_COLOR`` is set (no-color.org).
"""

import os
from typing import Final

import click

from cli.terminal import printable


def action(text: str) -> None:
    """Announce the next action: ``►``."""
    _say("►", text)


def success(text: str) -> None:
    """Tell that it worked: ``✔``."""
    _say("✔", text)


def waiting(text: str) -> None:
    """Report what the command waits for: ``◎``."""
    _say("◎", text)


def failure(text: str) -> None:
    """Tell what failed: ``✗``."""
    _say("✗", text)


def _say(symbol: str, text: str) -> None:
    # click leaves colours out where stderr is not a terminal.
    plain = bool(os.environ.get("NO_COLOR"))
    click.echo(
        f"{click.style(symbol, fg=_COLOURS[symbol])} {printable(text, keep=_KEPT)}",
        err=True,
        color=False if plain else None,
    )


_KEPT: Final = "\n\t"
_COLOURS: Final = {"►": "cyan", "✔": "green", "◎": "yellow", "✗": "red"}
