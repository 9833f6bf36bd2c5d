"""Every verb and every flag that ``flux`` has is taken here; exceptions have a reason.

Flux's command writes its own reference, from which verbs and flags are read. What is taken without
an effect is in ``cli.goflags``, or a hidden option of a command; ``docs/differences.md`` tells.
"""

import re
import subprocess
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

import click
import pytest

from cli import goflags
from cli.__main__ import penstock

_FLAG = re.compile(r"^\s+(?:-(?P<short>\w), )?\s*--(?P<name>[\w-]+)(?: (?P<type>[\w|]+))?\s{2,}")
COMMANDS = {
    "plugin *": "Penstock runs no external program, so there are no plugins",
}
"""Commands that there are not, and why."""


@dataclass(frozen=True)
class Flag:
    """A flag as the reference of Flux has it."""

    name: str
    short: str
    takes_value: bool


@pytest.fixture(scope="module")
def reference(
    flux_program: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, list[Flag]]:
    """Return the flags of each of Flux's commands by its words."""
    folder = tmp_path_factory.mktemp("reference")
    subprocess.run(
        [flux_program, "docgen", "--path", folder], check=True, env={"HOME": str(folder)}
    )
    pages = {page.stem.replace("_", " "): page.read_text() for page in folder.glob("*.md")}
    leaves = [words for words in pages if not any(other.startswith(f"{words} ") for other in pages)]
    return {words.removeprefix("flux "): flags(pages[words]) for words in leaves}


def flags(page: str) -> list[Flag]:
    _, _, options = page.partition("### Options\n")
    found = (_FLAG.match(line) for line in options.splitlines())
    return [
        Flag(f"--{each['name']}", f"-{each['short']}" if each["short"] else "", bool(each["type"]))
        for each in found
        if each is not None and each["name"] != "help"
    ]


def ours(words: str) -> tuple[click.Context, click.Command] | None:
    """Return our command of these words, and the group that it is in."""
    context: click.Context = click.Context(penstock, info_name="penstock")
    command: click.Command = penstock
    rest = words.split()
    while rest and isinstance(command, click.Group):
        if context.command is not command:
            context = click.Context(command, info_name=command.name, parent=context)
        try:
            _, found, rest = command.resolve_command(context, rest)
        except click.UsageError:
            return None
        assert found is not None
        command = found
    return context, command


def test_every_command_of_flux_is_there(reference: dict[str, list[Flag]]) -> None:
    missing = [words for words in reference if ours(words) is None]
    excepted = [w for w in missing if any(fnmatch(w, pattern) for pattern in COMMANDS)]

    assert missing == excepted
    assert all(any(fnmatch(w, pattern) for w in missing) for pattern in COMMANDS)
    assert len(reference) > 130


def test_every_flag_of_flux_is_taken(reference: dict[str, list[Flag]]) -> None:
    wrong = {
        (words, flag.name)
        for words, found in reference.items()
        if (place := ours(words)) is not None
        for flag in found
        if not taken(*place, flag)
    }

    assert wrong == set()
    assert sum(map(len, reference.values())) > 3_000


def taken(group: click.Context, command: click.Command, flag: Flag) -> bool:
    """Tell whether the flag is read with its value, and under its short name."""
    own = next(
        (
            option
            for option in command.params
            if isinstance(option, click.Option) and flag.name in option.opts
        ),
        None,
    )
    if own is None:
        words = [flag.name, "x"] if flag.takes_value else [flag.name]
        return goflags.adapt(group, command, words) == []
    optional = own.flag_value is not None and not own.is_flag
    return (own.is_flag is not flag.takes_value or optional) and flag.short in ("", *own.opts)
