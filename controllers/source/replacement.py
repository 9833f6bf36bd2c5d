"""What was never verified as is now demanded goes, also when nothing can replace it.

Who may push can delete what is asked for, or spoil it, and must not keep in use what was stored
before a signature was demanded. That a server has nothing is its answer, and refuses; an outage is
none.
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
    """Refuse what is stored if the present keys, ``trust``, did not verify it.

    Raises:
        VerificationError: the server answered the body that it has nothing that can be used.
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
            f"{exc}, and what is stored was not verified with the present keys", reason=reason
        ) from exc


def _is_answer(error: BaseException | None) -> bool:
    while error is not None and not isinstance(error, _ANSWERS):
        error = error.__cause__
    return error is not None
