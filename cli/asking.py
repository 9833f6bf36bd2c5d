"""Questions to the user, on stderr. Without a terminal nobody can answer: a flag must."""

import sys

import click

from cli import errors


def require(question: str, *, otherwise: str, flag: str = "--silent") -> None:
    """Ask, and return if the answer is yes; ``otherwise`` is what a no means.

    Raises:
        UsageError: it is no, or there is no terminal; then the message names ``flag``.
    """
    if not sys.stdin.isatty():
        raise errors.UsageError(f"{otherwise}: there is no terminal to confirm at; use {flag}")
    if not click.confirm(question, err=True):
        raise errors.UsageError(otherwise)
