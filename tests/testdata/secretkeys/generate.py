"""Make OpenPGP keys to decrypt with, and messages for them, with the real gpg.

Tests make them anew in every run. To look at them, or to use them by hand: ``python -m
tests.testdata.secretkeys.generate <empty directory>``.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.tools import gpg

LONG_AGO = "20200301T120000"

RECIPE = """
%no-protection
Key-Type: 1
Key-Length: 2048
Subkey-Type: 1
Subkey-Length: 2048
Expire-Date: 0
Name-Real: recipe
Name-Email: recipe@example.org
%commit
"""
"""As Flux's guide to SOPS makes keys: the primary key may encrypt, too ([SCEA] with [SEA])."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyPair:
    """What a Secret holds of a key, and its key ring, which encrypts for it."""

    name: str
    fingerprint: str
    secret: bytes
    public: bytes
    home: Path

    def encrypt(self, plain: bytes, *options: str) -> str:
        """Return an armoured message for the key."""
        return gpg.run(
            self.home,
            *("--armor", "--trust-model", "always", *options),
            *("--recipient", self.fingerprint, "--encrypt"),
            stdin=plain,
            at=LONG_AGO if self.name == "expired" else "",
        ).decode()


@contextmanager
def key_pairs() -> Iterator[dict[str, KeyPair]]:
    """Make all keys; gpg's agent ends with the context."""
    # The agent's socket has to fit into 107 characters.
    with TemporaryDirectory(prefix="gpg-") as directory:
        home = Path(directory)
        try:
            gpg.run(home, "--full-generate-key", stdin=RECIPE.encode())
            _make(home, "curve25519", "ed25519", "cv25519")
            _make(home, "brainpool", "brainpoolP256r1", "brainpoolP256r1")
            _make(home, "expired", "ed25519", "cv25519", at=LONG_AGO, life="1y")
            _make(home, "protected", "ed25519", "cv25519", passphrase="correct horse")  # of a test
            names = ("recipe", "curve25519", "brainpool", "expired", "protected")
            made = {name: _pair(home, name) for name in names}
            made["subkeys"] = _pair(home, "recipe", export="--export-secret-subkeys")
            yield made
        finally:
            subprocess.run(
                ["gpgconf", "--kill", "all"], env=os.environ | {"GNUPGHOME": directory}, check=True
            )


def _make(  # what gpg asks for
    home: Path,
    name: str,
    primary: str,
    subkey: str,
    *,
    at: str = "",
    life: str = "never",
    passphrase: str = "",
) -> None:
    owner, secret = f"{name} <{name}@example.org>", ("--passphrase", passphrase)
    gpg.run(home, *secret, "--quick-generate-key", owner, primary, "sign", life, at=at)
    fingerprint = gpg.fingerprint(home, name)
    gpg.run(home, *secret, "--quick-add-key", fingerprint, subkey, "encrypt", life, at=at)


def _pair(home: Path, name: str, *, export: str = "--export-secret-keys") -> KeyPair:
    fingerprint = gpg.fingerprint(home, name)
    passphrase = "correct horse" if name == "protected" else ""
    return KeyPair(
        name=name,
        fingerprint=fingerprint,
        secret=gpg.run(home, "--passphrase", passphrase, "--armor", export, fingerprint),
        public=gpg.run(home, "--armor", "--export", fingerprint),
        home=home,
    )


if __name__ == "__main__":
    target = Path(sys.argv[1])
    with key_pairs() as made:
        for title, pair in made.items():
            (target / f"{title}.asc").write_bytes(pair.secret)
