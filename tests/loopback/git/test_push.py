"""Commits that are pushed, to the real ``git receive-pack``, and servers that refuse them."""

import asyncio
import random
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import asyncssh
import pytest

from tests.fakes.gitrepository import Repository, executable, link, submodule
from tests.fakes.gitserver import GitServer
from tests.fakes.sshserver import SshServer
from toolkit.remote.git.errors import GitAuthError, GitError, GitSpecError
from toolkit.remote.git.git import Author, Committed, GitAuth, GitClient, NewFile
from toolkit.remote.git.wire import SigningKey

NOW = datetime(2026, 2, 3, 4, 5, 6, tzinfo=UTC)
AUTHOR = Author(name="Penstock", email="penstock@example.com")
FILE = NewFile(path="clusters/prod/a.yaml", content=b"a: 1\n")

Commit = Callable[..., "asyncio.Future[Committed]"]


@pytest.fixture
def commit(client: GitClient, tmp_path: Path) -> Commit:
    def run(
        url: str,
        *files: NewFile,
        auth: GitAuth | None = None,
        branch: str = "main",
        signing: SigningKey | None = None,
    ) -> "asyncio.Future[Committed]":
        return asyncio.ensure_future(
            client.commit(
                url,
                branch,
                files,
                auth or GitAuth(),
                message="Add manifests\n\nSecond paragraph\n",
                author=AUTHOR,
                now=NOW,
                scratch=tmp_path,
                timeout=30,
                signing=signing,
                flow="team",
            )
        )

    return run


@pytest.fixture
def repository(server: GitServer) -> Repository:
    made = server.repository("fleet")
    made.accept_pushes()
    return made


async def test_the_first_commit_of_an_empty_repository(
    commit: Commit, repository: Repository
) -> None:
    done = await commit(repository.url, FILE)

    assert done.changed
    assert done.commit == repository.revision("main")
    assert done.revision == f"main@sha1:{done.commit}"
    assert repository.content("clusters/prod/a.yaml") == "a: 1\n"
    told = repository.git("log", "--format=%an <%ae> %at %P|%B", "main").decode()
    assert told.strip() == (
        f"Penstock <penstock@example.com> {NOW.timestamp():.0f} |Add manifests\n\nSecond paragraph"
    )
    repository.git("fsck", "--strict")


async def test_a_commit_is_signed_with_the_key_that_is_given(
    commit: Commit, repository: Repository
) -> None:
    key = asyncssh.generate_private_key("ssh-ed25519")
    signing = SigningKey(kind="ssh", key=key.export_private_key())

    await commit(repository.url, FILE, signing=signing)

    allowed = repository.path / "allowed"
    allowed.write_bytes(b"penstock@example.com " + key.export_public_key())
    verify = ("-c", f"gpg.ssh.allowedSignersFile={allowed}", "verify-commit", "main")
    repository.git(*verify)  # raises if the real Git does not take it


async def test_a_commit_changes_its_files_and_nothing_else(
    commit: Commit, repository: Repository, server: GitServer
) -> None:
    elsewhere = "1" * 40
    before = repository.commit(
        {
            "run.sh": executable("exit"),
            "current": link("clusters/prod"),
            "vendored": submodule(elsewhere),
            "big/blob": "x" * 100_000,
            "clusters/prod/b.yaml": "b: 1\n",
            "clusters/prod/a.yaml": executable("a: 0\n"),
        }
    )
    listed = repository.listing()

    done = await commit(repository.url, FILE, NewFile(path="new.yaml", content=b"n: 1\n"))

    after = repository.listing()
    changed = {path for path in after if after[path] != listed.get(path)}
    assert changed == {"clusters/prod/a.yaml", "new.yaml"}
    assert listed.keys() <= after.keys()
    assert after["clusters/prod/a.yaml"].startswith("100755 ")
    assert repository.revision("main^") == before
    assert repository.revision("main") == done.commit
    repository.git("fsck", "--strict")
    pushed = [seen for seen in server.seen if seen.path.endswith("git-receive-pack")][-1]
    assert len(pushed.body) < 2_000


async def test_a_file_larger_than_a_request_is_sent_in_pieces(
    commit: Commit, repository: Repository, server: GitServer
) -> None:
    content = random.Random(7).randbytes(3 << 20)  # noqa: S311  # what does not compress

    await commit(repository.url, NewFile(path="large", content=content))

    assert repository.git("show", "main:large") == content
    assert server.seen[-1].headers["Transfer-Encoding"] == "chunked"


async def test_nothing_is_committed_where_nothing_changes(
    commit: Commit, repository: Repository, server: GitServer
) -> None:
    first = await commit(repository.url, FILE)
    server.seen.clear()

    again = await commit(repository.url, FILE)

    assert (again.commit, again.changed) == (first.commit, False)
    assert not [seen for seen in server.seen if "receive-pack" in seen.path]


async def test_a_file_that_is_kept_is_written_only_where_it_is_missing(
    commit: Commit, repository: Repository
) -> None:
    repository.commit({"mine.yaml": "mine\n"})
    files = [NewFile(path=name, content=b"ours\n", keep=True) for name in ("mine.yaml", "x.yaml")]

    await commit(repository.url, *files)

    assert repository.content("mine.yaml") == "mine\n"
    assert repository.content("x.yaml") == "ours\n"


async def test_a_missing_branch_begins_with_the_commit(
    commit: Commit, repository: Repository
) -> None:
    repository.commit({"README": "hello"})

    done = await commit(repository.url, FILE, branch="clusters/next")

    assert repository.revision("clusters/next") == done.commit
    assert repository.listing("clusters/next").keys() == {FILE.path}
    assert repository.listing().keys() == {"README"}


async def test_a_commit_of_somebody_else_is_kept(commit: Commit, server: GitServer) -> None:
    repository = server.repository("fleet")
    repository.accept_pushes()
    repository.commit({"README": "hello"})
    raced: list[str] = []

    def race(body: bytes) -> bytes:
        if b"refs/heads/main" in body and b"PACK" in body and not raced:
            raced.append(repository.commit({"theirs.yaml": "theirs\n"}))
        return body

    server.faults.rewrite = race
    done = await commit(repository.url, FILE)

    assert raced
    assert repository.revision("main^") == raced[0]
    assert repository.revision("main") == done.commit
    assert repository.listing().keys() == {"README", "theirs.yaml", FILE.path}


async def test_a_branch_that_never_rests_is_given_up(commit: Commit, server: GitServer) -> None:
    repository = server.repository("fleet")
    repository.accept_pushes()
    repository.commit({"README": "0"})
    raced: list[str] = []

    def race(body: bytes) -> bytes:
        if b"PACK" in body:
            raced.append(repository.commit({"README": str(len(raced) + 1)}))
        return body

    server.faults.rewrite = race
    with pytest.raises(GitError, match="got other commits each of 5 times"):
        await commit(repository.url, FILE)

    assert len(raced) == 5


async def test_a_hooks_refusal_is_told_with_what_it_says(
    commit: Commit, repository: Repository
) -> None:
    repository.accept_pushes(hook="echo 'main is protected, open a pull request' >&2; exit 1")

    with pytest.raises(GitError) as refused:
        await commit(repository.url, FILE)

    told = str(refused.value)
    assert f"'{repository.url}' refused the push to branch 'main'" in told
    assert "pre-receive hook declined" in told
    assert "main is protected, open a pull request" in told
    assert "write access" in told
    assert not repository.revision("main")


async def test_a_server_that_takes_no_pushes_is_told_as_such(
    commit: Commit, server: GitServer
) -> None:
    repository = server.repository("fleet")

    with pytest.raises(GitAuthError, match=r"HTTP 403.*a push needs a key or token with write"):
        await commit(repository.url, FILE)


async def test_credentials_are_shown_to_push(commit: Commit, tmp_path: Path) -> None:
    async with GitServer(tmp_path / "closed", basic=("ada", "secret")) as server:
        repository = server.repository("fleet")
        repository.accept_pushes()

        with pytest.raises(GitAuthError, match="refused the credentials") as refused:
            await commit(repository.url, FILE, auth=GitAuth(username="ada", password="wrong-one"))
        done = await commit(repository.url, FILE, auth=GitAuth(username="ada", password="secret"))

    assert "wrong-one" not in str(refused.value)
    assert done.changed


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("README/a.yaml", "'README' in the repository is not a directory: remove it"),
        ("current/a.yaml", "'current' in the repository is not a directory: remove it"),
        ("clusters", "'clusters' in the repository is not a file: remove it"),
        ("current", "'current' in the repository is not a file: remove it"),
    ],
)
async def test_what_is_in_the_way_is_not_replaced(
    commit: Commit, repository: Repository, path: str, found: str
) -> None:
    repository.commit({"README": "hello", "current": link("clusters"), "clusters/a": "a"})

    with pytest.raises(GitError, match=found):
        await commit(repository.url, NewFile(path=path, content=b""))


@pytest.mark.parametrize(
    "paths",
    [
        ["../a"],
        ["/etc/a"],
        ["a/.git/config"],
        ["a//b"],
        [""],
        ["a/"],
        ["a", "a"],
        ["a", "a/b"],
        ["a/b", "a"],
    ],
)
async def test_paths_that_no_repository_may_have_are_refused(
    commit: Commit, repository: Repository, paths: list[str]
) -> None:
    with pytest.raises(GitSpecError):
        await commit(repository.url, *(NewFile(path=path, content=b"") for path in paths))

    assert not repository.revision("main")


@pytest.mark.parametrize("branch", ["", "a..b", "a b", "main.lock"])
async def test_a_branch_has_a_name_that_git_takes(
    commit: Commit, repository: Repository, branch: str
) -> None:
    with pytest.raises(GitSpecError, match="is not a name of a branch"):
        await commit(repository.url, FILE, branch=branch)


@pytest.mark.parametrize("author", [Author(name="A <b>", email="a@b"), Author(name="A", email="")])
async def test_an_author_cannot_forge_headers(
    client: GitClient, repository: Repository, author: Author, tmp_path: Path
) -> None:
    with pytest.raises(GitSpecError, match="author"):
        await client.commit(
            repository.url,
            "main",
            [FILE],
            GitAuth(),
            message="m",
            author=author,
            now=NOW,
            scratch=tmp_path,
            timeout=30,
            flow="team",
        )


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"0000",
        b"not git at all",
        b"0013unpack error x\n0000",
        b"000eunpack ok\n0000",
        b"000eunpack ok\n0017ok refs/heads/other\n0000",
        b"000eunpack ok\n001cng refs/heads/main \xff\xfe\xfd\n0000",
        b"000eunpack ok\n0017ng refs/heads/main\n0000",
        b"000eunpack ok\n0017xx refs/heads/main\n0000",
    ],
)
async def test_a_push_counts_only_if_the_branch_has_moved(
    commit: Commit, repository: Repository, server: GitServer, answer: bytes
) -> None:
    server.faults.pushed = answer

    with pytest.raises(GitError) as refused:
        await commit(repository.url, FILE)

    assert "fetch from" not in str(refused.value)
    assert not repository.revision("main")


async def test_a_push_over_ssh(commit: Commit, tmp_path: Path) -> None:
    key = asyncssh.generate_private_key("ssh-ed25519")
    async with SshServer(tmp_path / "ssh", authorized=[key]) as server:
        auth = GitAuth(identity=key.export_private_key(), known_hosts=server.known_hosts)
        repository = server.repository("fleet")

        first = await commit(repository.url, FILE, auth=auth)
        again = await commit(repository.url, FILE, auth=auth)
        more = NewFile(path="more.yaml", content=b"m: 1\n")
        second = await commit(repository.url, more, auth=auth)
        server.read_only.add("/fleet.git")
        other = NewFile(path="other.yaml", content=b"o: 1\n")
        with pytest.raises(GitError) as refused:
            await commit(repository.url, other, auth=auth)

    assert (again.commit, again.changed) == (first.commit, False)
    assert repository.revision("main") == second.commit
    assert repository.revision("main^") == first.commit
    repository.git("fsck", "--strict")
    told = str(refused.value)
    assert told.startswith("cannot push to 'ssh://localhost")
    assert "marked as read only" in told
    assert "a push needs a key or token with write access" in told
