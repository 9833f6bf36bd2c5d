"""Access to a repository: credentials for the push, and those for the cluster.

The keys of an SSH host are never taken from its own answer: they come from a file, from the Secret
of an earlier run, or from the API of a service with a TLS certificate.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from cli import errors
from cli.creating import keypairs
from toolkit.remote.git.auth import GitAuth
from toolkit.remote.git.url import GitUrl

IDENTITY: Final = "identity"
PUBLIC: Final = "identity.pub"
KNOWN_HOSTS: Final = "known_hosts"
CA: Final = "ca.crt"
_REMEDIES: Final = {
    False: "name a user who may push with --username and GIT_PASSWORD, a host's authority with "
    "--ca-file",
    True: "name a key that may push with --private-key-file, the host's keys with "
    "--known-hosts-file",
}
"""By whether it is over SSH."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """URL and credentials for the push, URL for the cluster, and the Secret for it.

    ``remedy`` is the remedy if the push is refused.
    """

    push_url: str
    push: GitAuth
    sync_url: str
    secret: Mapping[str, bytes] = field(repr=False)
    remedy: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """The flags for a repository's credentials; ``password`` decrypts a key over SSH.

    With ``bearer``, the password is a bearer token over HTTP. ``key`` are the arguments of
    ``keypairs.pair``.
    """

    username: str = ""
    password: str = field(default="", repr=False)
    bearer: bool = False
    private_key: bytes = field(default=b"", repr=False)
    key: Mapping[str, Any] = field(default_factory=dict, repr=False)
    known_hosts: bytes = b""
    ca: bytes = b""
    plain_http: bool = False


Added = Callable[[str], bool]
"""Asks whether a public key has been added to the repository."""


def of_repository(url: str, given: Given, earlier: Mapping[str, bytes], added: Added) -> Access:
    """Return the access to an existing repository; ``earlier`` is the data of the Secret.

    Raises:
        UsageError: a flag is missing, or credentials would be sent without encryption.
    """
    parsed = GitUrl.parse(url)
    if parsed.password is not None or (parsed.username is not None and parsed.scheme != "ssh"):
        raise errors.UsageError(
            "--url: credentials in a URL would be committed: give --username and GIT_PASSWORD"
        )
    secret = _ssh(parsed, given, earlier, added) if parsed.scheme == "ssh" else _http(parsed, given)
    auth = GitAuth.from_secret(secret, scheme=parsed.scheme)
    remedy = _REMEDIES[parsed.scheme == "ssh"]
    return Access(push_url=url, push=auth, sync_url=url, secret=secret, remedy=remedy)


def deploy_key(earlier: Mapping[str, bytes], key: Mapping[str, Any]) -> tuple[bytes, bytes]:
    """Return the private and the public key: those of a file, of an earlier run, or new ones.

    Raises:
        UsageError: the file holds no key, or one that a password opens.
    """
    if not key.get("private_key_file") and earlier.get(IDENTITY) and earlier.get(PUBLIC):
        return earlier[IDENTITY], earlier[PUBLIC]
    private, public = keypairs.pair(key)
    return private.encode(), public.strip().encode()


def require_known_hosts(given: bytes, earlier: Mapping[str, bytes], host: str) -> bytes:
    """Return the host keys to accept.

    Raises:
        UsageError: no source of host keys is given.
    """
    known = given or earlier.get(KNOWN_HOSTS, b"")
    if not known:
        raise errors.UsageError(
            f"the SSH keys of {host} are not known: write them into a file with "
            f"`ssh-keyscan {host}`, compare them with what the host publishes, and name the file "
            "with --known-hosts-file"
        )
    return known


def _http(url: GitUrl, given: Given) -> dict[str, bytes]:
    if given.bearer and (given.username or not given.password):
        raise errors.UsageError(
            "--with-bearer-token takes the token from --password or GIT_PASSWORD, and no --username"
        )
    if not given.bearer and bool(given.username) != bool(given.password):
        raise errors.UsageError(
            "--username and --password (or GIT_PASSWORD) are needed together for a repository "
            "over HTTP"
        )
    if given.password and url.scheme == "http" and not given.plain_http:
        raise errors.UsageError(
            f"'{url}' has no TLS, so others on the network could read the password: use https, "
            "or use --allow-insecure-http"
        )
    named = {
        "username": given.username.encode(),
        "bearerToken" if given.bearer else "password": given.password.encode(),
        CA: given.ca,
    }
    return {key: value for key, value in named.items() if value}


def _ssh(url: GitUrl, given: Given, earlier: Mapping[str, bytes], added: Added) -> dict[str, bytes]:
    host = url.host if url.port == 22 else f"-p {url.port} {url.host}"
    known = require_known_hosts(given.known_hosts, earlier, host)
    if given.private_key:
        secret = {IDENTITY: given.private_key, KNOWN_HOSTS: known}
        if given.password:
            secret["password"] = given.password.encode()
        return secret
    if earlier.get(IDENTITY):
        return {**earlier, KNOWN_HOSTS: known}
    private, public = deploy_key({}, given.key)
    if not added(public.decode()):
        raise errors.UsageError(
            "the key was not added: give one that the repository accepts with --private-key-file"
        )
    return {IDENTITY: private, PUBLIC: public, KNOWN_HOSTS: known}
