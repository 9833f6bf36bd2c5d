"""The lines in which a command tells what it does, on stderr, with Flux's symbols.

Results go to stdout and nowhere else, so a pipe sees only them.
"""

import click


def action(text: str) -> None:
    """Announce what is done next: ``►``."""
    _say("►", text)


def success(text: str) -> None:
    """Tell that it worked: ``✔``."""
    _say("✔", text)


def waiting(text: str) -> None:
    """Tell what is waited for: ``◎``."""
    _say("◎", text)


def failure(text: str) -> None:
    """Tell what failed: ``✗``."""
    _say("✗", text)


def _say(symbol: str, text: str) -> None:
    click.echo(f"{symbol} {text}", err=True)
