"""Which lines of signers count, by the judgement of ``ssh-keygen -Y verify`` as Git runs it."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.testdata.signatures.generate import Author
from toolkit.remote.git.objects import Signed
from toolkit.verify import ssh
from toolkit.verify.signature import VerificationError

PAYLOAD = b"tree 4b825dc642cb6eb9a060e54bf8d69288fbee4904\n\nwhat was signed\n"
PRINCIPAL = "ada@example.org"

OPTIONS = [
    # namespaces are a list of patterns
    'namespaces="git"',
    'NameSpaces="git"',
    'namespaces="file"',
    'namespaces="file,git"',
    'namespaces="g*"',
    'namespaces="?it"',
    'namespaces="*,!git"',
    'namespaces="!git,*"',
    'namespaces="!file,git"',
    'namespaces=""',
    'namespaces="git",namespaces="git"',
    "namespaces=git",
    "namespaces",
    'namespaces="git',
    # times
    'valid-before="20200101"',
    'valid-before="20200101Z"',
    'VALID-BEFORE="202001010000"',
    'valid-before="20900101"',
    'valid-before="20900101235959Z"',
    'valid-after="20200101"',
    'Valid-After="20900101"',
    'valid-after="20200101",valid-before="20900101"',
    'valid-after="20900101",valid-before="20200101"',
    'valid-after="20200101",valid-before="20200101"',
    'valid-before="2090"',
    'valid-before="tomorrow"',
    'valid-before="20901301"',
    'valid-before=""',
    "valid-before=20900101",
    'valid-before="20900101",valid-before="20200101"',
    'namespaces="git",valid-before="20900101"',
    'namespaces="file",valid-before="20900101"',
    # an authority does not sign itself
    "cert-authority",
    "CERT-AUTHORITY",
    'cert-authority,namespaces="git"',
    # options of logins
    "no-pty",
    "restrict",
    'from="10.0.0.0/8"',
    'command="echo \\"hello world\\""',
    "no-touch-required",
    "verify-required",
    "unheard-of",
    'unheard-of="x"',
]


@pytest.mark.parametrize("options", OPTIONS)
def test_options_count_as_with_ssh_keygen(
    authors: dict[str, Author], tmp_path: Path, options: str
) -> None:
    author = authors["ssh-ed25519"]
    listed = f"{PRINCIPAL} {options} ".encode() + author.public

    assert accepts(author, listed) == ssh_keygen_accepts(author, listed, tmp_path)


@pytest.mark.parametrize(
    "lines",
    [
        "{principal} {own}",
        "a@example.org,*@example.org {own}",
        "{principal}\t{own}",
        "  {principal}   {own}  # comment",
        "{principal} {own}\r",
        "# {principal} {own}",
        "{principal} {own} someone's \"comment",
        '{principal} cert-authority {own}\n{principal} namespaces="git" {own}',
        '{principal} namespaces="file" {own}\n{principal} {own}',
        "{principal} {other}",
        "{principal} {other}\n{principal} {own}",
        "junk\n{principal} {own}",
        "{principal} ssh-ed25519 not/base64!\n{principal} {own}",
        "{principal} ssh-rsa {own_blob}",
        # A separator of lines in Python is a character like any other here.
        "# hidden\u2028{principal} {own}",
        "# hidden\x0b{principal} {own}",
        "# hidden\x85{principal} {own}",
    ],
)
def test_lines_count_as_with_ssh_keygen(
    authors: dict[str, Author], tmp_path: Path, lines: str
) -> None:
    author = authors["ssh-ed25519"]
    own, other = (authors[name].public.decode().strip() for name in ("ssh-ed25519", "ssh-stranger"))
    listed = lines.format(principal=PRINCIPAL, own=own, other=other, own_blob=own.split()[1])

    assert accepts(author, listed.encode()) == ssh_keygen_accepts(author, listed.encode(), tmp_path)


@pytest.mark.parametrize("author", ["ssh-ecdsa-256", "ssh-ecdsa-521", "ssh-rsa", "ssh-rsa-1024"])
def test_kinds_of_keys_count_as_with_ssh_keygen(
    authors: dict[str, Author], tmp_path: Path, author: str
) -> None:
    listed = f"{PRINCIPAL} ".encode() + authors[author].public

    ours, theirs = (
        accepts(authors[author], listed),
        ssh_keygen_accepts(authors[author], listed, tmp_path),
    )

    # OpenSSH takes 1024 bits of RSA unless it is told otherwise.
    assert (ours, theirs) == (author != "ssh-rsa-1024", True)


def accepts(author: Author, listed: bytes) -> bool:
    signed = Signed(payload=PAYLOAD, signature=author.sign(PAYLOAD))
    try:
        ssh.verify(signed, {"a.sshpub": listed})
    except VerificationError:
        return False
    return True


def ssh_keygen_accepts(author: Author, listed: bytes, directory: Path) -> bool:
    """Do as Git does: ask for the principals of the key, and verify with each."""
    signers, signature = directory / "signers", directory / "signature"
    signers.write_bytes(listed)
    signature.write_bytes(author.sign(PAYLOAD))
    files = ("-f", str(signers), "-s", str(signature))
    found = keygen("-Y", "find-principals", *files)
    return any(
        keygen("-Y", "verify", "-n", "git", "-I", principal, *files).returncode == 0
        for principal in found.stdout.decode().splitlines()
    )


def keygen(*arguments: str) -> "subprocess.CompletedProcess[bytes]":
    return subprocess.run(
        ["ssh-keygen", *arguments],
        input=PAYLOAD,
        capture_output=True,
        check=False,
        env=os.environ | {"TZ": "UTC"},
    )
