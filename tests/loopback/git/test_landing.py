"""Commits on a known base, pushed where they belong, to the real ``git receive-pack``."""

import secrets
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import asyncssh
import pytest

from tests.fakes.gitrepository import Repository
from tests.fakes.gitserver import GitServer
from tests.fakes.sshserver import SshServer
from tests.tools import gpg
from toolkit.remote.git import objects
from toolkit.remote.git.errors import GitAuthError, GitError, GitMovedError
from toolkit.remote.git.git import Author, GitAuth, GitClient, GitReference, NewFile
from toolkit.remote.git.objects import Signed
from toolkit.remote.git.wire import Landed, LandRequest, PushTarget, SigningKey
from toolkit.verify import openpgp, ssh

NOW = datetime(2026, 2, 3, 4, 5, 6, tzinfo=UTC)
FILE = NewFile(path="apps/web.yaml", content=b"tag: v2\n")
MAIN = "refs/heads/main"

Land = Callable[..., Awaitable[Landed]]


@pytest.fixture
def repository(server: GitServer) -> Repository:
    made = server.repository("fleet")
    made.accept_pushes()
    made.commit({"apps/web.yaml": "tag: v1\n", "README": "hello"})
    return made


@pytest.fixture
def land(client: GitClient, repository: Repository, tmp_path: Path) -> Land:
    """Return what checks out main, and then pushes the file on it."""

    async def run(*targets: PushTarget, **more: Any) -> Landed:
        return await client.land(
            await request(client, repository.url, tmp_path, GitAuth(), targets, **more), flow="team"
        )

    return run


async def request(
    client: GitClient,
    url: str,
    place: Path,
    auth: GitAuth,
    targets: tuple[PushTarget, ...],
    **more: Any,
) -> LandRequest:
    resolved = await client.resolve(url, GitReference(branch="main"), auth, timeout=30, flow="team")
    into = place / f"out-{secrets.token_hex(4)}"
    pack = place / f"{into.name}.pack"
    await client.checkout(url, resolved, auth, into, keep=pack, timeout=30, flow="team")
    made = LandRequest(
        url=url,
        base=resolved.commit,
        pack=str(pack),
        files=(FILE,),
        message="Update images\n",
        author=Author(name="bot", email="bot@example.com"),
        time=int(NOW.timestamp()),
        auth=auth,
        targets=targets or (PushTarget(ref=MAIN, expected=resolved.commit),),
        timeout=30,
    )
    return replace(made, **more)


async def test_a_commit_lands_on_its_base(
    land: Land, repository: Repository, server: GitServer
) -> None:
    base = repository.revision("main")

    done = await land()

    assert (repository.revision("main"), repository.revision("main^")) == (done.commit, base)
    assert repository.content("apps/web.yaml") == "tag: v2\n"
    assert repository.content("README") == "hello"
    repository.git("fsck", "--strict")
    push = next(n for n, seen in enumerate(server.seen) if "receive-pack" in seen.path)
    assert not [seen for seen in server.seen[push:] if "upload-pack" in seen.path]


async def test_nothing_lands_where_nothing_changes(land: Land, repository: Repository) -> None:
    base = repository.revision("main")

    done = await land(files=(NewFile(path="apps/web.yaml", content=b"tag: v1\n"),))

    assert done == Landed(commit=base, changed=False)
    assert repository.revision("main") == base


async def test_a_branch_that_moved_is_told_and_left_alone(
    client: GitClient, repository: Repository, tmp_path: Path
) -> None:
    made = await request(client, repository.url, tmp_path, GitAuth(), ())
    theirs = repository.commit({"apps/web.yaml": "tag: theirs\n"})

    with pytest.raises(GitMovedError, match="got other commits meanwhile"):
        await client.land(made, flow="team")

    assert repository.revision("main") == theirs


async def test_a_branch_that_moves_during_the_push_is_told(
    land: Land, repository: Repository, server: GitServer
) -> None:
    raced: list[str] = []

    def race(body: bytes) -> bytes:
        if b"PACK" in body and not raced:
            raced.append(repository.commit({"theirs.yaml": "theirs\n"}))
        return body

    server.faults.rewrite = race
    with pytest.raises(GitMovedError):
        await land()

    assert repository.revision("main") == raced[0]


async def test_another_branch_begins_at_the_base_and_is_moved_by_force(
    land: Land, repository: Repository
) -> None:
    base = repository.revision("main")
    updates = PushTarget(ref="refs/heads/updates", force=True)

    first = await land(updates)
    repository.commit({"mine": "1"}, branch="updates")
    second = await land(updates, message="again\n")

    assert repository.revision("updates") == second.commit != first.commit
    assert repository.revision("updates^") == base == repository.revision("main")


async def test_several_references_and_options_are_pushed_at_once(
    land: Land, repository: Repository
) -> None:
    repository.git("config", "receive.advertisePushOptions", "true")
    repository.accept_pushes(hook='echo "$GIT_PUSH_OPTION_0" > options')
    main = PushTarget(ref=MAIN, expected=repository.revision("main"))

    done = await land(main, PushTarget(ref="refs/for/main", force=True), options=("topic=images",))

    assert repository.revision("refs/for/main") == repository.revision("main") == done.commit
    assert (repository.path / "options").read_text() == "topic=images\n"


async def test_a_protected_branch_says_what_it_wants(land: Land, repository: Repository) -> None:
    base = repository.revision("main")
    repository.accept_pushes(hook="echo 'main is protected' >&2; exit 1")

    with pytest.raises(GitError, match=r"refused the push to 'refs/heads/main': .*main is protect"):
        await land()

    assert repository.revision("main") == base


@pytest.mark.parametrize("kind", ["ssh-ed25519", "ssh-rsa", "ecdsa-sha2-nistp384"])
@pytest.mark.parametrize("passphrase", ["", "a secret"])
async def test_an_ssh_signature_is_one_that_is_verified(
    land: Land, repository: Repository, kind: str, passphrase: str
) -> None:
    key = asyncssh.generate_private_key(kind)
    exported = key.export_private_key("openssh", passphrase or None)
    signing = SigningKey(kind="ssh", key=exported, passphrase=passphrase)

    await land(signing=signing)

    public = key.export_public_key()
    signer = ssh.verify(signed(repository), {"bot.sshpub": public})
    assert signer.fingerprint == key.get_fingerprint()
    allowed = repository.path / "allowed"
    allowed.write_bytes(b"bot@example.com " + public)
    verify = ("-c", f"gpg.ssh.allowedSignersFile={allowed}", "verify-commit", "main")
    repository.git(*verify)  # raises if the real Git does not take it


def signed(repository: Repository) -> Signed:
    found = objects.parse_commit(repository.git("cat-file", "commit", "main")).signature
    assert found is not None
    return found


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    directory = tmp_path / "gpg"
    directory.mkdir(mode=0o700)
    yield directory
    gpg.stop(directory)


@pytest.mark.parametrize("passphrase", ["", "a secret"])
async def test_an_openpgp_signature_is_one_that_is_verified(
    land: Land, repository: Repository, home: Path, passphrase: str
) -> None:
    given = ("--passphrase", passphrase)
    name = "bot <bot@example.org>"
    gpg.run(home, *given, "--quick-generate-key", name, "ed25519", "sign", "never")
    secret = gpg.run(home, *given, "--armor", "--export-secret-keys")

    await land(signing=SigningKey(kind="gpg", key=secret, passphrase=passphrase))

    public = gpg.run(home, "--armor", "--export")
    signer = openpgp.verify(signed(repository), {"bot.asc": public})
    assert signer.fingerprint.upper() == gpg.fingerprint(home, "bot")
    repository.git("verify-commit", "main", env={"GNUPGHOME": str(home)})


@pytest.mark.parametrize(
    "signing",
    [
        SigningKey(kind="ssh", key=b"SECRET-MARKER"),
        SigningKey(kind="gpg", key=b"SECRET-MARKER"),
        SigningKey(kind="ssh", key=asyncssh.generate_private_key("ssh-dss").export_private_key()),
    ],
)
async def test_a_key_that_does_not_sign_is_told_and_not_shown(
    land: Land, repository: Repository, signing: SigningKey
) -> None:
    base = repository.revision("main")

    with pytest.raises(GitAuthError, match=r"signing key|of a kind") as refused:
        await land(signing=signing)

    assert "SECRET-MARKER" not in str(refused.value)
    assert repository.revision("main") == base


async def test_a_push_over_ssh(client: GitClient, tmp_path: Path) -> None:
    key = asyncssh.generate_private_key("ssh-ed25519")
    async with SshServer(tmp_path / "ssh", authorized=[key]) as server:
        auth = GitAuth(identity=key.export_private_key(), known_hosts=server.known_hosts)
        repository = server.repository("fleet")
        repository.commit({"apps/web.yaml": "tag: v1\n"})

        done = await client.land(
            await request(client, repository.url, tmp_path, auth, ()), flow="team"
        )

        assert repository.revision("main") == done.commit


async def test_what_was_kept_of_another_commit_is_no_base(
    client: GitClient, repository: Repository, tmp_path: Path
) -> None:
    made = await request(client, repository.url, tmp_path, GitAuth(), ())

    with pytest.raises(GitError):
        await client.land(replace(made, base="1" * 40), flow="team")
