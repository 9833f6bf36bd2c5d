"""What can go wrong between us and an object store.

::

    TransientError
    └── ObjectStoreError           BucketOperationFailed: network, server, permission, contents
        ├── BucketNotFoundError    there is no such bucket, or it is not shown to us
        ├── ObjectNotFoundError    there is no such object
        ├── ObjectChangedError     the object is not, or no longer, the one that was meant
        └── CredentialsError       AuthenticationFailed: credentials are no good, or buy no others
    StalledError
    └── PlaceError                 URLInvalid: only another endpoint or bucket name helps

Messages name bucket, object and host, and what the server calls the error if that is a plain word.
They never hold a URL, a header or a body: those carry signatures and tokens.
"""

from typing import ClassVar

from toolkit.errors import StalledError, TransientError


class ObjectStoreError(TransientError):
    """An operation failed.

    ``status`` is that of HTTP, 0 without an answer; ``retry_after`` is in seconds, if the server
    stated it.
    """

    default_reason: ClassVar[str] = "BucketOperationFailed"

    def __init__(
        self,
        message: str,
        *,
        reason: str | None = None,
        status: int = 0,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message, reason=reason)
        self.status = status
        self.retry_after = retry_after


class BucketNotFoundError(ObjectStoreError):
    """The bucket does not exist, or the credentials may not see it."""


class ObjectNotFoundError(ObjectStoreError):
    """The object does not exist."""


class ObjectChangedError(ObjectStoreError):
    """A precondition failed: the object is another one, or exists already."""


class CredentialsError(ObjectStoreError):
    """Credentials are incomplete or invalid, or their exchange was refused."""

    default_reason = "AuthenticationFailed"


class PlaceError(StalledError):
    """The endpoint or the bucket's name can never be asked."""

    default_reason = "URLInvalid"
