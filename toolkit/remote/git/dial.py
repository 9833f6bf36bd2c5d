"""Connections to Git servers: allowed addresses, and the proxy."""

import socket
from dataclasses import dataclass

from toolkit.remote import dialling, tunnel
from toolkit.remote.dialling import Known, Reach
from toolkit.remote.errors import AuthError, HttpError
from toolkit.remote.git.errors import GitAuthError, GitError
from toolkit.remote.proxy import Proxy


@dataclass(slots=True, kw_only=True)
class Dial:
    """Opens the connections of one repository; ``reach`` may become narrower after a redirect.

    ``known`` is shared by all repositories of a checkout. With a proxy, the proxy resolves names.
    """

    reach: Reach
    known: Known
    proxy: Proxy | None

    def __call__(self, host: str, port: int, *, timeout: float) -> socket.socket:
        """Connect to a server, all within ``timeout`` seconds.

        Raises:
            OSError: it cannot be reached, or may not be (``OutOfReachError``).
            GitError: the proxy cannot be reached or does not connect.
            GitAuthError: the proxy requires valid credentials.
        """
        self.require(host)
        if self.proxy is None:
            return dialling.connect(
                (host, port), timeout=timeout, reach=self.reach, known=self.known
            )
        try:
            return tunnel.connect(self.proxy, host, port, timeout=timeout)
        except AuthError as exc:
            raise GitAuthError(str(exc)) from exc
        except HttpError as exc:
            raise GitError(str(exc)) from exc

    def require(self, host: str) -> None:
        """Refuse an address that is not within reach, also where a proxy would dial it.

        Raises:
            GitError: it is not.
        """
        if not dialling.literal_within(host, self.reach):
            raise GitError(f"'{host}' is {dialling.out_of(self.reach)}, which is not allowed")

    def lead(self, origin: str, target: str) -> None:
        """Go on to where a server leads: a redirect, or a repository that names another.

        Raises:
            GitError: it leads out of reach.
        """
        self.reach = max(self.reach, self.known.reach(origin, target))
        self.require(target)
