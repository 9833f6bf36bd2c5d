"""A resolved commit becomes files: exactly that commit, and no history."""

from pathlib import Path

import pytest

from tests.fakes import gitserver
from tests.fakes.gitrepository import executable, link, submodule
from tests.fakes.gitserver import GitServer, Repository
from toolkit.errors import PenstockError, StalledError
from toolkit.remote.git.git import GitAuth, GitClient, GitReference, Resolved

ANYONE = GitAuth()
MAIN = GitReference(branch="main")


@pytest.fixture
def repository(server: GitServer) -> Repository:
    return server.repository("pipes")


def names(directory: Path) -> set[str]:
    return {path.name for path in directory.iterdir()}


def files(root: Path) -> dict[str, str]:
    return {
        str(path.relative_to(root)): path.read_text()
        for path in root.rglob("*")
        if path.is_file() and not path.is_symlink()
    }


@pytest.mark.parametrize("old_protocol", [False, True])
async def test_files_of_a_branch_are_written(
    client: GitClient, server: GitServer, repository: Repository, out: Path, *, old_protocol: bool
) -> None:
    server.faults.old_protocol = old_protocol
    repository.commit({"old": "gone"})
    commit = repository.commit(
        {"old": None, "a/b": "1", "run": executable("x"), "l": link("a/b")}, message="Two\n\nlines"
    )
    resolved = await client.resolve(repository.url, MAIN, ANYONE, timeout=10, flow="team")

    checkout = await client.checkout(repository.url, resolved, ANYONE, out, timeout=10, flow="team")

    assert files(out) == {"a/b": "1", "run": "x"}
    assert (out / "l").is_symlink()
    assert (checkout.revision, checkout.commit) == (f"main@sha1:{commit}", commit)
    assert (checkout.subject, checkout.author) == ("Two", "Ada Pipe <ada@example.org>")
    assert checkout.tag is None


async def test_history_is_not_fetched(
    client: GitClient, server: GitServer, repository: Repository, out: Path
) -> None:
    for i in range(5):
        repository.commit({"a": str(i)})
    resolved = await client.resolve(repository.url, MAIN, ANYONE, timeout=10, flow="team")

    await client.checkout(repository.url, resolved, ANYONE, out, timeout=10, flow="team")

    [fetch] = [seen.body for seen in server.seen if b"command=fetch" in seen.body]
    assert b"deepen 1" in fetch
    assert fetch.count(b"want ") == 1


async def test_resolved_commit_is_taken_although_the_branch_has_moved(
    client: GitClient, repository: Repository, out: Path
) -> None:
    repository.commit({"a": "1"})
    resolved = await client.resolve(repository.url, MAIN, ANYONE, timeout=10, flow="team")
    repository.commit({"a": "2"})

    await client.checkout(repository.url, resolved, ANYONE, out, timeout=10, flow="team")

    assert files(out) == {"a": "1"}


@pytest.mark.parametrize("old_protocol", [False, True])
@pytest.mark.parametrize("branch", ["", "main"])
async def test_commit_behind_the_tip_is_found(
    client: GitClient,
    server: GitServer,
    repository: Repository,
    out: Path,
    branch: str,
    *,
    old_protocol: bool,
) -> None:
    server.faults.old_protocol = old_protocol
    commit = repository.commit({"a": "1"})
    repository.commit({"a": "2"})
    repository.commit({"a": "3"})
    reference = GitReference(commit=commit, branch=branch)
    resolved = await client.resolve(repository.url, reference, ANYONE, timeout=10, flow="team")

    checkout = await client.checkout(repository.url, resolved, ANYONE, out, timeout=10, flow="team")

    assert files(out) == {"a": "1"}
    assert checkout.commit == commit


@pytest.mark.parametrize("old_protocol", [False, True])
async def test_commit_of_another_branch_is_not_taken_for_one_of_the_named_branch(
    client: GitClient, server: GitServer, repository: Repository, out: Path, *, old_protocol: bool
) -> None:
    server.faults.old_protocol = old_protocol
    repository.commit({"a": "1"})
    # as a pull request, of a branch whose name begins alike
    foreign = repository.commit({"a": "2"}, branch="main-too")
    reference = GitReference(commit=foreign, branch="main")
    resolved = await client.resolve(repository.url, reference, ANYONE, timeout=10, flow="team")

    with pytest.raises(PenstockError, match=f"commit {foreign} is not part of branch 'main'"):
        await client.checkout(repository.url, resolved, ANYONE, out, timeout=10, flow="team")


@pytest.mark.parametrize("old_protocol", [False, True])
async def test_commit_that_is_nowhere_is_named(
    client: GitClient, server: GitServer, repository: Repository, out: Path, *, old_protocol: bool
) -> None:
    server.faults.old_protocol = old_protocol
    repository.commit({"a": "1"})
    resolved = Resolved(revision="sha1:" + "b" * 40, commit="b" * 40, ref="")

    with pytest.raises(PenstockError, match="did not send commit " + "b" * 40):
        await client.checkout(repository.url, resolved, ANYONE, out, timeout=10, flow="team")


@pytest.mark.parametrize("old_protocol", [False, True])
async def test_annotated_tag_comes_with_its_object(
    client: GitClient, server: GitServer, repository: Repository, out: Path, *, old_protocol: bool
) -> None:
    server.faults.old_protocol = old_protocol
    repository.commit({"a": "1"})
    repository.tag("v1.0.0", message="the first")
    reference = GitReference(tag="v1.0.0")
    resolved = await client.resolve(repository.url, reference, ANYONE, timeout=10, flow="team")

    checkout = await client.checkout(repository.url, resolved, ANYONE, out, timeout=10, flow="team")

    assert files(out) == {"a": "1"}
    assert checkout.tag is not None
    assert (checkout.tag.name, checkout.tag.own_name) == ("v1.0.0", "v1.0.0")


async def test_tag_of_a_tag_is_followed_to_the_commit(
    client: GitClient, repository: Repository, out: Path
) -> None:
    commit = repository.commit({"a": "1"})
    inner = repository.tag("inner", message="inner")
    repository.tag("outer", message="outer", target=inner)
    reference = GitReference(tag="outer")
    resolved = await client.resolve(repository.url, reference, ANYONE, timeout=10, flow="team")

    checkout = await client.checkout(repository.url, resolved, ANYONE, out, timeout=10, flow="team")

    assert checkout.commit == commit
    assert checkout.tag is not None
    assert checkout.tag.own_name == "outer"


async def test_tag_of_another_commit_than_resolved_is_refused(
    client: GitClient, repository: Repository, out: Path
) -> None:
    repository.commit({"a": "1"})
    tag = repository.tag("v1.0.0", message="the first")
    commit = repository.commit({"a": "2"})
    resolved = Resolved(
        revision=f"v1.0.0@sha1:{commit}", commit=commit, ref="refs/tags/v1.0.0", tag_object=tag
    )

    with pytest.raises(PenstockError, match="does not point to commit"):
        await client.checkout(repository.url, resolved, ANYONE, out, timeout=10, flow="team")


async def test_only_sparse_directories_are_written(
    client: GitClient, repository: Repository, out: Path
) -> None:
    repository.commit({"a/x": "1", "b/x": "2", "c": "3"})
    resolved = await client.resolve(repository.url, MAIN, ANYONE, timeout=10, flow="team")

    await client.checkout(
        repository.url, resolved, ANYONE, out, sparse=["./b"], timeout=10, flow="team"
    )

    assert files(out) == {"b/x": "2"}


async def test_nothing_but_the_checkout_is_left_behind(
    client: GitClient, repository: Repository, out: Path, tmp_path: Path
) -> None:
    repository.commit({"a": "1"})
    resolved = await client.resolve(repository.url, MAIN, ANYONE, timeout=10, flow="team")
    before = names(tmp_path)

    await client.checkout(repository.url, resolved, ANYONE, out, timeout=10, flow="team")

    assert names(tmp_path) - before == {"out"}


async def test_submodules_are_left_empty_unless_asked_for(
    client: GitClient, server: GitServer, repository: Repository, out: Path
) -> None:
    with_submodule(server, repository, "../library.git")
    resolved = await client.resolve(repository.url, MAIN, ANYONE, timeout=10, flow="team")

    await client.checkout(repository.url, resolved, ANYONE, out, timeout=10, flow="team")

    assert list((out / "vendor/lib").iterdir()) == []


def with_submodule(server: GitServer, repository: Repository, url: str) -> Repository:
    """Make a library with two commits, and take its first one in as a submodule."""
    library = server.repository("library")
    commit = library.commit({"lib.yaml": "library"})
    library.commit({"lib.yaml": "newer"})
    repository.commit(
        {
            "a": "1",
            ".gitmodules": f'[submodule "lib"]\n\tpath = vendor/lib\n\turl = {url}\n',
            "vendor/lib": submodule(commit),
        }
    )
    return library


async def test_submodules_are_written_at_their_commit(
    client: GitClient, server: GitServer, repository: Repository, out: Path
) -> None:
    with_submodule(server, repository, "../library.git")
    resolved = await client.resolve(repository.url, MAIN, ANYONE, timeout=10, flow="team")

    await client.checkout(
        repository.url, resolved, ANYONE, out, recurse_submodules=True, timeout=10, flow="team"
    )

    assert files(out)["vendor/lib/lib.yaml"] == "library"
    assert files(out)["a"] == "1"


async def test_submodules_of_submodules_are_written(
    client: GitClient, server: GitServer, repository: Repository, out: Path
) -> None:
    library = with_submodule(server, repository, "../library.git")
    outer = server.repository("outer")
    commit = repository.revision("main")
    outer.commit(
        {
            ".gitmodules": f'[submodule "p"]\n\tpath = p\n\turl = {repository.url}\n',
            "p": submodule(commit),
        }
    )
    resolved = await client.resolve(outer.url, MAIN, ANYONE, timeout=10, flow="team")

    await client.checkout(
        outer.url, resolved, ANYONE, out, recurse_submodules=True, timeout=10, flow="team"
    )

    assert library.url.endswith("library.git")
    assert files(out)["p/vendor/lib/lib.yaml"] == "library"


async def test_sparse_checkout_finds_its_submodules(
    client: GitClient, server: GitServer, repository: Repository, out: Path
) -> None:
    with_submodule(server, repository, "../library.git")
    resolved = await client.resolve(repository.url, MAIN, ANYONE, timeout=10, flow="team")

    await client.checkout(
        repository.url,
        resolved,
        ANYONE,
        out,
        recurse_submodules=True,
        sparse=["vendor"],
        timeout=10,
        flow="team",
    )

    assert files(out) == {"vendor/lib/lib.yaml": "library"}


@pytest.mark.parametrize("url", ["file:///etc", "/etc", "ext::touch x", "git://localhost/x"])
async def test_submodule_at_a_local_address_is_refused(
    client: GitClient, server: GitServer, repository: Repository, out: Path, url: str
) -> None:
    with_submodule(server, repository, url)
    resolved = await client.resolve(repository.url, MAIN, ANYONE, timeout=10, flow="team")

    with pytest.raises(StalledError) as caught:
        await client.checkout(
            repository.url, resolved, ANYONE, out, recurse_submodules=True, timeout=10, flow="team"
        )

    assert caught.value.reason == "URLInvalid"


async def test_submodule_without_an_address_is_named(
    client: GitClient, repository: Repository, out: Path
) -> None:
    repository.commit({".gitmodules": "[core]\n", "vendor/lib": submodule("a" * 40)})
    resolved = await client.resolve(repository.url, MAIN, ANYONE, timeout=10, flow="team")

    with pytest.raises(PenstockError, match=r"submodule 'vendor/lib' is not in \.gitmodules"):
        await client.checkout(
            repository.url, resolved, ANYONE, out, recurse_submodules=True, timeout=10, flow="team"
        )


@pytest.mark.parametrize("recurse", [False, True])
async def test_directory_that_was_committed_as_a_submodule_is_empty_or_named(
    client: GitClient, repository: Repository, out: Path, *, recurse: bool
) -> None:
    repository.commit({"app.yaml": "1", "vendored": submodule("a" * 40)})
    repository.git("tag", "1.0.0")
    resolved = await client.resolve(
        repository.url, GitReference(semver="1"), ANYONE, timeout=10, flow="team"
    )

    if recurse:
        with pytest.raises(PenstockError, match=r"remove the submodule 'vendored'"):
            await client.checkout(
                repository.url,
                resolved,
                ANYONE,
                out,
                recurse_submodules=True,
                timeout=10,
                flow="team",
            )
        return
    await client.checkout(repository.url, resolved, ANYONE, out, timeout=10, flow="team")

    assert files(out)["app.yaml"] == "1"
    assert list((out / "vendored").iterdir()) == []


@pytest.mark.parametrize("annotated", [False, True])
async def test_tag_of_a_tree_is_named(
    client: GitClient, repository: Repository, out: Path, *, annotated: bool
) -> None:
    commit = repository.commit({"app.yaml": "1"})
    tree = repository.revision(f"{commit}^{{tree}}")
    lines = (f"object {tree}", "type tree", "tag 1.0.0", "tagger ada <a@b> 1 +0000", "", "tree\n")
    tag = repository.raw_object("tag", "\n".join(lines).encode()) if annotated else tree
    repository.git("update-ref", "refs/tags/1.0.0", tag)
    resolved = await client.resolve(
        repository.url, GitReference(semver="1"), ANYONE, timeout=10, flow="team"
    )

    with pytest.raises(PenstockError, match=r"'refs/tags/1\.0\.0' points to a tree"):
        await client.checkout(repository.url, resolved, ANYONE, out, timeout=10, flow="team")


async def test_submodule_that_contains_itself_ends(
    client: GitClient, repository: Repository, out: Path
) -> None:
    # A commit cannot name itself, but a server may answer every request with the same tree.
    repository.commit({".gitmodules": '[submodule "s"]\n\tpath = s\n\turl = ./\n'})
    for _ in range(12):
        repository.commit({"s": submodule(repository.revision("main"))})
    resolved = await client.resolve(repository.url, MAIN, ANYONE, timeout=10, flow="team")
    url = repository.url

    with pytest.raises(PenstockError, match="nested too deep"):
        await client.checkout(
            url, resolved, ANYONE, out, recurse_submodules=True, timeout=10, flow="team"
        )


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "169.254.169.254"])
async def test_submodule_is_as_public_as_the_repository_that_names_it(
    client: GitClient, tmp_path: Path, out: Path, monkeypatch: pytest.MonkeyPatch, host: str
) -> None:
    # Behind the proxy is the internet: its host names count as public. Nearer hosts are dialled.
    async with (
        gitserver.proxy() as proxy,
        GitServer(tmp_path / "theirs", host="git.example.com") as theirs,
        GitServer(tmp_path / "inside") as inside,
    ):
        monkeypatch.setenv("http_proxy", proxy.address)
        monkeypatch.setenv("no_proxy", "127.0.0.1,localhost")
        library, repository = inside.repository("library"), theirs.repository("pipes")
        commit = library.commit({"lib": "internal"})
        url = library.url.replace("localhost", host)
        repository.commit(
            {
                ".gitmodules": f'[submodule "l"]\n\tpath = l\n\turl = {url}\n',
                "l": submodule(commit),
            }
        )
        resolved = await client.resolve(repository.url, MAIN, ANYONE, timeout=10, flow="team")

        with pytest.raises(PenstockError, match=r"submodule 'l': .* is a private address"):
            await client.checkout(
                repository.url,
                resolved,
                ANYONE,
                out,
                recurse_submodules=True,
                timeout=10,
                flow="team",
            )

    assert theirs.seen
    assert inside.seen == []


async def test_submodule_on_another_server_gets_no_credentials(
    client: GitClient, tmp_path: Path, out: Path
) -> None:
    async with (
        GitServer(tmp_path / "mine", basic=("ada", "hunter2")) as mine,
        GitServer(tmp_path / "theirs") as theirs,
    ):
        library = theirs.repository("library")
        repository = mine.repository("pipes")
        repository.commit(
            {
                ".gitmodules": f'[submodule "l"]\n\tpath = l\n\turl = {library.url}\n',
                "l": submodule(library.commit({"lib": "theirs"})),
            }
        )
        auth = GitAuth(username="ada", password="hunter2")
        resolved = await client.resolve(repository.url, MAIN, auth, timeout=10, flow="team")

        await client.checkout(
            repository.url, resolved, auth, out, recurse_submodules=True, timeout=10, flow="team"
        )

        assert files(out)["l/lib"] == "theirs"
        assert theirs.seen
        assert [seen.authorization for seen in theirs.seen] == [""] * len(theirs.seen)
        assert all(seen.authorization for seen in mine.seen)
