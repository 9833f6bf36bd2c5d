"""What can go wrong between us and a registry.

::

    TransientError
    └── RegistryError                 OCIArtifactPullFailed: no answer, or one that is not what it
        │                             should be
        ├── RegistryAuthError         AuthenticationFailed: credentials, or the registry's identity
        ├── RegistryNotFoundError     OCIArtifactPullFailed: it has no such tag, digest or blob
        └── MalformedError            OCIArtifactPullFailed: what it has cannot be accepted
    StalledError
    └── RepositoryURLError            URLInvalid: only a new spec helps

The last two of a registry are answers: a user who may push can cause them, and an outage cannot. So
they must not keep unsigned content in use (``ANSWERS``).
"""

from typing import ClassVar, Final

from toolkit.errors import StalledError, TransientError


class RegistryError(TransientError):
    """A registry could not be asked, or lied; ``status`` is HTTP's, or 0 if there was none."""

    default_reason: ClassVar[str] = "OCIArtifactPullFailed"

    def __init__(self, message: str, *, reason: str | None = None, status: int = 0) -> None:
        super().__init__(message, reason=reason)
        self.status = status


class RegistryAuthError(RegistryError):
    """The registry or its token service refused the credentials, or has an invalid certificate."""

    default_reason = "AuthenticationFailed"


class RegistryNotFoundError(RegistryError):
    """The registry has no such thing, or does not show it to us."""


class MalformedError(RegistryError):
    """Pushed content cannot be accepted: it is damaged, too large, or too much."""


ANSWERS: Final = (RegistryNotFoundError, MalformedError)
"""Errors that are answers of a working registry about pushed or deleted content."""


class RepositoryURLError(StalledError):
    """An address that cannot be a repository in a registry."""

    default_reason = "URLInvalid"
