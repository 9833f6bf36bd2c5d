"""Signed revisions alone become artifacts, and stay artifacts only while their keys are trusted."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from tests.e2e.conftest import (
    CONFIG_MAP,
    GIT_REPOSITORY,
    KUSTOMIZATION,
    SECRET,
    Space,
    condition,
    config_map,
    revision_of,
)
from tests.e2e.sources import (
    artifact_of,
    digest_of,
    edit,
    fetches,
    looks,
    ready,
    refused,
    secret,
    told,
)
from tests.testdata.signatures import generate
from tests.testdata.signatures.generate import Author
from toolkit.objects import Json
from toolkit.policy.origins import RECORD

pytestmark = pytest.mark.asyncio(loop_scope="session")

MODES = ("HEAD", "Tag", "TagAndHEAD")
TAG = {"ref": {"tag": "v1.0.0"}}


@pytest.fixture(scope="module")
def authors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Author]]:
    with generate.authors(tmp_path_factory.mktemp("authors")) as made:
        yield made


def public(*authors: Author) -> dict[str, bytes]:
    """Return the Secret's data that trusts these authors."""
    kinds = {"openpgp": "asc", "ssh": "sshpub"}
    return {f"{author.name}.{kinds[author.key.format]}": author.public for author in authors}


def verify(mode: str = "HEAD", keys: str = "trusted") -> Json:
    return {"verify": {"mode": mode, "secretRef": {"name": keys}}}


async def trust(space: Space, *authors: Author, name: str = "trusted") -> None:
    """Make a Secret, or change it in place, so that it trusts these authors and nobody else."""
    await space.world.apply(secret(space, name, public(*authors)))


def said(sources: Mapping[str, Json], kind: str = "Ready") -> dict[str, tuple[str, str]]:
    """Return reason and message of a condition of each source."""
    rows = {name: condition(source, kind) for name, source in sources.items()}
    return {name: (row["reason"], row["message"]) for name, row in rows.items()}


async def gone_from_store(space: Space, source: Json) -> bool:
    path = space.world.stack.layout.storage / artifact_of(source)["path"]
    return not path.exists()


async def test_signer_is_named_in_every_mode(space: Space, authors: dict[str, Author]) -> None:
    author = authors["ed25519"]
    repository = space.repository()
    commit = repository.commit({"a": "1"}, sign=author.key)
    repository.tag("v1.0.0", message="first", sign=author.key)
    await trust(space, author)

    await space.world.apply(
        *(space.source(repository, mode.lower(), **TAG, **verify(mode)) for mode in MODES)
    )
    sources = await ready(space, *(mode.lower() for mode in MODES))

    told_by = said(sources, "SourceVerified")
    signer = re.escape(f"{author.name}@example.org") + r">? \([\w:+/]+\)"
    of_tag, of_commit = rf"tag 'v1\.0\.0' by .*{signer}", rf"commit '{commit}' by .*{signer}"
    for mode, expected in (
        ("head", f"verified signature of {of_commit}"),
        ("tag", f"verified signature of {of_tag}"),
        ("tagandhead", f"verified signature of {of_tag} and of {of_commit}"),
    ):
        reason, message = told_by[mode]
        assert reason == "Succeeded"
        assert re.fullmatch(expected, message), message
        assert artifact_of(sources[mode])["metadata"]["source.penstock.dev/verified"] == message
    assert {source["status"]["sourceVerificationMode"] for source in sources.values()} == set(MODES)


async def test_what_is_not_signed_by_a_trusted_key_is_refused(
    space: Space, authors: dict[str, Author]
) -> None:
    author, other_kind = authors["ssh-ed25519"], authors["ed25519"]
    stranger = authors["ssh-stranger"]
    repository = space.repository()
    repository.commit({"a": "1"}, sign=author.key, branch="good")
    repository.commit({"a": "1"}, branch="unsigned")
    repository.commit({"a": "1"}, sign=stranger.key, branch="stranger")
    repository.commit({"a": "1"}, sign=other_kind.key, branch="other-kind")
    repository.tag("signed", target="unsigned", sign=author.key)
    repository.tag("annotated", target="good", message="no signature")
    repository.tag("lightweight", target="good")
    repository.tag("by-stranger", target="good", sign=stranger.key)
    repository.git("update-ref", "refs/tags/moved", repository.revision("refs/tags/signed"))
    await trust(space, author)
    commits = ("unsigned", "stranger", "other-kind")
    tags = ("annotated", "lightweight", "by-stranger", "moved")
    wanted: dict[str, dict[str, Any]] = {
        **{name: {"ref": {"branch": name}, **verify("HEAD")} for name in commits},
        **{name: {"ref": {"tag": name}, **verify("Tag")} for name in tags},
        "both": {"ref": {"tag": "signed"}, **verify("TagAndHEAD")},
        "no-secret": {"ref": {"branch": "good"}, **verify("HEAD", "forgotten")},
    }

    await space.world.apply(
        *(space.source(repository, name, **spec) for name, spec in wanted.items())
    )
    sources = await refused(space, *wanted)

    problems = said(sources)
    assert {name: reason for name, (reason, _) in problems.items()} == {
        **dict.fromkeys(commits, "InvalidCommitSignature"),
        "annotated": "InvalidGitObject",
        "lightweight": "InvalidGitObject",
        "by-stranger": "InvalidTagSignature",
        "moved": "InvalidTagSignature",
        "both": "InvalidCommitSignature",
        "no-secret": "VerificationError",
    }
    assert "is not signed" in problems["unsigned"][1]
    assert "calls itself 'signed'" in problems["moved"][1]
    assert f"{space.namespace}/forgotten" in problems["no-secret"][1]
    assert said(sources, "SourceVerified") == problems
    for name, source in sources.items():
        assert condition(source, "SourceVerified")["status"] == "False"
        assert "artifact" not in source["status"], name
        folder = f"gitrepository/{space.namespace}/{name}"
        assert not list((space.world.stack.layout.storage / folder).glob("*"))


async def test_unsigned_commit_leaves_the_verified_one_in_use(
    space: Space, authors: dict[str, Author]
) -> None:
    author = authors["ssh-ed25519"]
    repository = space.repository()
    repository.commit({"a.yaml": config_map("a", v="1")}, sign=author.key)
    await trust(space, author)
    await space.world.apply(space.source(repository, **verify()), space.kustomization())
    good = await space.ready(GIT_REPOSITORY)
    await space.ready()

    repository.commit({"a.yaml": config_map("a", v="2")})
    await space.request(GIT_REPOSITORY)
    source = await space.refused(GIT_REPOSITORY, saying="is not signed")

    assert artifact_of(source) == artifact_of(good)
    assert condition(source, "SourceVerified")["status"] == "False"
    await space.request(KUSTOMIZATION)
    assert (await space.get(CONFIG_MAP, "a"))["data"] == {"v": "1"}
    signed = repository.commit({"a.yaml": config_map("a", v="3")}, sign=author.key)
    source = await space.ready(GIT_REPOSITORY, revision=signed)
    assert condition(source, "SourceVerified")["status"] == "True"
    await space.ready(revision=signed)


async def test_verification_that_is_switched_on_counts_for_what_is_stored(
    space: Space, authors: dict[str, Author]
) -> None:
    author = authors["ed25519"]
    repository = space.repository()
    repository.commit({"a.yaml": config_map("a", v="1")}, branch="unsigned")
    repository.commit({"a.yaml": config_map("a", v="1")}, sign=author.key, branch="signed")
    await trust(space, author)
    names = ("unsigned", "signed")
    follow = {"sourceRef": {"kind": "GitRepository", "name": "unsigned"}}
    await space.world.apply(
        *(space.source(repository, name, ref={"branch": name}) for name in names),
        space.kustomization(**follow),
    )
    before = await ready(space, *names)
    await space.ready()

    for name in names:
        await edit(space, verify(), name)
    signed = (await ready(space, "signed"))["signed"]
    unsigned = (await refused(space, "unsigned"))["unsigned"]

    assert condition(signed, "SourceVerified")["status"] == "True"
    assert digest_of(signed) == digest_of(before["signed"])
    assert condition(unsigned, "SourceVerified")["status"] == "False"
    assert "artifact" not in unsigned["status"]
    assert await gone_from_store(space, before["unsigned"])
    [event] = await told(space, "ArtifactWithdrawn", "unsigned")
    assert revision_of(before["unsigned"]) in event["message"]
    await space.request(KUSTOMIZATION)
    await space.refused(saying="artifact not found")
    assert (await space.get(CONFIG_MAP, "a"))["data"] == {"v": "1"}

    await edit(space, {"verify": None}, "signed")
    await edit(space, {"verify": None}, "unsigned")
    sources = await ready(space, *names)
    assert not any(condition(source, "SourceVerified") for source in sources.values())
    assert all(artifact_of(source)["metadata"].keys() == {RECORD} for source in sources.values())
    await space.ready()


async def test_branch_that_is_gone_withdraws_what_the_keys_never_verified(
    space: Space, authors: dict[str, Author]
) -> None:
    author = authors["ed25519"]
    repository = space.repository()
    repository.commit({"a": "1"}, branch="unsigned")
    repository.commit({"a": "1"}, sign=author.key, branch="signed")
    await trust(space, author)
    await space.world.apply(
        space.source(repository, "unsigned", ref={"branch": "unsigned"}),
        space.source(repository, "signed", ref={"branch": "signed"}, **verify()),
    )
    await ready(space, "unsigned", "signed")

    for name in ("unsigned", "signed"):
        repository.git("update-ref", "-d", f"refs/heads/{name}")
    await edit(space, verify(), "unsigned")
    unsigned = (await refused(space, "unsigned"))["unsigned"]
    await edit(space, {"timeout": "59s"}, "signed")
    signed = (await refused(space, "signed"))["signed"]

    assert "artifact" not in unsigned["status"]
    assert condition(unsigned, "SourceVerified")["status"] == "False"
    assert "artifact" in signed["status"]


async def test_stricter_mode_counts_for_what_is_stored(
    space: Space, authors: dict[str, Author]
) -> None:
    author = authors["ssh-ed25519"]
    repository = space.repository()
    repository.commit({"a": "1"}, sign=author.key)
    repository.tag("v1.0.0", message="not signed")
    await trust(space, author)
    await space.world.apply(space.source(repository, **TAG, **verify("HEAD")))
    await space.ready(GIT_REPOSITORY)

    await edit(space, verify("TagAndHEAD"))
    source = await space.refused(GIT_REPOSITORY, saying="tag 'v1.0.0' is not signed")

    assert "artifact" not in source["status"]
    repository.tag("v1.0.0", message="signed", sign=author.key)
    await space.ready(GIT_REPOSITORY)


async def test_key_that_is_no_longer_trusted_withdraws_what_it_signed(
    space: Space, authors: dict[str, Author]
) -> None:
    author, other = authors["ssh-ed25519"], authors["ed25519"]
    repository = space.repository()
    repository.commit({"a": "1"}, sign=author.key)
    await trust(space, author)
    await space.world.apply(space.source(repository, **verify()))
    first = await space.ready(GIT_REPOSITORY)

    await trust(space, author, other)
    await space.request(GIT_REPOSITORY)
    both = await space.ready(GIT_REPOSITORY)
    await trust(space, other)
    await space.request(GIT_REPOSITORY)
    source = await space.refused(GIT_REPOSITORY, saying="no *.sshpub key")

    assert digest_of(both) == digest_of(first)
    assert condition(source, "SourceVerified")["status"] == "False"
    assert "artifact" not in source["status"]
    assert await gone_from_store(space, first)
    await trust(space, author)
    again = await space.ready(GIT_REPOSITORY)
    assert digest_of(again) == digest_of(first)


async def test_key_that_cannot_be_used_withdraws_alone_and_is_named_beside_another(
    space: Space, authors: dict[str, Author]
) -> None:
    author, odd = authors["ed25519"], authors["brainpool"]
    repository = space.repository()
    repository.commit({"a": "1"}, sign=author.key)
    await trust(space, author)
    await space.world.apply(space.source(repository, **verify()))
    first = await space.ready(GIT_REPOSITORY)

    await trust(space, odd)
    await space.request(GIT_REPOSITORY)
    alone = await space.refused(GIT_REPOSITORY, saying=f"'brainpool.asc': key {odd.key.key}")
    await trust(space, odd, author)
    again = await space.ready(GIT_REPOSITORY)

    assert condition(alone, "SourceVerified")["status"] == "False"
    assert "artifact" not in alone["status"]
    assert "skipped keys: 'brainpool.asc'" in condition(again, "SourceVerified")["message"]
    assert digest_of(again) == digest_of(first)


async def test_keys_that_cannot_be_read_leave_the_artifact_in_use(
    space: Space, authors: dict[str, Author]
) -> None:
    author = authors["ssh-ed25519"]
    repository = space.repository()
    repository.commit({"a": "1"}, sign=author.key)
    await trust(space, author)
    await space.world.apply(space.source(repository, **verify()))
    good = await space.ready(GIT_REPOSITORY)

    await space.world.api.delete(SECRET, "trusted", space.namespace)
    await space.request(GIT_REPOSITORY)
    source = await space.refused(GIT_REPOSITORY, saying=f"Secret '{space.namespace}/trusted'")

    assert artifact_of(source) == artifact_of(good)
    assert condition(source, "SourceVerified")["status"] == "False"
    await trust(space, author)
    again = await space.ready(GIT_REPOSITORY)
    assert condition(again, "SourceVerified")["status"] == "True"


async def test_verified_revision_is_not_fetched_again(
    space: Space, authors: dict[str, Author]
) -> None:
    author = authors["ssh-ed25519"]
    repository = space.repository()
    repository.commit({"a": "1"}, sign=author.key)
    await trust(space, author)
    await space.world.apply(space.source(repository, **verify()))
    before = await space.ready(GIT_REPOSITORY)
    server = space.world.git
    seen = looks(server, repository)

    await space.request(GIT_REPOSITORY)

    after = await space.ready(GIT_REPOSITORY)
    assert looks(server, repository) == seen + 1
    assert fetches(server, repository) == 1
    assert artifact_of(after) == artifact_of(before)


async def test_signature_does_not_vouch_for_an_include_that_has_none(
    space: Space, authors: dict[str, Author]
) -> None:
    author = authors["ssh-ed25519"]
    base, app = space.repository("base"), space.repository("app")
    base.commit({"b": "1"}, sign=author.key)
    app.commit({"a": "1"}, sign=author.key)
    await trust(space, author)
    include = [{"repository": {"name": "base"}}]
    await space.world.apply(
        space.source(base, "base"), space.source(app, include=include, **verify())
    )
    plain = await space.ready(GIT_REPOSITORY)

    await edit(space, verify(), "base")

    def vouched(obj: Json) -> bool:
        return "source.penstock.dev/verified" in artifact_of(obj).get("metadata", {})

    assert condition(plain, "SourceVerified")["status"] == "True"
    assert not vouched(plain)
    await space.world.until(GIT_REPOSITORY, space.namespace, "app", vouched)
