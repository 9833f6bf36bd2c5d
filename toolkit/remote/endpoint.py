"""Authentication between a client and a server, for all protocols."""

from dataclasses import dataclass, field, replace

from toolkit.remote.errors import AuthError
from toolkit.remote.proxy import Proxy, basic


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """Credentials for a server, certificates to verify it, and the proxy. Certificates are PEM.

    - ``identity_token`` is for a registry's token service, which exchanges it for tokens.
    - ``plain_http`` allows a server without TLS.
    - ``private`` allows servers and proxies at private addresses.
    - ``node`` is only for the node's metadata service, which users cannot name and which no proxy
      serves.
    """

    username: str | None = None
    password: str | None = field(default=None, repr=False)
    bearer_token: str | None = field(default=None, repr=False)
    identity_token: str | None = field(default=None, repr=False)
    ca: bytes | None = field(default=None, repr=False)
    client_cert: bytes | None = field(default=None, repr=False)
    client_key: bytes | None = field(default=None, repr=False)
    proxy: Proxy | None = None
    pass_credentials: bool = False
    plain_http: bool = False
    node: bool = False
    private: bool = True

    @property
    def authorization(self) -> str | None:
        """Return the value of the ``Authorization`` header.

        Raises:
            AuthError: the token is not valid in a header.
        """
        if self.bearer_token is not None:
            if not self.bearer_token.isascii() or not self.bearer_token.isprintable():
                raise AuthError("the bearer token has characters that no header can carry")
            return f"Bearer {self.bearer_token}"
        return None if self.username is None else basic(self.username, self.password)

    def anonymous(self) -> "Endpoint":
        """Return the endpoint for another server: without credentials, with CA and proxy."""
        return Endpoint(
            ca=self.ca, proxy=self.proxy, plain_http=self.plain_http, private=self.private
        )

    def without_login(self) -> "Endpoint":
        """Return the same without name, password and tokens."""
        return replace(self, username=None, password=None, bearer_token=None, identity_token=None)
