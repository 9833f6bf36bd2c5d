"""Credentials for Git: user and password over HTTP, a key and the host's keys over SSH.

A host is never trusted because it answered: unlike ``flux`` this takes its keys from a file.
"""

from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from cli import errors, progress
from cli.creating.flags import Values
from toolkit.remote.git.errors import GitSpecError
from toolkit.remote.git.url import GitUrl, url_of

SCHEMES: Final = ("ssh", "http", "https")


def require_scheme(url: str) -> str:
    """Return the scheme of a repository's address.

    Raises:
        UsageError: Git cannot be fetched over this scheme.
    """
    scheme = urlsplit(url).scheme
    if scheme not in SCHEMES:
        meant = url_of(url)
        remedy = f"write {meant}" if meant else "use ssh, http or https"
        raise errors.UsageError(f"--url: scheme {scheme!r} is not supported: {remedy}")
    try:
        return GitUrl.parse(url).scheme
    except GitSpecError as exc:
        raise errors.UsageError(f"--url: {exc}") from exc


def read(values: Values, key: str) -> str:
    """Return the content of the file that a flag names; empty without the flag.

    Raises:
        UsageError: the file cannot be read as text.
    """
    name = values.get(key)
    if not name:
        return ""
    try:
        return Path(str(name)).read_text()
    except (OSError, UnicodeError) as exc:
        why = exc.strerror if isinstance(exc, OSError) else "it is not text"
        raise errors.UsageError(f"--{key.replace('_', '-')}: cannot read {name}: {why}") from exc


def tls(values: Values) -> dict[str, str]:
    """Return authorities, certificate and key under the names that Secrets have for them.

    Raises:
        UsageError: there is a certificate without its key, or a key without its certificate.
    """
    if bool(values.get("cert_file")) != bool(values.get("key_file")):
        raise errors.UsageError("--cert-file and --key-file are needed together")
    named = {"ca.crt": "ca_file", "tls.crt": "cert_file", "tls.key": "key_file"}
    found = {entry: read(values, key) for entry, key in named.items()}
    return {entry: text for entry, text in found.items() if text}


def basic(values: Values) -> dict[str, str]:
    """Return user and password.

    Raises:
        UsageError: there is one without the other.
    """
    if bool(values.get("username")) != bool(values.get("password")):
        raise errors.UsageError("--username and --password are needed together")
    return {key: str(values[key]) for key in ("username", "password") if values.get(key)}


def git(values: Values) -> dict[str, str]:
    """Return the credentials for the repository at ``--url``; over SSH a key is made.

    Raises:
        UsageError: something is missing, or does not go together.
    """
    if require_scheme(values["url"]) != "ssh":
        return _http(values)
    if values.get("ca_file"):
        raise errors.UsageError("--ca-file does not go with SSH; name the keys of the host")
    host = urlsplit(values["url"]).hostname
    known = read(values, "known_hosts_file")
    if not known:
        raise errors.UsageError(
            f"the SSH keys of {host} are not known: write them into a file with "
            f"`ssh-keyscan {host}`, compare them with what the host publishes, and name the file "
            "with --known-hosts-file"
        )
    private, public = pair(values)
    found = {"identity": private, "identity.pub": public, "known_hosts": known}
    if values.get("password") and values.get("private_key_file"):
        found["password"] = values["password"]
    progress.action(f"deploy key: {public.strip()}")
    return found


def _http(values: Values) -> dict[str, str]:
    found = basic(values)
    if values.get("bearer_token"):
        if found:
            raise errors.UsageError("--bearer-token replaces --username and --password")
        found["bearerToken"] = values["bearer_token"]
    if authority := read(values, "ca_file"):
        found["ca.crt"] = authority
    return found


def pair(values: Values) -> tuple[str, str]:
    """Return the given or a new private key, and its public key.

    Raises:
        UsageError: the file has no key, or needs another password.
    """
    # Other `create` commands do not need cryptography.
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415

    given = read(values, "private_key_file")
    password = str(values.get("password") or "").encode() or None
    try:
        key: Any = (
            serialization.load_ssh_private_key(given.encode(), password)
            if "OPENSSH" in given
            else serialization.load_pem_private_key(given.encode(), password)
            if given
            else _made(values)
        )
    except (ValueError, TypeError) as exc:
        raise errors.UsageError(
            f"--private-key-file: {values['private_key_file']} holds no SSH key that --password "
            "opens"
        ) from exc
    private = (
        given
        or key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.OpenSSH,
            serialization.NoEncryption(),
        ).decode()
    )
    public = key.public_key().public_bytes(
        serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
    )
    return private, public.decode() + "\n"


def _made(values: Values) -> Any:
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa  # noqa: PLC0415 - as above

    curves = {"p256": ec.SECP256R1(), "p384": ec.SECP384R1(), "p521": ec.SECP521R1()}
    makers: dict[str, Any] = {
        "ed25519": ed25519.Ed25519PrivateKey.generate,
        "ecdsa": lambda: ec.generate_private_key(curves[values["ssh_ecdsa_curve"]]),
        "rsa": lambda: rsa.generate_private_key(65537, values["ssh_rsa_bits"]),
    }
    return makers[values.get("ssh_key_algorithm") or "ed25519"]()
