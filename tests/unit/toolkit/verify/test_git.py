"""Which commits and tags pass, all signed by the real git."""

from pathlib import Path

import pytest

from tests.fakes.gitrepository import Repository
from tests.testdata.signatures.generate import Author
from toolkit.errors import StalledError
from toolkit.remote.git import objects
from toolkit.remote.git.wire import Checkout, TagObject
from toolkit.verify import git, openpgp, ssh
from toolkit.verify.signature import VerificationError


def checkout_of(repository: Repository, tag: str = "") -> Checkout:
    """Read a commit and a tag as a fetch does, from objects that git wrote."""
    commit_id = repository.revision(f"{tag or 'main'}^{{commit}}")
    commit = objects.parse_commit(repository.git("cat-file", "commit", commit_id))
    found = None
    if tag:
        found = TagObject(name=tag)
        if repository.git("cat-file", "-t", tag).strip() == b"tag":
            parsed = objects.parse_tag(repository.git("cat-file", "tag", tag))
            found = TagObject(name=tag, own_name=parsed.name, signature=parsed.signature)
    return Checkout(
        revision=f"main@sha1:{commit_id}",
        commit=commit_id,
        subject=commit.subject,
        author=commit.author,
        commit_signature=commit.signature,
        tag=found,
    )


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path / "a.git")


def keys(*authors: Author) -> dict[str, bytes]:
    suffixes = {"ssh": "sshpub", "openpgp": "asc"}
    return {f"{one.name}.{suffixes[one.key.format]}": one.public for one in authors}


@pytest.mark.parametrize("name", ["ed25519", "rsa", "ssh-ed25519", "ssh-rsa", "ssh-ecdsa-256"])
@pytest.mark.parametrize("mode", ["HEAD", "head"])
def test_commit_signed_by_git_is_verified(
    repository: Repository, authors: dict[str, Author], name: str, mode: str
) -> None:
    commit = repository.commit({"a": "1"}, sign=authors[name].key)

    verified = git.verify(checkout_of(repository), mode=mode, keys=keys(authors[name]))

    assert name in verified.signer.identity
    assert name in verified.facts["verify.penstock.dev/identity"]
    assert verified.message.startswith(f"verified signature of commit '{commit}' by {name}")


@pytest.mark.parametrize("name", ["ed25519", "ssh-ed25519"])
def test_tag_and_commit_may_have_different_signers(
    repository: Repository, authors: dict[str, Author], name: str
) -> None:
    repository.commit({"a": "1"}, sign=authors["rsa"].key)
    repository.tag("v1.0.0", sign=authors[name].key)
    trusted = keys(authors["rsa"], authors[name])

    verified = git.verify(checkout_of(repository, "v1.0.0"), mode="TagAndHEAD", keys=trusted)

    first, _, second = verified.message.partition(" and of ")
    assert first.startswith(f"verified signature of tag 'v1.0.0' by {name}")
    assert second.startswith(f"commit '{repository.revision('main')}' by rsa")


def test_tag_mode_does_not_look_at_the_commit(
    repository: Repository, authors: dict[str, Author]
) -> None:
    repository.commit({"a": "1"})
    repository.tag("v1.0.0", sign=authors["ed25519"].key)

    verified = git.verify(
        checkout_of(repository, "v1.0.0"), mode="Tag", keys=keys(authors["ed25519"])
    )

    assert "commit" not in verified.message


def test_unsigned_commit_is_refused(repository: Repository, authors: dict[str, Author]) -> None:
    repository.commit({"a": "1"})

    with pytest.raises(VerificationError, match="is not signed") as caught:
        git.verify(checkout_of(repository), mode="HEAD", keys=keys(authors["ed25519"]))

    assert caught.value.reason == "InvalidCommitSignature"
    assert caught.value.step == git.Step.COMMIT


@pytest.mark.parametrize(
    ("name", "step"),
    [("stranger", openpgp.Step.SIGNATURE), ("ssh-stranger", ssh.Step.KEY)],
)
def test_commit_of_a_stranger_is_refused(
    repository: Repository, authors: dict[str, Author], name: str, step: int
) -> None:
    repository.commit({"a": "1"}, sign=authors[name].key)
    trusted = keys(authors["ed25519"], authors["ssh-ed25519"])

    with pytest.raises(VerificationError, match=f"failed at its own step {step}: ") as caught:
        git.verify(checkout_of(repository), mode="HEAD", keys=trusted)

    assert caught.value.reason == "InvalidCommitSignature"
    assert str(caught.value).startswith("step 5: signature verification of commit")


def test_unsigned_commit_fails_although_its_tag_is_signed(
    repository: Repository, authors: dict[str, Author]
) -> None:
    repository.commit({"a": "1"})
    repository.tag("v1.0.0", sign=authors["ed25519"].key)

    with pytest.raises(VerificationError) as caught:
        git.verify(
            checkout_of(repository, "v1.0.0"), mode="TagAndHEAD", keys=keys(authors["ed25519"])
        )

    assert caught.value.reason == "InvalidCommitSignature"
    assert caught.value.step == git.Step.COMMIT


@pytest.mark.parametrize(("message", "why"), [("", "lightweight"), ("a message", "not signed")])
def test_unsigned_tag_is_refused(
    repository: Repository, authors: dict[str, Author], message: str, why: str
) -> None:
    repository.commit({"a": "1"}, sign=authors["ed25519"].key)
    repository.tag("v1.0.0", message=message)

    with pytest.raises(VerificationError, match=why) as caught:
        git.verify(checkout_of(repository, "v1.0.0"), mode="Tag", keys=keys(authors["ed25519"]))

    assert caught.value.reason == "InvalidGitObject"
    assert caught.value.step == git.Step.TAG_SIGNED


def test_tag_of_a_stranger_is_refused(repository: Repository, authors: dict[str, Author]) -> None:
    repository.commit({"a": "1"})
    repository.tag("v1.0.0", sign=authors["stranger"].key)

    with pytest.raises(VerificationError) as caught:
        git.verify(checkout_of(repository, "v1.0.0"), mode="Tag", keys=keys(authors["ed25519"]))

    assert caught.value.reason == "InvalidTagSignature"
    assert str(caught.value).startswith("step 4: signature verification of tag 'v1.0.0' failed")


def test_old_signed_tag_under_a_new_name_is_refused(
    repository: Repository, authors: dict[str, Author]
) -> None:
    repository.commit({"a": "1"})
    old = repository.tag("v1.0.0", sign=authors["ed25519"].key)
    repository.git("update-ref", "refs/tags/v2.0.0", old)

    with pytest.raises(VerificationError, match=r"calls itself 'v1\.0\.0'") as caught:
        git.verify(checkout_of(repository, "v2.0.0"), mode="Tag", keys=keys(authors["ed25519"]))

    assert caught.value.reason == "InvalidTagSignature"
    assert caught.value.step == git.Step.TAG_NAME


@pytest.mark.parametrize("mode", ["Tag", "TagAndHEAD", "everything"])
def test_mode_that_cannot_be_met_stalls(
    repository: Repository, authors: dict[str, Author], mode: str
) -> None:
    repository.commit({"a": "1"}, sign=authors["ed25519"].key)

    with pytest.raises(StalledError) as caught:
        git.verify(checkout_of(repository), mode=mode, keys=keys(authors["ed25519"]))

    assert caught.value.reason == "InvalidVerificationMode"
    assert str(caught.value).startswith("step 1: ")


@pytest.mark.parametrize(
    ("signer", "trusted", "missing"),
    [
        ("ssh-ed25519", "ed25519", r"no \*\.sshpub key"),
        ("ed25519", "ssh-ed25519", "no OpenPGP key"),
    ],
)
def test_missing_kind_of_key_is_named(
    repository: Repository,
    authors: dict[str, Author],
    signer: str,
    trusted: str,
    missing: str,
) -> None:
    repository.commit({"a": "1"}, sign=authors[signer].key)

    with pytest.raises(VerificationError, match=missing):
        git.verify(checkout_of(repository), mode="HEAD", keys=keys(authors[trusted]))


def test_commit_with_two_signatures_counts_as_unsigned(
    repository: Repository, authors: dict[str, Author]
) -> None:
    commit = repository.commit({"a": "1"}, sign=authors["ed25519"].key)
    raw = repository.git("cat-file", "commit", commit)
    header = raw[raw.index(b"gpgsig ") : raw.index(b"\n\n")]
    doubled = raw.replace(header, header + b"\n" + header)
    repository.git("update-ref", "refs/heads/main", repository.raw_object("commit", doubled))

    with pytest.raises(VerificationError, match="is not signed"):
        git.verify(checkout_of(repository), mode="HEAD", keys=keys(authors["ed25519"]))


def test_unknown_kind_of_signature_is_refused(
    repository: Repository, authors: dict[str, Author]
) -> None:
    commit = repository.commit({"a": "1"})
    raw = repository.git("cat-file", "commit", commit)
    signed = raw.replace(
        b"\n\n",
        b"\ngpgsig -----BEGIN SIGNED MESSAGE-----\n x\n -----END SIGNED MESSAGE-----\n\n",
        1,
    )
    repository.git("update-ref", "refs/heads/main", repository.raw_object("commit", signed))

    with pytest.raises(VerificationError, match="neither an OpenPGP nor an SSH signature"):
        git.verify(checkout_of(repository), mode="HEAD", keys=keys(authors["ed25519"]))
