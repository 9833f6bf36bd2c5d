"""A command loads what it needs: help loads no command, and ``get`` none of the heavy libraries."""

import gc
import subprocess
import sys
from collections.abc import Iterator

import click
import pytest

from cli import commands, loading
from cli.__main__ import penstock

_HEAVY = (
    "aiohttp",
    "apiserver.inventories",
    "controllers",
    "controlplane",
    "cryptography",
    "dulwich",
    "kubernetes",
    "prometheus_client",
    "rich",
    "sigstore",
    "toolkit.apply",
    "toolkit.native",
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


@pytest.mark.parametrize("words", [("--help",), ("get", "ks", "--help")])
def test_heavy_modules_are_left_alone(words: tuple[str, ...]) -> None:
    found = subprocess.run(
        [sys.executable, "-c", _PROGRAM, " ".join(_HEAVY), *words],
        capture_output=True,
        text=True,
        check=True,
    )

    assert found.stderr.strip() == "[]"


def test_help_of_commands_that_ask_servers_loads_no_http_client() -> None:
    lines = ["trace", "logs", "version", "create secret receiver", "trigger receiver"]
    lines += ["install", "uninstall"]
    program = """
import sys
from cli.__main__ import main
for line in sys.argv[1:]:
    assert main([*line.split(), "--help"]) == 0
print("aiohttp" in sys.modules, file=sys.stderr)
"""

    found = subprocess.run(
        [sys.executable, "-c", program, *lines], capture_output=True, text=True, check=True
    )

    assert found.stderr.strip() == "False"


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
