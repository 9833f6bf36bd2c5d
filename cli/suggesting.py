"""The command that a mistyped word may mean."""

import difflib
from collections.abc import Iterable

import click


def require_known(ctx: click.Context, group: click.Group, word: str, names: Iterable[str]) -> None:
    """Refuse a word that is no command, with the similar ones among ``names``.

    Raises:
        UsageError: there is no such command.
    """
    if word.startswith("-") or ctx.resilient_parsing or group.get_command(ctx, word) is not None:
        return
    similar = difflib.get_close_matches(word.lower(), list(names), n=2)
    hint = f" Did you mean {' or '.join(map(repr, similar))}?" if similar else ""
    ctx.fail(f"No such command {word!r}.{hint}")
