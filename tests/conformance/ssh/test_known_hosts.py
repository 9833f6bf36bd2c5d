"""Which host keys are known, by the judgement of the real ``ssh``."""

import asyncio
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import asyncssh
import pytest

from tests.fakes.sshserver import SshServer
from toolkit.remote.ssh import knownhosts, publickeys


@pytest.fixture
async def ssh(tmp_path: Path) -> AsyncIterator[SshServer]:
    async with SshServer(tmp_path, authorized=[]) as server:
        yield server


CASES = [
    "[localhost]:{port} {own}",
    "localhost {own}",
    "LOCALHOST {own}",
    "elsewhere,localhost {own}",
    "[localhost]:{port} {other}",
    "[localhost]:1 {own}",
    "local* {own}",
    "[local*]:{port} {own}",
    "* {own}",
    "*,!localhost {own}",
    "*,![localhost]:{port} {own}",
    "!elsewhere,local???? {own}",
    "localhost {other}\n[localhost]:{port} {own}",
    "localhost {own}\n[localhost]:{port} {other}",
    "@revoked [localhost]:{port} {own}\n[localhost]:{port} {own}",
    "@revoked [localhost]:{port} {own}\nlocalhost {own}",
    "@revoked * {own}\nlocalhost {own}",
    "localhost {own}\n@revoked localhost {own}",
    "@revoked elsewhere {own}\nlocalhost {own}",
    "@revoked localhost {other}\nlocalhost {own}",
    "@cert-authority localhost {own}",
    "@cert-authority localhost {other}\nlocalhost {own}",
    "@CERT-AUTHORITY localhost {own}",
    "@unknown localhost {own}",
    "@unknown localhost {own}\nlocalhost {own}",
    "localhost no-pty {own}",
    "cert-authority localhost {own}",
    "junk\nlocalhost {own}",
    "localhost ssh-ed25519 not/base64!\nlocalhost {own}",
    "localhost ssh-rsa {blob}",
    "|1|junk {own}\nlocalhost {own}",
    "# hidden\u2028localhost {own}",
]


@pytest.mark.parametrize("lines", CASES)
async def test_hosts_are_known_as_to_ssh(ssh: SshServer, tmp_path: Path, lines: str) -> None:
    content = filled(lines, ssh)

    assert knows(content, ssh) == await ssh_knows(content, ssh, tmp_path)


@pytest.mark.parametrize("name", ["localhost", "[localhost]:{port}", "elsewhere"])
async def test_hashed_hosts_are_known_as_to_ssh(ssh: SshServer, tmp_path: Path, name: str) -> None:
    file = tmp_path / "hashed"
    file.write_text(filled(f"{name} {{own}}\n", ssh))
    hash_names(file)
    content = file.read_text()

    assert name not in content
    assert knows(content, ssh) == await ssh_knows(content, ssh, tmp_path)


@pytest.mark.parametrize(
    "lines",
    [
        # ssh overlooks a revocation in capitals, and one for the host where a line has the port.
        "@REVOKED localhost {own}\nlocalhost {own}",
        "@revoked localhost {own}\n[localhost]:{port} {own}",
        "@revoked 127.0.0.1 {own}\nlocalhost {own}",
        # ssh takes a byte order mark for a part of the line.
        "\ufeff@revoked localhost {own}\nlocalhost {own}",
        # ssh skips what it cannot read
        "@revoked localhost ssh-ed25519 AAAA\nlocalhost {own}",
        pytest.param("a\n" * publickeys.MAX_LINES + "localhost {own}", id="too many lines"),
    ],
)
async def test_where_we_refuse_more_than_ssh(ssh: SshServer, tmp_path: Path, lines: str) -> None:
    content = filled(lines, ssh)

    assert (knows(content, ssh), await ssh_knows(content, ssh, tmp_path)) == (False, True)


def hash_names(file: Path) -> None:
    subprocess.run(["ssh-keygen", "-q", "-H", "-f", str(file)], check=True, capture_output=True)


def filled(lines: str, ssh: SshServer) -> str:
    own = ssh.host_key.export_public_key().decode().strip()
    other = asyncssh.generate_private_key("ssh-ed25519").export_public_key().decode().strip()
    return lines.format(port=ssh.port, own=own, other=other, blob=own.split()[1])


def knows(content: str, ssh: SshServer) -> bool:
    try:
        found = knownhosts.read(content.encode()).match("localhost", "127.0.0.1", ssh.port)
    except ValueError:
        return False
    blobs = {key.blob for key in found.keys} - {key.blob for key in found.revoked}
    return ssh.host_key.public_data in blobs


async def ssh_knows(content: str, ssh: SshServer, directory: Path) -> bool:
    """Tell whether ssh gets as far as to be refused for its lack of a key."""
    file = directory / "known_hosts"
    file.write_text(content)
    options = {
        "UserKnownHostsFile": str(file),
        "GlobalKnownHostsFile": "/dev/null",
        "StrictHostKeyChecking": "yes",
        "BatchMode": "yes",
        "IdentityFile": "none",
        "IdentityAgent": "none",
    }
    process = await asyncio.create_subprocess_exec(
        *("ssh", "-F", "none", "-p", str(ssh.port)),
        *(f"-o{name}={value}" for name, value in options.items()),
        *("git@localhost", "true"),
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    _, said = await process.communicate()
    return b"Permission denied" in said
