"""``penstock check repository URL``: a commit is fetched from real servers, and checked."""

import asyncio
import json
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path

import asyncssh
import pytest

from cli.__main__ import main
from tests.fakes import fleets
from tests.fakes.gitrepository import Repository, link
from tests.fakes.gitserver import GitServer
from tests.fakes.sshserver import SshServer

Run = Callable[..., Awaitable[tuple[int, str, str]]]
FLEET = {
    path.relative_to(fleets.REPOSITORY).as_posix(): path.read_text()
    for path in fleets.REPOSITORY.rglob("*")
    if path.is_file()
}
HARMLESS = {"readme": "nothing to apply"}


@pytest.fixture(autouse=True)
def no_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GIT_PASSWORD", "GIT_BEARER_TOKEN"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    room = tmp_path / "room"
    room.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(room))

    async def check(*arguments: str) -> tuple[int, str, str]:
        code = await asyncio.to_thread(main, ("check", "repository", *arguments))
        said = capsys.readouterr()
        left = [path for shared in room.iterdir() for path in shared.iterdir()]
        assert left == [], "the files of the check are gone"
        return code, said.out, said.err

    return check


def names(out: str) -> set[str]:
    return {each["name"] for each in json.loads(out)["findings"]}


async def findings(run: Run, *arguments: str) -> tuple[set[str], str]:
    _, out, err = await run(*arguments, "-o", "json")
    return names(out), err


async def test_what_a_clone_would_check_out_is_checked(run: Run, tmp_path: Path) -> None:
    async with GitServer(tmp_path / "served") as server:
        repository = server.repository("fleet", head="trunk")
        commit = repository.commit(FLEET, message="Add the fleet")
        repository.commit(HARMLESS, branch="other")

        code, out, err = await run(repository.url, "-o", "json")

    assert code == 1
    assert names(out) >= {"audio", "books", "films"}
    assert f"sha1:{commit}: Add the fleet" in err


@pytest.mark.parametrize(
    ("flags", "refused"),
    [
        (("--branch", "old"), False),
        (("--branch", "main"), True),
        (("--tag", "v1.0.0"), False),
        (("--tag-semver", ">=1.0.0"), True),
        (("--ref-name", "refs/heads/old"), False),
        (("--commit", "{old}"), False),
        (("--commit", "{old}", "--branch", "main"), False),
    ],
)
@pytest.mark.parametrize("where", ["server", "disk"])
async def test_flags_name_the_commit(
    run: Run, tmp_path: Path, where: str, flags: tuple[str, ...], *, refused: bool
) -> None:
    async with GitServer(tmp_path / "served") as server:
        repository = server.repository("fleet")
        old = repository.commit(HARMLESS)
        repository.git("branch", "old", old)
        repository.tag("v1.0.0", message="the first")
        repository.commit(FLEET)
        repository.tag("v1.1.0", message="the second")
        url = repository.url if where == "server" else f"file://{repository.path}"

        code, _, err = await run(url, *(flag.format(old=old) for flag in flags))

    assert code == int(refused), err


async def test_a_commit_on_disk_is_read_and_not_what_lies_beside_it(
    run: Run, tmp_path: Path
) -> None:
    bare = Repository(tmp_path / "bare.git")
    bare.commit(FLEET)
    clone = tmp_path / "a clone"
    bare.git("clone", "--quiet", str(bare.path), str(clone))
    for file in clone.rglob("*.yaml"):
        file.unlink()

    of_clone, _ = await findings(run, f"file://{clone}".replace(" ", "%20"))
    of_directory, _ = await findings(run, str(clone))

    assert "audio" in of_clone
    assert of_directory == set()


async def test_a_user_or_a_token_is_shown_to_the_server(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with (
        GitServer(tmp_path / "user", basic=("ada", "hunter2")) as user,
        GitServer(tmp_path / "token", bearer="hunter3") as token,
    ):
        urls = []
        for server in (user, token):
            repository = server.repository("fleet")
            repository.commit(HARMLESS)
            urls.append(repository.url)
        insecure = "--allow-insecure-http"

        nobody = await run(urls[0])
        monkeypatch.setenv("GIT_PASSWORD", "wrong")
        wrong = await run(urls[0], "--username", "ada", insecure)
        seen = len(user.seen)
        monkeypatch.setenv("GIT_PASSWORD", "hunter2")
        plain = await run(urls[0], "--username", "ada")
        unseen = len(user.seen)
        right = await run(urls[0], "--username", "ada", insecure)
        monkeypatch.delenv("GIT_PASSWORD")
        bearer = await run(urls[1], "--bearer-token", "hunter3", insecure)

    assert (nobody[0], wrong[0], plain[0]) == (2, 2, 2)
    assert "asks for credentials" in nobody[2]
    assert "--username and GIT_PASSWORD" in nobody[2]
    assert "refused the credentials" in wrong[2]
    assert "wrong" not in wrong[2]
    assert "--allow-insecure-http" in plain[2]
    assert unseen == seen, "nothing is sent without TLS"
    assert (right[0], bearer[0]) == (0, 0)


async def test_an_authority_is_named_for_https(
    run: Run, tmp_path: Path, server_tls: ssl.SSLContext, ca: bytes
) -> None:
    authority = tmp_path / "ca.crt"
    authority.write_bytes(ca)
    async with GitServer(tmp_path / "tls", tls=server_tls) as server:
        repository = server.repository("fleet")
        repository.commit(HARMLESS)

        known = await run(repository.url, "--ca-file", str(authority))
        unknown = await run(repository.url)

    assert (known[0], unknown[0]) == (0, 2)
    assert "certificate verify failed" in unknown[2]


async def test_a_key_and_the_keys_of_the_host_are_for_ssh(run: Run, tmp_path: Path) -> None:
    key = asyncssh.generate_private_key("ssh-ed25519")
    identity, hosts, others = (tmp_path / name for name in ("key", "hosts", "others"))
    identity.write_bytes(key.export_private_key())
    async with SshServer(tmp_path / "served", authorized=[key]) as server:
        repository = server.repository("fleet")
        repository.commit(FLEET)
        hosts.write_bytes(server.known_hosts)
        others.write_bytes(server.known_hosts.replace(b"localhost", b"elsewhere"))
        flags = ("--private-key-file", str(identity), "--known-hosts-file")

        found, _ = await findings(run, repository.url, *flags, str(hosts))
        unknown = await run(repository.url, *flags, str(others))
        without = await run(repository.url)
        users = list(server.users)

    assert "audio" in found
    assert (unknown[0], without[0]) == (2, 2)
    assert "host key verification failed" in unknown[2]
    assert f"ssh-keyscan -p {server.port} localhost" in without[2]
    assert set(users) == {"git"}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("git@git.example.com:org/fleet",), "write ssh://git@git.example.com/org/fleet"),
        (("git://git.example.com/fleet",), "must start with http://, https:// or ssh://"),
        (("https://ada:hunter2@git.example.com/fleet",), "set GIT_PASSWORD"),
        (("https://git.example.com/f", "--username", "ada"), "needed together"),
        (("https://git.example.com/f", "--known-hosts-file", __file__), "for ssh://"),
        (("https://git.example.com/f", "--ca-file", "/nowhere"), "cannot read /nowhere"),
        (("ssh://git@git.example.com/f", "--username", "ada"), "do not go with SSH"),
        (("https://git.example.com/f", "--tag", "a", "--branch", "b"), "name one of them"),
        (("file://host/srv/fleet",), "three slashes"),
        (("file:///srv/fleet", "--username", "ada"), "takes no credentials"),
        (("file:///nowhere/fleet",), "/nowhere/fleet is not a directory"),
        ((".", "--branch", "main"), "--branch is for a URL"),
        ((".", "--known-hosts-file", "x"), "--known-hosts-file is for a URL"),
    ],
)
async def test_what_cannot_be_fetched_is_told_with_a_remedy(
    run: Run, arguments: tuple[str, ...], said: str
) -> None:
    code, out, err = await run(*arguments)

    assert (code, out) == (2, "")
    assert said in err
    assert "hunter2" not in err


@pytest.mark.parametrize("where", ["server", "disk"])
async def test_what_is_not_there_is_named(run: Run, tmp_path: Path, where: str) -> None:
    async with GitServer(tmp_path / "served") as server:
        empty, repository = server.repository("empty"), server.repository("fleet")
        repository.commit(HARMLESS)
        other = repository.commit({"a": "1"}, branch="other")
        (server.root / "none.git").mkdir()

        def address(name: str) -> str:
            served = f"{server.base}/{name}.git"
            return served if where == "server" else f"file://{server.root}/{name}.git"

        nothing = await run(address("empty"))
        branch = await run(address("fleet"), "--branch", "nope")
        commit = await run(address("fleet"), "--commit", "b" * 40)
        foreign = await run(address("fleet"), "--commit", other, "--branch", "main")
        none = await run(address("none"))

    assert empty.path.is_dir()
    assert {each[0] for each in (nothing, branch, commit, foreign, none)} == {2}
    assert "is empty" in nothing[2]
    assert "branch 'nope' not found" in branch[2]
    assert "b" * 40 in commit[2]
    assert "is not part of branch 'main'" in foreign[2]
    assert "not found" in none[2] or "is not a Git repository" in none[2]


@pytest.mark.parametrize("where", ["server", "disk"])
async def test_hostile_files_stay_in_their_directory(run: Run, tmp_path: Path, where: str) -> None:
    async with GitServer(tmp_path / "served") as server:
        links, names_ = server.repository("links"), server.repository("names")
        links.commit({**HARMLESS, "apps": link("/etc")})
        blob = names_.raw_object("blob", b"x")
        inner = names_.raw_tree([("100644", b"config", blob)])
        top = names_.raw_tree([("40000", b".GIT", inner)])
        raw = f"tree {top}\nauthor A <a@b> 0 +0000\ncommitter A <a@b> 0 +0000\n\nx\n"
        names_.git("update-ref", "refs/heads/main", names_.raw_object("commit", raw.encode()))

        def address(repository: Repository) -> str:
            return repository.url if where == "server" else f"file://{repository.path}"

        left_out = await run(address(links))
        refused = await run(address(names_))

    assert left_out[0] == 0
    assert "1 symbolic links lead out" in left_out[2]
    assert refused[0] == 2
    assert "must not be written" in refused[2]


async def test_a_repository_on_disk_cannot_lead_to_other_files(run: Run, tmp_path: Path) -> None:
    secret, repository = Repository(tmp_path / "secret.git"), Repository(tmp_path / "theirs.git")
    commit = secret.commit(FLEET)
    repository.commit(HARMLESS)
    (repository.path / "objects/info").mkdir(exist_ok=True)
    (repository.path / "objects/info/alternates").write_text(f"{secret.path}/objects\n")
    repository.git("update-ref", "refs/heads/main", commit)

    code, out, err = await run(f"file://{repository.path}")

    assert (code, out) == (2, "")
    assert "audio" not in err
