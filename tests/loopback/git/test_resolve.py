"""Which commit a spec means, asked of a real server without fetching anything."""

import pytest

from tests.fakes.gitserver import GitServer, Repository
from toolkit.errors import PenstockError, StalledError
from toolkit.remote.git.git import GitAuth, GitClient, GitReference

ANYONE = GitAuth()


@pytest.fixture
def repository(server: GitServer) -> Repository:
    return server.repository("pipes")


@pytest.mark.parametrize("old_protocol", [False, True])
@pytest.mark.parametrize(
    ("reference", "short"),
    [
        (GitReference(branch="main"), "main"),
        (GitReference(tag="v1.0.0"), "v1.0.0"),
        (GitReference(semver="^1"), "v1.0.0"),
        (GitReference(name="refs/heads/main"), "refs/heads/main"),
        (GitReference(name="refs/tags/v1.0.0"), "refs/tags/v1.0.0"),
    ],
)
async def test_reference_becomes_the_commit(
    client: GitClient,
    server: GitServer,
    repository: Repository,
    reference: GitReference,
    short: str,
    *,
    old_protocol: bool,
) -> None:
    server.faults.old_protocol = old_protocol
    commit = repository.commit({"a": "1"})
    repository.tag("v0.9.0")
    repository.tag("v1.0.0", message="annotated")

    resolved = await client.resolve(repository.url, reference, ANYONE, timeout=10, flow="team")

    assert resolved.commit == commit
    assert resolved.revision == f"{short}@sha1:{commit}"


async def test_branch_is_followed(client: GitClient, repository: Repository) -> None:
    repository.commit({"a": "1"})
    reference = GitReference(branch="main")
    before = await client.resolve(repository.url, reference, ANYONE, timeout=10, flow="team")
    commit = repository.commit({"a": "2"})

    after = await client.resolve(repository.url, reference, ANYONE, timeout=10, flow="team")

    assert (before.commit, after.commit) != (commit, commit)
    assert after.commit == commit


async def test_without_reference_master_is_meant(client: GitClient, server: GitServer) -> None:
    repository = server.repository("old", head="master")
    commit = repository.commit({"a": "1"})

    resolved = await client.resolve(repository.url, GitReference(), ANYONE, timeout=10, flow="team")

    assert resolved.revision == f"master@sha1:{commit}"


async def test_no_object_is_asked_for(
    client: GitClient, server: GitServer, repository: Repository
) -> None:
    repository.commit({"a": "1"})

    await client.resolve(
        repository.url, GitReference(branch="main"), ANYONE, timeout=10, flow="team"
    )

    assert [seen.method for seen in server.seen] == ["GET", "POST"]
    assert b"command=ls-refs" in server.seen[1].body
    assert b"ref-prefix refs/heads/main" in server.seen[1].body


async def test_commit_needs_no_server(client: GitClient) -> None:
    reference = GitReference(commit="a" * 40)

    resolved = await client.resolve(
        "https://nowhere.invalid/a", reference, ANYONE, timeout=10, flow="team"
    )

    assert resolved.revision == "sha1:" + "a" * 40


@pytest.mark.parametrize("old_protocol", [False, True])
async def test_empty_repository_is_called_empty(
    client: GitClient, server: GitServer, repository: Repository, *, old_protocol: bool
) -> None:
    server.faults.old_protocol = old_protocol

    with pytest.raises(PenstockError, match="is empty") as caught:
        await client.resolve(
            repository.url, GitReference(branch="main"), ANYONE, timeout=10, flow="team"
        )

    assert caught.value.reason == "EmptyGitRepository"


async def test_missing_branch_of_a_repository_with_others_is_named(
    client: GitClient, repository: Repository
) -> None:
    repository.commit({"a": "1"}, branch="develop")

    with pytest.raises(PenstockError, match="branch 'main' not found") as caught:
        await client.resolve(
            repository.url, GitReference(branch="main"), ANYONE, timeout=10, flow="team"
        )

    assert caught.value.reason == "GitOperationFailed"
    assert repository.url in str(caught.value)


async def test_missing_repository_is_named(client: GitClient, server: GitServer) -> None:
    with pytest.raises(PenstockError, match=r"repository '\S+/nope.git' not found"):
        await client.resolve(
            f"{server.base}/nope.git", GitReference(), ANYONE, timeout=10, flow="team"
        )


@pytest.mark.parametrize("url", ["file:///srv/git", "git://example.org/a", "localhost:a"])
async def test_other_transports_stall(client: GitClient, url: str) -> None:
    with pytest.raises(StalledError) as caught:
        await client.resolve(url, GitReference(), ANYONE, timeout=10, flow="team")

    assert caught.value.reason == "URLInvalid"


async def test_repository_with_sha256_ids_is_refused(
    client: GitClient, server: GitServer, repository: Repository
) -> None:
    repository.git("init", "--quiet", "--bare", "--object-format=sha256", "../new.git")
    tree = repository.git("-C", "../new.git", "hash-object", "-w", "-t", "tree", "/dev/null")
    commit = repository.git("-C", "../new.git", "commit-tree", "-m", "x", tree.decode().strip())
    repository.git("-C", "../new.git", "update-ref", "refs/heads/main", commit.decode().strip())

    with pytest.raises(PenstockError, match="sha256"):
        await client.resolve(
            f"{server.base}/new.git", GitReference(branch="main"), ANYONE, timeout=10, flow="team"
        )
