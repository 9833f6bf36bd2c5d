"""Which objects are taken, what is refused before it becomes a path, and the revision."""

import hashlib
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controllers.source import bucketindex
from controllers.source.bucketindex import Collector, Index, Sieve
from toolkit.artifact.limits import Limits
from toolkit.errors import StalledError, TransientError
from toolkit.remote.objectstore.objectstore import Object


def objects(*keys: str, size: int = 1) -> list[Object]:
    tags = [key if key.isprintable() else ascii(key) for key in keys]
    return [
        Object(key=key, etag=f"tag-{tag}", size=size) for key, tag in zip(keys, tags, strict=True)
    ]


def collected(*found: Object, bounds: Limits | None = None) -> Index:
    collector = Collector("b", bounds=bounds or Limits())
    collector.add(found)
    return collector.index()


def kept(keys: list[str], *, file: str = "", spec: str = "") -> list[str]:
    return [found.key for found in Sieve.of(file, spec).take(objects(*keys))]


def test_the_revision_is_that_of_flux() -> None:
    lines = b"a/x tag-a/x\nb tag-b\n\xc3\xbc tag-\xc3\xbc\n"

    revision = collected(*objects("b", "ü", "a/x")).revision

    assert revision == f"sha256:{hashlib.sha256(lines).hexdigest()}"


@given(st.permutations(objects("a", "b", "c/d", "é", "z" * 200, "\U0001f600", "\uffff")))
def test_the_revision_does_not_depend_on_the_order(found: list[Object]) -> None:
    assert collected(*found).revision == collected(*reversed(found)).revision


def test_the_revision_follows_keys_and_tags_only() -> None:
    before = objects("a", "b")

    assert collected(*before).revision != collected(before[0]).revision
    assert collected(*before).revision != collected(*objects("a", "c")).revision
    changed = replace(before[0], etag="other")
    assert collected(changed, before[1]).revision != collected(*before).revision
    grown = replace(before[0], size=7)
    assert collected(grown, before[1]).revision == collected(*before).revision


def test_keys_that_differ_in_case_are_two_files() -> None:
    assert len(collected(*objects("README", "readme")).objects) == 2


@pytest.mark.parametrize(
    "key",
    [
        "..",
        "../up",
        "a/../b",
        "a/..",
        "/absolute",
        "a//b",
        "./a",
        "a/.",
        ".",
        "",
        "nul\0",
        "line\nfeed",
        "tab\t",
        "escape\x1b[31m",
        "line\u2028separator",
        "half\ud800",
        "x" * 256,
        "ü" * 128,
        "a/" * 64 + "b",
    ],
)
def test_a_key_that_is_no_plain_path_is_refused(key: str) -> None:
    with pytest.raises(TransientError, match=r"not a plain path; spec\.ignore") as caught:
        collected(*objects(key))

    assert caught.value.reason == "BucketOperationFailed"
    assert str(caught.value).isprintable()


@given(st.text())
def test_a_key_that_is_taken_stays_below_its_directory(key: str) -> None:
    try:
        (found,) = collected(*objects(key)).objects
    except TransientError:
        return
    assert not {"", ".", ".."} & set(found.key.split("/"))
    assert "\0" not in found.key
    assert "\n" not in found.key


@pytest.mark.parametrize(
    "key", ["a b", "nb\u00a0space", "\u202fnarrow", "日本/語.yaml", "...", ".hidden", "a\\b", "-x"]
)
def test_a_key_that_is_a_plain_path_is_taken(key: str) -> None:
    assert [found.key for found in collected(*objects(key)).objects] == [key]


@pytest.mark.parametrize("keys", [("a", "a/b"), ("x/y/z", "x"), ("a/b", "a/b/c/d")])
def test_a_file_that_is_a_directory_too_is_refused(keys: tuple[str, ...]) -> None:
    with pytest.raises(TransientError, match="as a file and as the directory of another"):
        collected(*objects(*keys))


def test_an_object_listed_twice_is_refused() -> None:
    with pytest.raises(TransientError, match="lists 'a' twice"):
        collected(*objects("a", "a"))


@pytest.mark.parametrize(
    ("bounds", "told"),
    [
        (Limits(entries=2), "more than 2 objects"),
        (Limits(file_bytes=1 << 20), "larger than 1 MiB"),
        (Limits(total_bytes=5 << 20), "more than 5 MiB together"),
    ],
)
def test_more_than_the_bounds_is_refused(bounds: Limits, told: str) -> None:
    with pytest.raises(TransientError, match=told):
        collected(*objects("a", "b", "c", size=2 << 20), bounds=bounds)


def test_a_listing_without_end_is_cut() -> None:
    collector = Collector("b")
    collector.count(bucketindex.MAX_LISTED)

    with pytest.raises(TransientError, match=r"set spec\.prefix"):
        collector.count(1)


def test_directories_come_before_what_they_hold() -> None:
    index = collected(*objects("a/b/c", "a/x", "d"))

    assert index.directories == ["a", "a/b"]


def test_folders_and_the_rules_themselves_are_no_files() -> None:
    assert kept(["folder/", ".sourceignore", "a", "sub/.sourceignore"]) == [
        "a",
        "sub/.sourceignore",
    ]


def test_nothing_is_left_out_that_nobody_named() -> None:
    keys = ["picture.png", "a/.gitignore", "a.zip", ".github/x", ".sops.yaml"]

    assert kept(keys) == keys


def test_a_git_directory_is_no_part_of_a_source() -> None:
    assert kept([".git/config", "sub/.git/HEAD", "sub/x.git/y"]) == ["sub/x.git/y"]


def test_rules_of_the_spec_win_over_those_of_the_file() -> None:
    keys = ["a.md", "b.md", "c.txt"]

    assert kept(keys, file="*.md\n!b.md", spec="") == ["b.md", "c.txt"]
    assert kept(keys, file="*.md", spec="!a.md") == ["a.md", "c.txt"]
    assert kept(keys, file="!a.md", spec="*.md") == ["c.txt"]


def test_a_rule_for_a_directory_holds_below_it() -> None:
    keys = ["dir/a", "dir/deep/b", "other/dir/c", "dir"]

    assert kept(keys, spec="dir/") == ["dir"]
    assert kept(keys, spec="/dir") == ["other/dir/c"]
    assert kept(keys, spec="*\n!dir/deep/") == ["dir/deep/b"]
    assert kept(keys, spec="**/deep") == ["dir/a", "other/dir/c", "dir"]


def test_a_key_that_cannot_be_a_file_can_be_left_out() -> None:
    keys = ["../up", "a//b", "logs/" + "x/" * 200 + "y", "good"]

    assert kept(keys, spec="..\na/\nlogs/") == ["good"]


def test_a_rule_that_cannot_be_understood_is_told_with_its_place() -> None:
    with pytest.raises(StalledError, match=r"line 2 of 'spec\.ignore'") as spec:
        Sieve.of("", "ok\n[z-a]")
    with pytest.raises(TransientError, match=r"line 1 of '\.sourceignore'") as file:
        Sieve.of("[z-a]", "")

    assert spec.value.reason == file.value.reason == "SourceIgnoreError"


def test_too_many_rules_are_refused() -> None:
    with pytest.raises(TransientError, match="more than 2000 lines"):
        Sieve.of("x\n" * 2001, "")


def test_many_rules_over_deep_keys_end_soon() -> None:
    rules = "\n".join(f"**/a{number}/**/b" for number in range(50))
    keys = ["a/" * 500 + str(number) for number in range(20)]

    assert kept(keys, spec=rules) == keys


@pytest.mark.parametrize("wrong", [{"etag": ""}, {"etag": "a\nb c"}, {"size": -1}])
def test_an_object_without_a_proper_tag_or_size_is_refused(wrong: dict[str, Any]) -> None:
    (found,) = objects("a")

    with pytest.raises(TransientError, match="lists 'a' without"):
        collected(replace(found, **wrong))
