"""Write ``docs/cli.md`` from the commands' own help: ``python -m cli.reference generate|check``."""

import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click

from cli import goflags
from cli.__main__ import penstock
from crds import written

FILE: Final = Path("docs/cli.md")
_WIDTH: Final = 96
_HEADER: Final = """# The `penstock` command

<!-- Generated from the commands' help by `make generate`; do not edit. -->

The command writes results to stdout, and progress and errors to stderr. On a terminal it folds
tables to the width of the terminal and colours its symbols, and rows of objects that are not ready;
`NO_COLOR` switches colours off.

| exit code | of most commands | of `penstock diff` | of `penstock check` |
|---|---|---|---|
| 0 | success | there are no differences | nothing would be refused |
| 1 | failure; an empty list is none | there are differences | something would be refused |
| 2 | | failure | failure |
| 130 | interrupted | interrupted | interrupted |

Commands that ask a cluster also take the connection flags of `kubectl` and `flux`, which help does
not list:
{connecting}.
Flags without a value can be written with one (`--watch=false`), and the shared flags can stand
before the verb (`penstock -n apps get kustomizations`). Some flags of `flux` are accepted
[without effect](differences.md#commands).
"""


def render() -> str:
    """Return the whole reference."""
    sections = [_section(path, command) for path, command in _walk(("penstock",), penstock)]
    flags = ", ".join(f"`{name}`" for name in goflags.CONNECTING)
    header = _HEADER.format(
        connecting="\n".join(textwrap.wrap(flags, _WIDTH, break_on_hyphens=False))
    )
    return "\n".join([header, *sections])


def _walk(
    path: tuple[str, ...], command: click.Command
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    yield path, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.commands or command.list_commands(context):
            if child := command.get_command(context, name):
                yield from _walk((*path, name), child)


def _section(path: tuple[str, ...], command: click.Command) -> str:
    name = " ".join(path)
    context = click.Context(
        command,
        info_name=name,
        terminal_width=_WIDTH,
        help_option_names=["-h", "--help"],
    )
    return f"## {name}\n\n```text\n{command.get_help(context)}\n```\n"


if __name__ == "__main__":
    sys.exit(written.main(sys.argv[1:], {FILE: render()}))
