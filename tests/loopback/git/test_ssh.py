"""Repositories over SSH: keys from memory, and no host that is not known."""

import pwd
import socket
import subprocess
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import asyncssh
import pytest

from tests.fakes.sshserver import SshServer
from toolkit.errors import PenstockError
from toolkit.remote.git.git import GitAuth, GitClient, GitReference

MAIN = GitReference(branch="main")


@pytest.fixture(scope="module")
def key() -> asyncssh.SSHKey:
    return asyncssh.generate_private_key("ssh-ed25519")


@pytest.fixture
async def ssh(tmp_path: Path, key: asyncssh.SSHKey) -> AsyncIterator[SshServer]:
    async with SshServer(tmp_path / "ssh", authorized=[key]) as running:
        yield running


def auth_for(server: SshServer, key: asyncssh.SSHKey) -> GitAuth:
    return GitAuth(identity=key.export_private_key(), known_hosts=server.known_hosts)


@pytest.mark.parametrize("accept_protocol", [True, False])
async def test_files_are_fetched(
    client: GitClient, tmp_path: Path, key: asyncssh.SSHKey, out: Path, *, accept_protocol: bool
) -> None:
    async with SshServer(
        tmp_path / "ssh", authorized=[key], accept_protocol=accept_protocol
    ) as server:
        repository = server.repository("pipes")
        repository.commit({"a": "old"})
        commit = repository.commit({"a": "1", "b/c": "2"})
        repository.tag("v1.0.0", message="first")
        auth = auth_for(server, key)
        reference = GitReference(semver="*")

        resolved = await client.resolve(repository.url, reference, auth, timeout=10, flow="team")
        checkout = await client.checkout(
            repository.url, resolved, auth, out, timeout=10, flow="team"
        )

    assert checkout.commit == commit
    assert checkout.tag is not None
    assert (out / "b/c").read_text() == "2"
    assert set(server.commands) == {"git-upload-pack /pipes.git"}


async def test_a_user_without_a_name_fetches(
    client: GitClient,
    ssh: SshServer,
    key: asyncssh.SSHKey,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The image has no /etc/passwd that names the user who runs the process."""
    commit = ssh.repository("pipes").commit({"a": "1"})
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME", "HOME"):
        monkeypatch.setenv(name, "")  # so that it is put back
        monkeypatch.delenv(name)

    def unknown(uid: int) -> None:
        raise KeyError(uid)

    monkeypatch.setattr(pwd, "getpwuid", unknown)

    resolved = await client.resolve(
        f"{ssh.base}/pipes.git", MAIN, auth_for(ssh, key), timeout=10, flow="team"
    )

    assert resolved.commit == commit


@pytest.mark.parametrize("accept_protocol", [True, False])
async def test_commit_behind_the_tip_is_found(
    client: GitClient, tmp_path: Path, key: asyncssh.SSHKey, out: Path, *, accept_protocol: bool
) -> None:
    async with SshServer(
        tmp_path / "ssh", authorized=[key], accept_protocol=accept_protocol
    ) as server:
        repository = server.repository("pipes")
        commit = repository.commit({"a": "1"})
        repository.commit({"a": "2"})
        auth = auth_for(server, key)
        reference = GitReference(commit=commit, branch="main")
        resolved = await client.resolve(repository.url, reference, auth, timeout=10, flow="team")

        await client.checkout(repository.url, resolved, auth, out, timeout=10, flow="team")

    assert (out / "a").read_text() == "1"


@pytest.mark.parametrize("accept_protocol", [True, False])
async def test_empty_repository_is_called_empty(
    client: GitClient, tmp_path: Path, key: asyncssh.SSHKey, *, accept_protocol: bool
) -> None:
    async with SshServer(
        tmp_path / "ssh", authorized=[key], accept_protocol=accept_protocol
    ) as server:
        repository = server.repository("pipes")

        with pytest.raises(PenstockError, match="is empty"):
            await client.resolve(
                repository.url, MAIN, auth_for(server, key), timeout=10, flow="team"
            )


@pytest.mark.parametrize("host", ["169.254.169.254", "[::ffff:169.254.169.254]", "[fd00:ec2::254]"])
async def test_metadata_service_is_not_asked(
    client: GitClient, ssh: SshServer, key: asyncssh.SSHKey, host: str
) -> None:
    with pytest.raises(PenstockError, match="is a metadata service's address"):
        await client.resolve(
            f"ssh://git@{host}/a", MAIN, auth_for(ssh, key), timeout=10, flow="team"
        )


@pytest.mark.parametrize("kind", ["ecdsa-sha2-nistp256", "ssh-rsa"])
async def test_other_kinds_of_keys_are_accepted(
    client: GitClient, tmp_path: Path, kind: str
) -> None:
    other = asyncssh.generate_private_key(kind)
    async with SshServer(tmp_path / "ssh", authorized=[other]) as server:
        repository = server.repository("pipes")
        commit = repository.commit({"a": "1"})

        resolved = await client.resolve(
            repository.url, MAIN, auth_for(server, other), timeout=10, flow="team"
        )

    assert resolved.commit == commit


async def test_key_with_a_passphrase_is_opened(
    client: GitClient, ssh: SshServer, key: asyncssh.SSHKey
) -> None:
    repository = ssh.repository("pipes")
    commit = repository.commit({"a": "1"})
    identity = key.export_private_key("openssh", passphrase="open sesame", rounds=50)
    good = GitAuth(identity=identity, passphrase="open sesame", known_hosts=ssh.known_hosts)
    bad = [
        GitAuth(identity=identity, passphrase="guess", known_hosts=ssh.known_hosts),
        GitAuth(identity=identity, known_hosts=ssh.known_hosts),
    ]

    resolved = await client.resolve(repository.url, MAIN, good, timeout=10, flow="team")

    assert resolved.commit == commit
    for auth in bad:
        with pytest.raises(PenstockError, match="'password'") as caught:
            await client.resolve(repository.url, MAIN, auth, timeout=10, flow="team")
        assert caught.value.reason == "AuthenticationFailed"


async def test_user_of_the_url_logs_in_and_git_by_default(
    client: GitClient, ssh: SshServer, key: asyncssh.SSHKey
) -> None:
    repository = ssh.repository("pipes")
    repository.commit({"a": "1"})
    auth = auth_for(ssh, key)

    for url in (repository.url.replace("git@", "deploy@"), repository.url.replace("git@", "")):
        await client.resolve(url, MAIN, auth, timeout=10, flow="team")

    assert ssh.users == ["deploy", "git"]


@pytest.mark.parametrize(
    "known_hosts",
    [
        "[localhost]:{port} {other}",
        "elsewhere {own}",
        "@revoked [localhost]:{port} {own}\n[localhost]:{port} {own}",
        "@revoked [localhost]:{port} {own}\nlocalhost {own}",
        "@REVOKED localhost {own}\nlocalhost {own}",
        "@CERT-AUTHORITY localhost {own}\nlocalhost {other}",
    ],
    ids=["another key", "another host", "revoked", "revoked for the port", "capitals", "authority"],
)
async def test_server_that_is_not_known_is_refused(
    client: GitClient, ssh: SshServer, key: asyncssh.SSHKey, known_hosts: str
) -> None:
    other = asyncssh.generate_private_key("ssh-ed25519")
    lines = known_hosts.format(
        port=ssh.port,
        own=ssh.host_key.export_public_key().decode().strip(),
        other=other.export_public_key().decode().strip(),
    )
    auth = GitAuth(identity=key.export_private_key(), known_hosts=lines.encode())

    with pytest.raises(PenstockError, match="host key verification failed") as caught:
        await client.resolve(f"{ssh.base}/pipes.git", MAIN, auth, timeout=10, flow="team")

    assert caught.value.reason == "AuthenticationFailed"
    assert ssh.users == []


async def test_lines_of_known_hosts_that_cannot_be_used_are_skipped_and_named(
    client: GitClient, ssh: SshServer, key: asyncssh.SSHKey
) -> None:
    repository = ssh.repository("pipes")
    repository.commit({"a": "1"})
    junk = b"@unknown localhost ssh-ed25519 AAAA\nlocalhost ssh-ed25519 not/base64!\n"
    known = replace(auth_for(ssh, key), known_hosts=junk + ssh.known_hosts)
    elsewhere = ssh.known_hosts.replace(b"localhost", b"elsewhere")
    unknown = replace(known, known_hosts=junk + elsewhere)

    resolved = await client.resolve(repository.url, MAIN, known, timeout=10, flow="team")
    with pytest.raises(
        PenstockError, match=r"skipped: 'known_hosts' line 1 holds no .*, .* line 2"
    ):
        await client.resolve(repository.url, MAIN, unknown, timeout=10, flow="team")
    with pytest.raises(
        PenstockError, match=r"no line of 'known_hosts' can be used; .* line 1 holds"
    ):
        await client.resolve(
            repository.url, MAIN, replace(known, known_hosts=junk), timeout=10, flow="team"
        )

    assert resolved.commit


async def test_hashed_host_name_is_recognised(
    client: GitClient, ssh: SshServer, key: asyncssh.SSHKey, tmp_path: Path
) -> None:
    repository = ssh.repository("pipes")
    repository.commit({"a": "1"})
    hashed = hash_names(ssh.known_hosts, tmp_path / "known_hosts")
    auth = GitAuth(identity=key.export_private_key(), known_hosts=hashed)

    resolved = await client.resolve(repository.url, MAIN, auth, timeout=10, flow="team")

    assert b"localhost" not in hashed
    assert resolved.commit


def hash_names(known_hosts: bytes, file: Path) -> bytes:
    file.write_bytes(known_hosts)
    subprocess.run(["ssh-keygen", "-q", "-H", "-f", str(file)], check=True, capture_output=True)
    return file.read_bytes()


async def test_key_that_is_not_authorized_is_refused(client: GitClient, ssh: SshServer) -> None:
    stranger = asyncssh.generate_private_key("ssh-ed25519")

    with pytest.raises(PenstockError, match="does not accept the key") as caught:
        await client.resolve(
            f"{ssh.base}/pipes.git", MAIN, auth_for(ssh, stranger), timeout=10, flow="team"
        )

    assert caught.value.reason == "AuthenticationFailed"


@pytest.mark.parametrize(
    ("auth", "named"),
    [
        (GitAuth(), "'identity'"),
        (GitAuth(identity=b"k"), "'identity'"),
        (GitAuth(identity=b"k", known_hosts=b"h ssh-ed25519 AAAA"), "'identity'"),
    ],
)
async def test_missing_or_broken_key_is_named(
    client: GitClient, ssh: SshServer, auth: GitAuth, named: str
) -> None:
    with pytest.raises(PenstockError, match=named) as caught:
        await client.resolve(f"{ssh.base}/pipes.git", MAIN, auth, timeout=10, flow="team")

    assert caught.value.reason == "AuthenticationFailed"


async def test_server_that_is_down_is_reported_in_words(
    client: GitClient, ssh: SshServer, key: asyncssh.SSHKey
) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"ssh://git@127.0.0.1:{free.getsockname()[1]}/a"

        with pytest.raises(PenstockError, match=r"cannot fetch from .*: connection refused$"):
            await client.resolve(url, MAIN, auth_for(ssh, key), timeout=10, flow="team")


async def test_missing_known_hosts_are_named(
    client: GitClient, ssh: SshServer, key: asyncssh.SSHKey
) -> None:
    auth = GitAuth(identity=key.export_private_key())

    with pytest.raises(PenstockError, match="'known_hosts'"):
        await client.resolve(f"{ssh.base}/pipes.git", MAIN, auth, timeout=10, flow="team")

    assert ssh.users == []


async def test_what_the_server_says_is_passed_on(
    client: GitClient, ssh: SshServer, key: asyncssh.SSHKey
) -> None:
    with pytest.raises(PenstockError, match=r"ERROR: Repository not found\."):
        await client.resolve(
            f"{ssh.base}/nope.git", MAIN, auth_for(ssh, key), timeout=10, flow="team"
        )


async def test_what_the_server_says_before_it_leaves_is_passed_on(
    client: GitClient, ssh: SshServer, key: asyncssh.SSHKey
) -> None:
    ssh.farewells["/busy.git"] = b"ERROR: too many connections\n"

    with pytest.raises(PenstockError, match="ERROR: too many connections"):
        await client.resolve(
            f"{ssh.base}/busy.git", MAIN, auth_for(ssh, key), timeout=10, flow="team"
        )


async def test_path_cannot_leave_its_quotes(
    client: GitClient, ssh: SshServer, key: asyncssh.SSHKey
) -> None:
    with pytest.raises(PenstockError, match="not found"):
        await client.resolve(
            f"{ssh.base}/a';reboot;'", MAIN, auth_for(ssh, key), timeout=10, flow="team"
        )

    assert ssh.commands == ["git-upload-pack '/a'\"'\"';reboot;'\"'\"''"]
