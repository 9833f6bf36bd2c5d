"""Credentials for a Git server, read from a Secret as Flux users write it.

Nothing here talks to a server or a cluster: bytes in, a value out. The value's ``repr`` shows
which kinds of credentials it has, never their content.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from toolkit.remote import proxy
from toolkit.remote.errors import AuthError
from toolkit.remote.git.errors import GitAuthError
from toolkit.remote.git.url import GitUrl, Scheme
from toolkit.remote.proxy import Proxy
from toolkit.remote.ssh import knownhosts
from toolkit.remote.ssh.knownhosts import KnownHosts

__all__ = ["GitAuth", "Proxy", "Scheme"]


@dataclass(frozen=True, slots=True, kw_only=True)
class GitAuth:
    """Credentials, and data to verify the server. Keys and certificates are PEM."""

    username: str | None = None
    password: str | None = field(default=None, repr=False)
    bearer_token: str | None = field(default=None, repr=False)
    identity: bytes | None = field(default=None, repr=False)
    passphrase: str | None = field(default=None, repr=False)
    known_hosts: bytes | None = field(default=None, repr=False)
    ca: bytes | None = field(default=None, repr=False)
    client_cert: bytes | None = field(default=None, repr=False)
    client_key: bytes | None = field(default=None, repr=False)
    proxy: Proxy | None = None

    @classmethod
    def from_secret(cls, data: Mapping[str, bytes], *, scheme: Scheme) -> "GitAuth":
        """Read the keys that count for the URL's scheme (Flux: ``spec.secretRef``).

        Raises:
            GitAuthError: keys are missing, contradict each other or are not text.

        """
        return _ssh(data) if scheme == "ssh" else _https(data)

    def hosts(self) -> KnownHosts:
        """Return which keys servers may show over SSH.

        Raises:
            GitAuthError: ``known_hosts`` cannot be used.

        """
        try:
            return knownhosts.read(self.known_hosts or b"")
        except ValueError as exc:
            raise GitAuthError(f"the secret is invalid: {exc}") from exc

    def through(self, way: Proxy | None) -> "GitAuth":
        """Return the same credentials, used through a proxy."""
        return replace(self, proxy=way)

    def for_url(self, url: GitUrl, *, top: GitUrl) -> "GitAuth":
        """Return the credentials given for ``top`` that may be sent to ``url``.

        Another origin gets none of them; the proxy stays.
        """
        return self if url.origin == top.origin else GitAuth(proxy=self.proxy)


def _ssh(data: Mapping[str, bytes]) -> GitAuth:
    identity, known_hosts = data.get("identity"), data.get("known_hosts")
    if not identity:
        raise GitAuthError("the secret needs 'identity', a private key, for a repository over ssh")
    if not known_hosts or not known_hosts.strip():
        raise GitAuthError(
            "the secret needs 'known_hosts', the server's public keys, for a repository over ssh: "
            "take the output of ssh-keyscan, and compare it with what the host publishes"
        )
    return GitAuth(identity=identity, passphrase=_text(data, "password"), known_hosts=known_hosts)


def _https(data: Mapping[str, bytes]) -> GitAuth:
    username, password = _text(data, "username"), _text(data, "password")
    bearer_token = _text(data, "bearerToken")
    if (username is None) != (password is None):
        missing, present = (
            ("username", "password") if username is None else ("password", "username")
        )
        raise GitAuthError(f"the secret has '{present}' but not '{missing}': set both or none")
    if bearer_token is not None and username is not None:
        raise GitAuthError("the secret has both 'bearerToken' and 'username': set only one of them")
    client_cert, client_key = data.get("tls.crt"), data.get("tls.key")
    if bool(client_cert) != bool(client_key):
        raise GitAuthError(
            "the secret has only one of 'tls.crt' and 'tls.key': a client certificate needs both"
        )
    return GitAuth(
        username=username,
        password=password,
        bearer_token=bearer_token,
        ca=data.get("ca.crt") or data.get("caFile") or None,
        client_cert=client_cert or None,
        client_key=client_key or None,
    )


def _text(data: Mapping[str, bytes], key: str) -> str | None:
    try:
        return proxy.text(data, key)
    except AuthError as exc:
        raise GitAuthError(str(exc)) from exc
