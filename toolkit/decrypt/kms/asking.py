"""One request to a key service: one bounded answer, or an error with the cause.

The remedy depends on the cause: a missing permission, a missing key, a data key of another key, or
an outage. AWS distinguishes the first three only by a word, with one status. Messages name service,
key, status and remedy, and nothing of the request.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from toolkit import untrusted
from toolkit.decrypt.errors import DecryptionError, UnreachableError
from toolkit.errors import PenstockError, StalledError
from toolkit.kube.errors import ForbiddenError, NotFoundError
from toolkit.remote.cloud.errors import CloudError
from toolkit.remote.http import http
from toolkit.remote.http.http import AuthError, Endpoint, Http, HttpError

SECONDS: Final = 4.0
"""Timeout of a request; a document may have other recipients."""

_LIMIT: Final = 64 << 10
_JSON: Final = "application/json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """The subject of a request, for messages: the key, the caller, and the needed permission."""

    key: str
    who: str
    remedy: str

    def refused(self, error: HttpError) -> DecryptionError:
        """Return the error for an answer that is no success."""
        said = f"HTTP {error.status} {error.code}".rstrip()
        if _passing(error):
            why = said if error.status else str(error)
            return UnreachableError(f"{self.key} cannot be contacted now: {why}")
        if not error.status:  # The identity could not authenticate.
            return DecryptionError(f"{self.key} cannot be contacted: {error}")
        if error.status in {401, 403} or error.code.startswith(_DENIED):
            return DecryptionError(f"{self.key} refuses {self.who} ({said}): {self.remedy}")
        if error.status == 404 or error.code in _ABSENT:
            return DecryptionError(
                f"{self.key} does not exist ({said}): correct its address, or encrypt the document"
                " for another one"
            )
        return DecryptionError(
            f"{self.key} cannot decrypt the data key ({said}): another key encrypted it, or it was"
            " altered; encrypt the document again"
        )

    def unsigned(self, error: PenstockError) -> DecryptionError:
        """Return the error if there are no credentials."""
        cause = error.__cause__
        if isinstance(cause, HttpError):
            settled = not _passing(cause)
        else:
            settled = isinstance(error, StalledError | DecryptionError | CloudError) or isinstance(
                cause, NotFoundError | ForbiddenError
            )
        kind = DecryptionError if settled else UnreachableError
        return kind(f"{self.key} cannot be contacted: {error}")


async def post(  # noqa: PLR0913  # the parts of a request
    client: Http,
    url: str,
    body: bytes,
    *,
    question: Question,
    endpoint: Endpoint,
    headers: Mapping[str, str],
) -> dict[str, Any]:
    """Return the JSON object in the answer.

    Raises:
        UnreachableError: the service does not answer now.
        DecryptionError: the answer is invalid, or the service refuses.
    """
    try:
        async with client.request(
            "POST", url, endpoint=endpoint, headers=headers, body=body, timeout=SECONDS
        ) as response:
            if response.status != 200:
                # This includes redirects: the signature or token in the request is only for this
                # server.
                raise DecryptionError(
                    f"{question.key} answers with HTTP {response.status} instead of the data key:"
                    " name the server that answers itself"
                )
            found = await http.read(response, limit=_LIMIT)
    except HttpError as error:
        raise question.refused(error) from None
    return decoded(found, question)


def decoded(body: bytes, question: Question) -> dict[str, Any]:
    """Return the JSON object in an answer.

    Raises:
        DecryptionError: the answer is not a JSON object.
    """
    try:
        return untrusted.load_json(body, dict[str, Any], size=len(body))
    except untrusted.UntrustedError:
        raise DecryptionError(f"{question.key} sent a response that is not a JSON object") from None


def text(answer: Mapping[str, Any], *path: str, question: Question) -> str:
    """Return a string from within an answer.

    Raises:
        DecryptionError: it is missing.
    """
    value: Any = answer
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    if not isinstance(value, str):
        raise DecryptionError(f"{question.key} answers without '{'.'.join(path)}'")
    return value


def _passing(error: HttpError) -> bool:
    """Tell whether the next attempt may go better: no answer, overload, a fault of theirs."""
    if isinstance(error, AuthError) and not error.status:
        return False
    return (
        error.status in {0, 408, 425, 429}
        or error.status >= 500
        or error.code.startswith(("Throttl", "RequestLimit", "DependencyTimeout"))
    )


_DENIED: Final = (
    # AWS, with HTTP 400
    "AccessDenied",
    "UnrecognizedClient",
    "InvalidClientTokenId",
    "InvalidSignature",
    "IncompleteSignature",
    "ExpiredToken",
    "MissingAuthenticationToken",
)
_ABSENT: Final = ("NotFoundException",)
