"""Make authors with real gpg and ssh-keygen keys: good ones, expired, revoked, weak.

Tests make them anew in every run, so nothing is checked in and nothing ages. To look at them, or to
use them by hand: ``python -m tests.testdata.signatures.generate <empty directory>``.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.fakes.gitrepository import SigningKey
from tests.tools import gpg

LONG_AGO = "20200301T120000"
FAR_AHEAD = "20900301T120000"


@dataclass(frozen=True, slots=True, kw_only=True)
class Author:
    """A key pair: the half to trust, and how to sign with the other, directly or through git."""

    name: str
    public: bytes
    key: SigningKey

    def sign(self, payload: bytes, *, namespace: str = "git", digest: str = "") -> bytes:
        """Make a detached signature."""
        if self.key.format == "openpgp":
            return gpg.run(
                Path(self.key.environment["GNUPGHOME"]),
                *("--armor", "--local-user", self.key.key, "--detach-sign"),
                stdin=payload,
                at=_DATES.get(self.name.partition("-")[0], ""),
            )
        option = ["-O", f"hashalg={digest}"] if digest else []
        return subprocess.run(
            ["ssh-keygen", "-Y", "sign", "-n", namespace, *option, "-f", self.key.key],
            input=payload,
            capture_output=True,
            check=True,
        ).stdout


@contextmanager
def authors(directory: Path) -> Iterator[dict[str, Author]]:
    """Make all authors below a directory; gpg's agent ends with the context."""
    # The agent's socket has to fit into 107 characters.
    with TemporaryDirectory(prefix="gpg-") as home:
        try:
            made = {author.name: author for author in _openpgp(Path(home))}
            yield made | ssh_authors(directory)
        finally:
            subprocess.run(
                ["gpgconf", "--kill", "all"], env=os.environ | {"GNUPGHOME": home}, check=True
            )


def ssh_authors(directory: Path) -> dict[str, Author]:
    """Make those authors whose keys are SSH keys."""
    return {kind[0]: _ssh(directory, *kind) for kind in _SSH_KINDS}


_DATES = {"expired": LONG_AGO, "retired": LONG_AGO, "future": FAR_AHEAD}
"""When authors sign whose keys are no good today: by the first word of their names."""

_SSH_KINDS = (
    ("ssh-ed25519", "ed25519", "256"),
    ("ssh-stranger", "ed25519", "256"),
    ("ssh-ecdsa-256", "ecdsa", "256"),
    ("ssh-ecdsa-384", "ecdsa", "384"),
    ("ssh-ecdsa-521", "ecdsa", "521"),
    ("ssh-rsa", "rsa", "3072"),
    ("ssh-rsa-1024", "rsa", "1024"),
)


def _ssh(directory: Path, name: str, kind: str, bits: str) -> Author:
    path = directory / name
    subprocess.run(
        [
            *("ssh-keygen", "-q", "-t", kind, "-b", bits, "-N", ""),
            *("-C", f"{name}@example.org", "-f", str(path)),
        ],
        check=True,
    )
    public = path.with_name(f"{name}.pub").read_bytes()
    return Author(name=name, public=public, key=SigningKey(format="ssh", key=str(path)))


def _openpgp(home: Path) -> Iterator[Author]:
    for name, kind, at, life in (
        ("ed25519", "ed25519", "", "never"),
        ("rsa", "rsa3072", "", "never"),
        ("stranger", "ed25519", "", "never"),
        ("revoked", "ed25519", "", "never"),
        ("expired", "ed25519", LONG_AGO, "1y"),
        # What Sequoia does not know, or its policy does not take.
        ("brainpool", "brainpoolP256r1", "", "never"),
        ("sha1", "rsa2048", "", "never"),
        ("future", "ed25519", FAR_AHEAD, "never"),
    ):
        user = f"{name} <{name}@example.org>"
        gpg.run(
            home,
            *(("--cert-digest-algo", "SHA1") if name == "sha1" else ()),
            *("--passphrase", "", "--quick-generate-key", user, kind, "sign", life),
            at=at,
        )
        fingerprint = gpg.fingerprint(home, name)
        key = SigningKey(format="openpgp", key=fingerprint, environment={"GNUPGHOME": str(home)})
        public = gpg.run(home, "--armor", "--export", fingerprint)
        if name == "revoked":
            public = _revoke(home, fingerprint, public)
        yield Author(name=name, public=public, key=key)
    yield _with_subkey(home, "expired-subkey", life="1y")
    retired = _with_subkey(home, "retired-subkey", life="never")
    yield replace(retired, public=_retire(home, retired.key.key, "key 1", "revkey"))
    before = _with_subkey(home, "retired-primary", life="never")
    yield replace(before, public=_retire(home, before.key.key, "revkey"))


def _with_subkey(home: Path, name: str, *, life: str) -> Author:
    """Make a key that does not end, with a signing subkey that lives as long as is said."""
    user = f"{name} <{name}@example.org>"
    nothing = ("--passphrase", "")
    gpg.run(home, *nothing, "--quick-generate-key", user, "ed25519", "cert", "never", at=LONG_AGO)
    fingerprint = gpg.fingerprint(home, name)
    gpg.run(home, *nothing, "--quick-add-key", fingerprint, "ed25519", "sign", life, at=LONG_AGO)
    key = SigningKey(format="openpgp", key=fingerprint, environment={"GNUPGHOME": str(home)})
    public = gpg.run(home, "--armor", "--export", fingerprint)
    return Author(name=name, public=public, key=key)


def _retire(home: Path, fingerprint: str, *edits: str) -> bytes:
    """Return the public key after edits that revoke, today, because it is superseded."""
    superseded, reason = "2", "another took its place"
    answers = f"y\n{superseded}\n{reason}\n\ny\n"
    with TemporaryDirectory(prefix="gpg-") as other:
        shutil.copytree(home, other, dirs_exist_ok=True, ignore=shutil.ignore_patterns("S.*"))
        gpg.run(
            Path(other),
            *("--command-fd", "0", "--passphrase", "", "--edit-key", fingerprint, *edits, "save"),
            stdin=answers.encode(),
        )
        retired = gpg.run(Path(other), "--armor", "--export", fingerprint)
        subprocess.run(
            ["gpgconf", "--kill", "all"], env=os.environ | {"GNUPGHOME": other}, check=True
        )
    return retired


def _revoke(home: Path, fingerprint: str, public: bytes) -> bytes:
    """Return the public key with its revocation; the keyring here keeps it usable."""
    # gpg puts a colon before the armour so that nobody imports it by mistake.
    text = (home / "openpgp-revocs.d" / f"{fingerprint}.rev").read_text().replace(":-----", "-----")
    with TemporaryDirectory(prefix="gpg-") as other:
        gpg.run(Path(other), "--import", stdin=public)
        gpg.run(Path(other), "--import", stdin=text[text.index("-----BEGIN") :].encode())
        revoked = gpg.run(Path(other), "--armor", "--export", fingerprint)
        subprocess.run(
            ["gpgconf", "--kill", "all"], env=os.environ | {"GNUPGHOME": other}, check=True
        )
    return revoked


if __name__ == "__main__":
    target = Path(sys.argv[1])
    with authors(target) as made:
        for author in made.values():
            suffix = "sshpub" if author.key.format == "ssh" else "asc"
            (target / f"{author.name}.{suffix}").write_bytes(author.public)
