"""Make the golden documents with the real sops, gpg and ssh-keygen.

``PYTHONPATH=. python tests/conformance/sops/regenerate.py [--keys]`` with ``sops`` 3.13 on the PATH
(``go install github.com/getsops/sops/v3/cmd/sops@v3.13.3``). Ciphertext differs from run to run;
plain files and names of the cases do not. ``--keys`` makes new keys too.
"""

import datetime as dt
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pyrage

from toolkit.decrypt import seal

HERE = Path(__file__).parent
KEYS = HERE / "keys"
AGE = ("first", "second", "third")
SEALED = "sealed.yaml"
GROUPS = {"yaml": "secret.yaml", "json": "values.json", "env": "app.env", "ini": "app.ini"}

CASES: dict[str, tuple[str, dict[str, Any]]] = {
    # name of the case: (plain file, creation rule beside the recipients)
    "secret.yaml": ("secret.yaml", {"encrypted_regex": "^(data|stringData)$"}),
    "scalars.yaml": ("scalars.yaml", {}),
    "scalars-plain.yaml": ("scalars.yaml", {"encrypted_suffix": "_none"}),
    "scalars-mac-only.yaml": (
        "scalars.yaml",
        {"encrypted_regex": "^(numbers|times)$", "mac_only_encrypted": True},
    ),
    "stream.yaml": ("stream.yaml", {}),
    "stream-regex.yaml": ("stream.yaml", {"unencrypted_regex": "^(apiVersion|kind|metadata)$"}),
    "commented-encrypted.yaml": ("commented.yaml", {"encrypted_comment_regex": "sops:enc"}),
    "commented-unencrypted.yaml": ("commented.yaml", {"unencrypted_comment_regex": "sops:enc"}),
    "commented-mac-only.yaml": (
        "commented.yaml",
        {"encrypted_comment_regex": "sops:enc", "mac_only_encrypted": True},
    ),
    "suffix-default.yaml": ("suffixes.yaml", {}),
    "suffix-encrypted.yaml": ("suffixes.yaml", {"encrypted_suffix": "_enc"}),
    "suffix-unencrypted.yaml": ("suffixes.yaml", {"unencrypted_suffix": "user"}),
    "values.json": ("values.json", {}),
    "values-regex.json": ("values.json", {"encrypted_regex": "^(text|nested|integer)$"}),
    "userdata.yaml": ("userdata.yaml", {}),
    "userdata-plain.yaml": ("userdata.yaml", {"encrypted_suffix": "_none"}),
    "userdata-comments.yaml": ("userdata.yaml", {"encrypted_comment_regex": "head|line"}),
    "blocks.yaml": ("blocks.yaml", {}),
    "numbers.json": ("numbers.json", {}),
    "app.env": ("app.env", {}),
    "app-mac-only.env": ("app.env", {"encrypted_regex": "PASS", "mac_only_encrypted": True}),
    "app.ini": ("app.ini", {}),
    "app-regex.ini": ("app.ini", {"encrypted_regex": "^(mail|port|text)$"}),
    "blob.bin": ("blob.bin", {}),
    "note.txt": ("note.txt", {}),
}


def make_keys() -> None:
    """Make age identities, an SSH key and an OpenPGP key without a passphrase."""
    shutil.rmtree(KEYS, ignore_errors=True)
    KEYS.mkdir()
    for name in AGE:
        identity = pyrage.x25519.Identity.generate()
        text = f"# public key: {identity.to_public()}\n{identity}\n"
        (KEYS / f"{name}.agekey").write_text(text)
    ssh = KEYS / "ssh.agekey"
    run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "golden", "-f", str(ssh))
    with tempfile.TemporaryDirectory() as home:
        gpg = ("gpg", "--homedir", home, "--batch", "--quiet", "--passphrase", "")
        run(
            *gpg, "--quick-generate-key", "Golden <golden@example.test>", "rsa2048", "sign", "never"
        )
        fingerprint = fingerprint_of(home)
        run(*gpg, "--quick-add-key", fingerprint, "rsa2048", "encrypt", "never")
        secret = run(*gpg, "--armor", "--export-secret-keys", fingerprint)
        (KEYS / "golden.asc").write_bytes(secret)


def make_documents(home: str) -> None:
    """Encrypt every case, and let sops itself say what it decrypts to."""
    first, second = public("first"), public("second")
    for case, (plain, rule) in CASES.items():
        encrypt(case, plain, {"age": first, **rule}, home)
    pgp = fingerprint_of(home)
    encrypt("key-pgp.yaml", "secret.yaml", {"pgp": pgp}, home)
    encrypt("key-several.yaml", "secret.yaml", {"pgp": pgp, "age": f"{second},{first}"}, home)
    ssh = (KEYS / "ssh.agekey.pub").read_text().strip()
    encrypt("key-ssh.yaml", "secret.yaml", {"age": ssh}, home)
    groups = [{"age": [first]}, {"age": [second]}, {"pgp": [pgp]}]
    shamir = {"shamir_threshold": 2, "key_groups": groups}
    for suffix, plain in GROUPS.items():
        encrypt(f"groups.{suffix}", plain, shamir, home)


def make_sealed(home: str) -> None:
    """Have sops decrypt, MAC and all, what ``penstock seal`` writes."""
    plain = (HERE / "plain" / SEALED).read_bytes()
    path = HERE / "encrypted" / "sealed.yaml"
    path.write_bytes(seal.seal(plain, [public("first")], now=dt.datetime.now(dt.UTC)))
    decrypted = run("sops", "decrypt", str(path), home=home)
    (HERE / "decrypted" / path.name).write_bytes(decrypted)


def encrypt(case: str, plain: str, rule: dict[str, Any], home: str) -> None:
    """Write ``encrypted/<case>``, and ``decrypted/<case>`` as sops sees it."""
    config = Path(home) / "sops.json"
    config.write_text(json.dumps({"creation_rules": [rule]}))
    source = str(HERE / "plain" / plain)
    encrypted = HERE / "encrypted" / case
    encrypted.write_bytes(run("sops", "--config", str(config), "encrypt", source, home=home))
    decrypted = run("sops", "decrypt", str(encrypted), home=home)
    (HERE / "decrypted" / case).write_bytes(decrypted)


def public(name: str) -> str:
    """Return the recipient of an age identity."""
    return (KEYS / f"{name}.agekey").read_text().split()[3]


def fingerprint_of(home: str) -> str:
    """Return the fingerprint of the only primary key in the key ring at ``home``."""
    listing = run("gpg", "--homedir", home, "--batch", "--list-keys", "--with-colons").decode()
    return next(line.split(":")[9] for line in listing.splitlines() if line.startswith("fpr"))


def run(*command: str, home: str = "") -> bytes:
    """Run a tool with the golden keys and nothing else of the environment."""
    identities = "\n".join((KEYS / f"{name}.agekey").read_text() for name in AGE if home)
    environment = {
        "PATH": os.environ["PATH"],
        "GNUPGHOME": home,
        "HOME": home or "/nonexistent",
        "SOPS_AGE_KEY": identities,
        "SOPS_AGE_SSH_PRIVATE_KEY_FILE": str(KEYS / "ssh.agekey"),
    }
    return subprocess.run(command, check=True, capture_output=True, env=environment).stdout


def main() -> None:
    """Make everything below this folder but the plain files."""
    if "--keys" in sys.argv:
        make_keys()
    for folder in ("encrypted", "decrypted"):
        shutil.rmtree(HERE / folder, ignore_errors=True)
        (HERE / folder).mkdir()
    with tempfile.TemporaryDirectory() as home:
        run("gpg", "--homedir", home, "--batch", "--import", str(KEYS / "golden.asc"))
        make_documents(home)
        make_sealed(home)


if __name__ == "__main__":
    main()
