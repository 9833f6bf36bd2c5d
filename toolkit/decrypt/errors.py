"""The one error of this package.

Its messages name formats, positions, key paths and public recipients, and never a value, a data
key or an identity. A library's exception that may carry the bytes it choked on is neither its
cause nor its context.
"""

from typing import ClassVar

from toolkit.errors import TransientError


class DecryptionError(TransientError):
    """A document cannot be decrypted, or is not what was encrypted.

    Transient, because the next attempt may find a corrected document or another key Secret.
    """

    default_reason: ClassVar[str] = "BuildFailed"
