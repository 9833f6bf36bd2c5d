"""A command loads what it needs: help loads no command, and ``get`` none of the heavy libraries."""

import gc
import subprocess
import sys
from collections.abc import Iterator

import click
import pytest

from cli import commands, loading
from cli.__main__ import penstock
from cli.commands import check
from toolkit.kube.options import Options

_HEAVY = (
    "aiohttp",
    "controllers",
    "controlplane",
    "cryptography",
    "dulwich",
    "kubernetes",
    "prometheus_client",
    "rich",
    "sigstore",
    "tarfile",
    "toolkit.apply.ssa",
    "toolkit.chart",
    "toolkit.native",
    "toolkit.policy",
    "toolkit.render",
    "webhooks",
)
_PROGRAM = """
import sys
from collections.abc import Iterator
from cli.__main__ import main
assert main(sys.argv[2:]) == 0
loaded = [name for name in sys.argv[1].split() if name in sys.modules]
print(loaded, file=sys.stderr)
"""
_EVERY_HELP = """
import sys
from cli.__main__ import main
found = []
for line in sys.argv[2:]:
    assert main([*line.split(), "--help"]) == 0, line
    loaded = [name for name in sys.argv[1].split() if name in sys.modules]
    if loaded and not found:
        found = [line, *loaded]
print(found, file=sys.stderr)
"""


def test_heavy_modules_are_left_alone_by_the_first_help() -> None:
    found = subprocess.run(
        [sys.executable, "-c", _PROGRAM, " ".join((*_HEAVY, "apiserver")), "--help"],
        capture_output=True,
        text=True,
        check=True,
    )

    assert found.stderr.strip() == "[]"


def test_help_of_no_command_loads_a_heavy_module() -> None:
    """One process asks every command, so a module that any of them loads is found."""
    lines = [words.removeprefix("penstock ") for words, _ in leaves(("penstock",), penstock)]

    found = subprocess.run(
        [sys.executable, "-c", _EVERY_HELP, " ".join(_HEAVY), *lines],
        capture_output=True,
        text=True,
        check=True,
    )

    assert found.stderr.strip() == "[]"
    assert len(lines) > 100


def test_a_module_is_loaded_when_something_of_it_is_asked_for() -> None:
    module = loading.Later("json.tool")
    missing = loading.Later("json.nothing")

    assert module.main.__module__ == "json.tool"
    with pytest.raises(ModuleNotFoundError):
        _ = missing.main


def test_the_collector_rests_while_modules_load() -> None:
    assert gc.isenabled()

    with loading.uncollected():
        assert not gc.isenabled()

    assert gc.isenabled()


def test_help_of_all_commands_loads_none() -> None:
    program = _PROGRAM.replace(
        "sys.argv[1].split() if name in sys.modules",
        "sys.modules if name.startswith('cli.commands.')",
    )

    found = subprocess.run(
        [sys.executable, "-c", program, "", "--help"], capture_output=True, text=True, check=True
    )

    assert found.stderr.strip() == "[]"


def test_defaults_that_help_shows_are_those_of_the_processes() -> None:
    assert Options().cross_namespace_refs == check.ENFORCED


@pytest.mark.parametrize("name", commands.VERBS)
def test_the_table_says_what_the_command_says(name: str) -> None:
    command = penstock.get_command(click.Context(penstock), name)

    assert command is not None
    assert (command.help or "").split("\n\n")[0].replace("\n", " ") == commands.VERBS[name].summary


def leaves(words: tuple[str, ...], command: click.Command) -> Iterator[tuple[str, click.Command]]:
    """Yield each command that does something, by its words."""
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            if child := command.get_command(context, name):
                yield from leaves((*words, name), child)
    if not isinstance(command, click.Group) or command.invoke_without_command:
        yield " ".join(words), command


def test_help_of_every_command_has_an_example_of_its_verb() -> None:
    lacking = [
        words
        for words, command in leaves(("penstock",), penstock)
        if " ".join(words.split()[:2]) not in (command.epilog or "")
    ]

    assert lacking == []
