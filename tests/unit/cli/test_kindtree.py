"""Subcommands follow the table of kinds."""

import click
import pytest

from cli import errors, kindtree
from cli.commands import get
from cli.kindtree import KINDS


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.kind)
def test_every_kind_of_the_table_has_its_get(kind: kindtree.AnyKind) -> None:
    sources = get.get.get_command(click.Context(get.get), "sources")
    assert isinstance(sources, kindtree.AliasGroup)

    homes = [get.get, sources]

    for word in kindtree.names(kind):
        assert any(home.get_command(click.Context(home), word) for home in homes), word


@pytest.mark.parametrize(
    "word", ["git", "gitrepository", "gitrepositories", "GitRepository", "gitrepo"]
)
def test_git_repository_has_all_its_names(word: str) -> None:
    assert kindtree.require(word).kind == "GitRepository"


def test_kind_can_be_named_with_its_group() -> None:
    group = "kustomize.toolkit.fluxcd.io"

    assert kindtree.require(f"kustomizations.{group}").kind == "Kustomization"
    assert kindtree.find("kustomizations.kustomize.config.k8s.io") is None


def test_unknown_kind_is_refused_with_the_known_ones() -> None:
    with pytest.raises(errors.UsageError, match=r"known are .*GitRepository.*Kustomization"):
        kindtree.require("deployment")
