"""Subcommands follow the table of kinds."""

import click
import pytest

from cli import errors, kindtree
from cli.commands import get, reconcile, suspend
from cli.kindtree import KINDS, RECONCILED


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.kind)
def test_every_kind_of_the_table_has_its_get(kind: kindtree.AnyKind) -> None:
    context = click.Context(get.get)
    groups = [get.get.get_command(context, word) for word in ("sources", "images")]

    homes = [get.get, *(each for each in groups if isinstance(each, kindtree.AliasGroup))]

    for word in kindtree.names(kind):
        assert any(home.get_command(click.Context(home), word) for home in homes), word


@pytest.mark.parametrize(
    "verb", [reconcile.reconcile, suspend.suspend, suspend.resume], ids=lambda verb: verb.name
)
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.kind)
def test_kinds_that_nobody_reconciles_have_no_verbs(
    kind: kindtree.AnyKind, verb: kindtree.AliasGroup
) -> None:
    home: click.Command | None = verb
    for word in kindtree.spelled(kind).split():
        assert isinstance(home, click.Group)
        home = home.get_command(click.Context(home), word)

    assert (home is not None) == (kind in RECONCILED)


def test_an_external_artifact_is_its_makers() -> None:
    assert {kind.kind for kind in set(KINDS) - set(RECONCILED)} == {"ExternalArtifact"}


@pytest.mark.parametrize(
    "word", ["git", "gitrepository", "gitrepositories", "GitRepository", "gitrepo"]
)
def test_git_repository_has_all_its_names(word: str) -> None:
    assert kindtree.require(word).kind == "GitRepository"


def test_kind_can_be_named_with_its_group() -> None:
    group = "kustomize.toolkit.fluxcd.io"

    assert kindtree.require(f"kustomizations.{group}").kind == "Kustomization"
    assert kindtree.find("kustomizations.kustomize.config.k8s.io") is None


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("ImageRepository", "image repository"),
        ("ImagePolicy", "image policy"),
        ("ImageUpdateAutomation", "image update"),
        ("GitRepository", "source git"),
        ("Kustomization", "kustomization"),
    ],
)
def test_kinds_are_called_as_flux_calls_them(kind: str, words: str) -> None:
    assert kindtree.spelled(kindtree.require(kind)) == words


def test_unknown_kind_is_refused_with_the_known_ones() -> None:
    with pytest.raises(errors.UsageError, match=r"known are .*GitRepository.*Kustomization"):
        kindtree.require("deployment")
