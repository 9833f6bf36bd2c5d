"""What can go wrong between us and a server, for all protocols on top of HTTP.

::

    TransientError
    └── HttpError        Failed: no answer, a malformed answer, or a status
        └── AuthError    AuthenticationFailed: credentials, or the identity of the server

Messages name the URL without query and user information: those may hold signatures and passwords.
"""

from typing import ClassVar

from toolkit.errors import TransientError


class HttpError(TransientError):
    """A request failed.

    - ``status`` is 0 without an answer. ``origin`` is the server that answered; after a redirect it
      is another one.
    - ``retry_after`` is in seconds, if the server stated it.
    - ``challenges`` are the values of ``WWW-Authenticate``.
    - ``code`` is a registry's code of the error, if it is a plain word.
    """

    def __init__(  # noqa: PLR0913  # the parts of an answer
        self,
        message: str,
        *,
        reason: str | None = None,
        status: int = 0,
        retry_after: float | None = None,
        challenges: tuple[str, ...] = (),
        origin: str = "",
        code: str = "",
    ) -> None:
        super().__init__(message, reason=reason)
        self.status = status
        self.retry_after = retry_after
        self.challenges = challenges
        self.origin = origin
        self.code = code


class AuthError(HttpError):
    """The server refused the credentials or has an invalid certificate, or a Secret is invalid."""

    default_reason: ClassVar[str] = "AuthenticationFailed"
