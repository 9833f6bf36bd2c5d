"""The shell completes names of objects: for every command that takes one."""

import asyncio
from collections.abc import Iterator

import click
import pytest
from click.shell_completion import ShellComplete

import crds
from cli.__main__ import penstock
from tests.fakes.apiserver import KINDS, FakeApiServer

_NEW = ("create ", "build artifact", "diff artifact", "seal")
"""Commands whose argument is the name of something new, or no name of an object."""
_OF_API = "gitops.penstock.dev"


def commands() -> Iterator[str]:
    """Yield the words of every command with an argument for names of objects."""
    for words, command in _walk("", penstock):
        arguments = {each.name for each in command.params if isinstance(each, click.Argument)}
        if arguments & {"name", "names"} and not words.startswith(_NEW):
            yield words


def _walk(words: str, command: click.Command) -> Iterator[tuple[str, click.Command]]:
    yield words, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield from _walk(f"{words} {name}".strip(), below)


def cluster() -> FakeApiServer:
    server = FakeApiServer()
    rows = {(kind.group, kind.version, kind.plural): kind.kind for kind in crds.KINDS}
    served = {
        (_OF_API, "v1alpha1", "inventories"): "Inventory",
        (_OF_API, "v1alpha1", "artifacts"): "Artifact",
        ("", "v1", "namespaces"): "Namespace",
    }
    server.kinds = {**KINDS, **rows, **served}
    for _, _, plural in server.kinds:
        server.put(plural, "web", "apps")
        server.put(plural, "worker", "apps")
        server.put(plural, "other", "elsewhere")
    return server


def completed(*words: str, begun: str, last: tuple[str, ...] = ()) -> list[str]:
    async def main() -> list[str]:
        async with cluster().running() as api:
            shell = ShellComplete(penstock, {}, "penstock", "_PENSTOCK_COMPLETE")
            found = await asyncio.to_thread(
                shell.get_completions, [*words, f"--server={api.server}", *last], begun
            )
            return [each.value for each in found]

    return asyncio.run(main())


@pytest.mark.parametrize("words", [*commands()])
def test_names_of_objects_are_offered(words: str) -> None:
    assert completed(*words.split(), "-n", "apps", begun="w") == ["web", "worker"]


def test_namespaces_are_offered() -> None:
    assert completed("get", "ks", begun="we", last=("-n",)) == ["web"]


def test_without_a_cluster_nothing_is_offered_and_nothing_said(
    capsys: pytest.CaptureFixture[str],
) -> None:
    shell = ShellComplete(penstock, {}, "penstock", "_PENSTOCK_COMPLETE")

    found = shell.get_completions(["get", "ks", "--server=http://127.0.0.1:1"], "w")

    assert found == []
    assert capsys.readouterr() == ("", "")
