"""Every flag that a page names exists, and beside a command of ours it is one of that command."""

import itertools
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import click
import pytest

from cli import goflags
from cli.__main__ import penstock
from tests.docs.pages import PAGES, ROOT
from toolkit.kube.options import FLAGS

CONTROL_PLANE = ROOT / "controlplane" / "__main__.py"
THEIRS = {
    "kubectl": "audience from-file from-literal image overwrite raw selector "
    "server-side subresource type validate clusterrole serviceaccount",
    "kube-apiserver": "admission-control-config-file audit-log-path authentication-config "
    "service-account-issuer permit-port-sharing",
    "helm": "reuse-values set set-literal",
    "flux": "force reset",
    "cosign": "key fulcio rekor ctfe tsa out insecure-ignore-tlog signature",
    "notation": "timestamp-url",
    "python -m bench": "pace",
    "podman": "build-arg",
    "git": "sign short",
    "python -m crds": "without-gate",
    "python -m release": "architecture to registry",
}


def ours() -> Iterator[str]:
    yield from (flag.name for flag in FLAGS)
    yield from (option for each in walk(penstock) for option in options(each))
    tables = (goflags.CONNECTING, goflags.IGNORED, *goflags.OF_VERBS.values())
    yield from (name.lstrip("-") for table in tables for name in table)
    yield from re.findall(r'"--([a-z-]+)"', CONTROL_PLANE.read_text())


def walk(group: click.Command) -> Iterator[click.Command]:
    yield group
    if isinstance(group, click.Group):
        context = click.Context(group)
        for name in group.list_commands(context):
            if child := group.get_command(context, name):
                yield from walk(child)


def options(each: click.Command) -> Iterator[str]:
    for parameter in each.params:
        yield from (word.lstrip("-") for word in (*parameter.opts, *parameter.secondary_opts))


KNOWN = {"help", *ours(), *(word for words in THEIRS.values() for word in words.split())}


EACH_PAGE = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
FENCED = re.compile(r"^ *```.*?^ *```", re.DOTALL | re.MULTILINE)
FLAG = re.compile(r"(?<![\w-])--([a-z][a-z0-9-]+)")
OWN = re.compile(r"(?<![\w=-])--([a-z][a-z0-9-]+)")
"""Not a flag of another program that is a value: ``--flag kustomize=--concurrent=20``."""


@EACH_PAGE
def test_flags_exist(page: Path) -> None:
    named = set(FLAG.findall(page.read_text()))

    assert named - KNOWN == set()


@EACH_PAGE
def test_flags_are_those_of_the_command_beside_them(page: Path) -> None:
    wrong = {
        f"{command.name} --{flag}"
        for words in invocations(page.read_text())
        for command in commands(words)
        for flag in OWN.findall(" ".join(words))
        if flag not in accepted(command, verb=words[0])
    }

    assert wrong == set()


def test_a_flag_of_another_command_is_found() -> None:
    (words,) = invocations("run `penstock get|suspend sources git --resume` and `flux get --all`")

    found = [(each.name, "resume" in accepted(each, verb=words[0])) for each in commands(words)]

    assert found == [("git", False), ("git", False)]


def invocations(page: str) -> Iterator[Sequence[str]]:
    """Yield the words behind each ``penstock`` in code: fenced, or between backticks."""
    blocks = FENCED.findall(page)
    spans = re.findall(r"`([^`]+)`", FENCED.sub("", page))
    lines = [line for block in blocks for line in block.replace("\\\n", " ").splitlines()]
    for line in (*lines, *spans):
        for one in re.split(r" [|#>] |&&|;|\$\(", line):
            before, found, after = one.partition("penstock ")
            if found and re.fullmatch(r"[$ ]*([A-Z_]+=\S* )*(\.venv/bin/)?", before):
                yield after.split()


def commands(words: Sequence[str]) -> list[click.Command]:
    """Return what the words name; ``build|diff kustomization`` names two commands."""
    found: list[click.Command] = [penstock]
    for word in itertools.takewhile(lambda word: word[:1] != "-", words):
        below = [child for each in found for name in word.split("|") if (child := get(each, name))]
        if not below:
            break
        found = below
    return found


def get(group: click.Command, name: str) -> click.Command | None:
    return group.get_command(click.Context(group), name) if isinstance(group, click.Group) else None


def accepted(command: click.Command, *, verb: str) -> set[str]:
    """Return the flags of a command, and of those below it if it is a group."""
    tables = (goflags.CONNECTING, goflags.IGNORED, goflags.OF_VERBS.get(verb, {}))
    shared = (name.lstrip("-") for table in tables for name in table)
    return {"help", *shared, *(name for each in walk(command) for name in options(each))}
