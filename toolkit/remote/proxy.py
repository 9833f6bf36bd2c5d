"""Proxies to reach servers through: from a Secret, or from the operator's environment.

``http`` and ``tunnel`` open the connections.
"""

import os
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from toolkit.remote.errors import AuthError

DEFAULT_PORTS: Final = {"http": 80, "https": 443, "socks5": 1080}


@dataclass(frozen=True, slots=True, kw_only=True)
class Proxy:
    """A proxy to reach the server through: ``http://``, ``https://`` or ``socks5://``."""

    address: str
    username: str | None = None
    password: str | None = field(default=None, repr=False)

    @classmethod
    def from_secret(cls, data: Mapping[str, bytes]) -> "Proxy":
        """Read ``address``, ``username`` and ``password`` (Flux: ``spec.proxySecretRef``).

        Raises:
            AuthError: the address is missing or of a kind that is not spoken here.

        """
        address = text(data, "address")
        scheme, separator, host = (address or "").partition("://")
        if not address or not separator or not host or scheme not in DEFAULT_PORTS:
            allowed = ", ".join(f"{name}://" for name in DEFAULT_PORTS)
            raise AuthError(f"the proxy secret needs 'address', a URL with one of {allowed}")
        return cls(
            address=address, username=text(data, "username"), password=text(data, "password")
        )

    @property
    def endpoint(self) -> tuple[str, tuple[str, int]]:
        """Return the proxy's scheme and where it listens.

        Raises:
            AuthError: the address is not a URL.

        """
        try:
            parts = urlsplit(self.address)
            port = parts.port or DEFAULT_PORTS[parts.scheme]
        except (ValueError, KeyError) as exc:
            raise AuthError("the proxy's address is not a URL") from exc
        return parts.scheme, (parts.hostname or "", port)

    @property
    def authorization(self) -> str | None:
        """Return the value of ``Proxy-Authorization``, if the proxy wants a login."""
        return None if self.username is None else basic(self.username, self.password)


def from_environment(scheme: str, host: str, port: int) -> Proxy | None:
    """Return the proxy that the operator set for the process and such a server.

    ``HTTPS_PROXY``, ``HTTP_PROXY`` and ``NO_PROXY`` count.
    """
    # Checked first, because `getproxies` reads the whole environment.
    name = f"{scheme}_proxy"
    if not (os.environ.get(name) or os.environ.get(name.upper())):
        return None
    address = getproxies().get(scheme)
    if not address or proxy_bypass(f"{host}:{port}"):
        return None
    parts = urlsplit(address if "://" in address else f"http://{address}")
    place = parts.netloc.rpartition("@")[2]
    return Proxy(
        address=f"{parts.scheme}://{place}", username=parts.username, password=parts.password
    )


def basic(username: str, password: str | None) -> str:
    """Return the value of a Basic authorization header (RFC 7617)."""
    return "Basic " + b64encode(f"{username}:{password or ''}".encode()).decode()


def text(data: Mapping[str, bytes], key: str) -> str | None:
    """Return one line of text from a Secret; None if it is empty.

    Raises:
        AuthError: it is not one line of UTF-8.
    """
    value = data.get(key)
    if not value:
        return None
    try:
        line = value.decode().rstrip("\r\n")  # Editors and `echo` add a line break.
    except UnicodeDecodeError as exc:
        raise AuthError(f"'{key}' in the secret is not UTF-8 text") from exc
    if any(character in line for character in "\r\n\0"):
        raise AuthError(f"'{key}' in the secret has more than one line")
    return line or None
