"""The errors of this package.

::

    TransientError
    └── DecryptionError         BuildFailed
        └── UnreachableError    a key service gave no answer, which it may do next time

Their messages name formats, positions, key paths and public recipients, and never a value, a data
key or an identity. A library's exception that may carry the bytes it choked on is neither their
cause nor their context.
"""

from typing import ClassVar

from toolkit.errors import TransientError


class DecryptionError(TransientError):
    """A document cannot be decrypted, or was changed after its encryption.

    Transient, because the next attempt may find a corrected document or another Secret with keys.
    """

    default_reason: ClassVar[str] = "BuildFailed"


class UnreachableError(DecryptionError):
    """A key service did not answer, or is overloaded or down; the user need not change anything."""
