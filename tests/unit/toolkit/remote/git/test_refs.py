"""What a spec means on a given list of references, and the revision it becomes."""

import pytest

from toolkit.errors import StalledError
from toolkit.remote.git import refs
from toolkit.remote.git.errors import RefNotFoundError
from toolkit.remote.git.refs import GitReference

A, B, C, D = ("a" * 40, "b" * 40, "c" * 40, "d" * 40)
REFS = {
    "refs/heads/main": A,
    "refs/heads/master": B,
    "refs/heads/main2": C,
    "refs/tags/v1.0.0": B,
    "refs/tags/v1.2.0": D,
    "refs/tags/v1.2.0^{}": C,
    "refs/tags/nightly": A,
    "refs/pull/420/head": C,
}


@pytest.mark.parametrize(
    ("reference", "revision"),
    [
        (GitReference(), f"master@sha1:{B}"),
        (GitReference(branch="main"), f"main@sha1:{A}"),
        (GitReference(tag="v1.0.0"), f"v1.0.0@sha1:{B}"),
        (GitReference(tag="v1.2.0"), f"v1.2.0@sha1:{C}"),
        (GitReference(semver=">=1.0"), f"v1.2.0@sha1:{C}"),
        (GitReference(name="refs/pull/420/head"), f"refs/pull/420/head@sha1:{C}"),
        (GitReference(name="refs/tags/v1.2.0"), f"refs/tags/v1.2.0@sha1:{C}"),
        (GitReference(commit=D), f"sha1:{D}"),
        (GitReference(commit=D, branch="main"), f"main@sha1:{D}"),
    ],
)
def test_revision_is_written_as_flux_writes_it(reference: GitReference, revision: str) -> None:
    assert refs.choose(reference, REFS).revision == revision


@pytest.mark.parametrize(
    ("reference", "commit"),
    [
        (GitReference(branch="main", tag="v1.0.0"), B),
        (GitReference(branch="main", tag="v1.0.0", semver="*"), C),
        (GitReference(tag="nightly", semver="1.0.0", name="refs/heads/main2"), C),
        (GitReference(branch="main", tag="x", semver="*", name="refs/x", commit=D), D),
    ],
)
def test_commit_wins_over_name_over_semver_over_tag_over_branch(
    reference: GitReference, commit: str
) -> None:
    assert refs.choose(reference, REFS).commit == commit


def test_annotated_tag_is_peeled_and_remembered() -> None:
    resolved = refs.choose(GitReference(tag="v1.2.0"), REFS)

    assert (resolved.commit, resolved.tag_object) == (C, D)
    assert resolved.ref == "refs/tags/v1.2.0"


def test_lightweight_tag_has_no_object() -> None:
    assert refs.choose(GitReference(tag="v1.0.0"), REFS).tag_object == ""


def test_nothing_is_asked_for_a_commit() -> None:
    assert refs.prefixes(GitReference(commit=A, branch="main")) == ()


@pytest.mark.parametrize(
    ("reference", "named"),
    [
        (GitReference(branch="mai"), "branch 'mai'"),
        (GitReference(tag="v9"), "tag 'v9'"),
        (GitReference(name="refs/heads/no"), "'refs/heads/no'"),
        (GitReference(semver=">=9"), ">=9"),
    ],
)
def test_missing_reference_is_named(reference: GitReference, named: str) -> None:
    with pytest.raises(RefNotFoundError, match=named) as caught:
        refs.choose(reference, REFS)

    assert caught.value.reason == "GitOperationFailed"


@pytest.mark.parametrize(
    "reference", [GitReference(commit="abc123"), GitReference(semver="newest")]
)
def test_reference_that_can_never_be_found_stalls(reference: GitReference) -> None:
    with pytest.raises(StalledError):
        refs.choose(reference, REFS)


@pytest.mark.parametrize("name", ["main", "feature/x", "refs/heads/main", "HEAD", "v1.2-rc.1", "ü"])
def test_a_name_that_git_allows_is_possible(name: str) -> None:
    assert refs.possible(name)


@pytest.mark.parametrize(
    "name", ["", "a b", "a..b", "a~1", "x.lock", "/x", "x/", "a\nb", "a" * 2000, "x^{}", "\ud800"]
)
def test_a_name_that_git_refuses_is_not_possible(name: str) -> None:
    assert not refs.possible(name)
