"""What can go wrong while the image is built."""

from toolkit.errors import PenstockError


class ReleaseError(PenstockError):
    """The image cannot be built; the message says what to do."""

    default_reason = "ReleaseFailed"


class UnavailableError(ReleaseError):
    """A registry cannot be reached, or does not offer what is locked."""
