"""Commits and tags taken apart; payloads must be what git itself signed."""

import pytest

from toolkit.remote.git import objects
from toolkit.remote.git.errors import GitError

TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
COMMIT = (
    f"tree {TREE}\n"
    "author Ada Pipe <ada@example.org> 1700000000 +0100\n"
    "committer Ada Pipe <ada@example.org> 1700000000 +0100\n"
    "gpgsig -----BEGIN PGP SIGNATURE-----\n"
    " \n"
    " line one\n"
    " -----END PGP SIGNATURE-----\n"
    "encoding ISO-8859-1\n"
    "\n"
    "Change the pipes\n"
    "\n"
    "gpgsig this is text\n"
).encode()
TAG = (
    f"object {TREE}\n"
    "type commit\n"
    "tag v1.0.0\n"
    "tagger Ada Pipe <ada@example.org> 1700000000 +0100\n"
    "\n"
    "First release\n"
)
SIGNATURE = "-----BEGIN SSH SIGNATURE-----\nabc\n-----END SSH SIGNATURE-----\n"


def test_commit_is_taken_apart() -> None:
    commit = objects.parse_commit(COMMIT)

    assert commit.tree == TREE.encode()
    assert commit.subject == "Change the pipes"
    assert commit.author == "Ada Pipe <ada@example.org>"


def test_signature_is_cut_out_of_the_commit() -> None:
    signed = objects.parse_commit(COMMIT).signature

    assert signed is not None
    expected = b"-----BEGIN PGP SIGNATURE-----\n\nline one\n-----END PGP SIGNATURE-----\n"
    assert signed.signature == expected
    start, end = COMMIT.index(b"gpgsig"), COMMIT.index(b"encoding")
    assert signed.payload == COMMIT[:start] + COMMIT[end:]


def test_signature_for_another_hash_covers_nothing_here() -> None:
    other = COMMIT.replace(b"gpgsig -", b"gpgsig-sha256 -", 1)

    assert objects.parse_commit(other).signature is None


def test_both_kinds_of_signature_are_cut_out() -> None:
    start, end = COMMIT.index(b"gpgsig"), COMMIT.index(b"encoding")
    other = COMMIT[start:end].replace(b"gpgsig ", b"gpgsig-sha256 ")

    signed = objects.parse_commit(COMMIT[:end] + other + COMMIT[end:]).signature

    assert signed is not None
    assert b"gpgsig-sha256" not in signed.payload


def test_merged_tag_in_a_commit_is_not_its_signature() -> None:
    inner = "\n".join(f" {line}" if i else line for i, line in enumerate(TAG.splitlines()))
    merge = COMMIT.replace(b"gpgsig -----BEGIN PGP SIGNATURE-----\n \n line one\n", b"")
    merge = merge.replace(b" -----END PGP SIGNATURE-----\n", f"mergetag {inner}\n".encode())

    assert objects.parse_commit(merge).signature is None


@pytest.mark.parametrize("raw", [b"", b"tree abc\n\nx", b"author x\n\n"])
def test_commit_without_a_tree_is_refused(raw: bytes) -> None:
    with pytest.raises(GitError, match="names no tree"):
        objects.parse_commit(raw)


def test_unsigned_tag_is_taken_apart() -> None:
    tag = objects.parse_tag(TAG.encode())

    assert (tag.target, tag.target_type, tag.name) == (TREE.encode(), "commit", "v1.0.0")
    assert tag.signature is None


def test_signature_is_the_end_of_the_tag() -> None:
    signed = objects.parse_tag((TAG + SIGNATURE).encode()).signature

    assert signed is not None
    assert signed.payload == TAG.encode()
    assert signed.signature == SIGNATURE.encode()


def test_last_signature_in_a_tag_counts() -> None:
    signed = objects.parse_tag((TAG + SIGNATURE + "and\n" + SIGNATURE).encode()).signature

    assert signed is not None
    assert signed.payload == (TAG + SIGNATURE + "and\n").encode()


@pytest.mark.parametrize("raw", [b"", b"object abc\ntag x\n\n", f"object {TREE}\n\n".encode()])
def test_tag_of_nothing_is_refused(raw: bytes) -> None:
    with pytest.raises(GitError, match="names no object"):
        objects.parse_tag(raw)
