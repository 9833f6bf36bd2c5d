"""Every flag that a page names is one of ours, or of the tool that is told of there."""

import re
from collections.abc import Iterator
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


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_flags_exist(page: Path) -> None:
    named = set(re.findall(r"(?<![\w-])--([a-z][a-z0-9-]+)", page.read_text()))

    assert named - KNOWN == set()
