"""Why there are no credentials: the cloud refused, or cannot give what was requested.

::

    TransientError
    └── CloudError               AuthenticationFailed: refused, unreachable, a malformed answer
    StalledError
    └── ForeignHostError         InvalidProviderConfiguration: the host is not this provider's
"""

from typing import ClassVar

from toolkit.errors import StalledError, TransientError


class CloudError(TransientError):
    """A cloud gives no credentials. The message names whose they were to be, and the remedy."""

    default_reason: ClassVar[str] = "AuthenticationFailed"


class ForeignHostError(StalledError):
    """The host that the object names does not belong to its provider, so it gets no credentials."""

    default_reason: ClassVar[str] = "InvalidProviderConfiguration"
