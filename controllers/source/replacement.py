"""Withdraw an unverified artifact even if the server has nothing to replace it.

The stored artifact may be older than the demand for a signature. A user who can push could keep it
in use by deleting or damaging the requested revision. So if the server answers that it does not
have the revision, the stored artifact is refused. An outage of the server is no such answer.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from controllers.source.reconciler import TRUST
from crds.meta import Artifact
from toolkit.chart.errors import ChartNotFoundError
from toolkit.errors import PenstockError
from toolkit.remote.git.errors import EmptyRepositoryError, RefNotFoundError
from toolkit.remote.oci.errors import ANSWERS
from toolkit.verify.signature import VerificationError

_ANSWERS: Final = (*ANSWERS, ChartNotFoundError, RefNotFoundError, EmptyRepositoryError)


@contextmanager
def replacing(
    stored: Artifact | None, trust: str, *, reason: str = "VerificationError"
) -> Iterator[None]:
    """Refuse the stored artifact if it was not verified with the current keys, ``trust``.

    Raises:
        VerificationError: the body failed because the server has no usable revision, and the stored
            artifact was not verified.
    """
    try:
        yield
    except VerificationError:
        raise
    except PenstockError as exc:
        unproved = stored is not None and trust and stored.metadata.get(TRUST, "") != trust
        if not unproved or not _is_answer(exc):
            raise
        raise VerificationError(
            f"{exc}, and the stored artifact was not verified with the current keys", reason=reason
        ) from exc


def _is_answer(error: BaseException | None) -> bool:
    while error is not None and not isinstance(error, _ANSWERS):
        error = error.__cause__
    return error is not None
