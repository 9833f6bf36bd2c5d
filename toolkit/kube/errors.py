"""What an API server refuses, and what happens when it cannot be reached.

::

    ApiError (a TransientError)
    ├── UnreachableError        no answer: refused, reset, timed out, TLS
    ├── UnauthorizedError       401
    ├── ForbiddenError          403
    ├── NotFoundError           404
    ├── NoMatchError            the kind is not served (its CRD is not installed)
    ├── StaleDiscoveryError     503, an aggregated API server does not tell which kinds it serves
    ├── ConflictError           409, resourceVersion or field-manager conflict
    ├── AlreadyExistsError      409, reason AlreadyExists
    ├── GoneError               410, the resourceVersion is no longer known
    ├── InvalidError            422, the object fails validation
    └── TooManyRequestsError    429

All are transient for a reconciler that lets them pass: RBAC, CRDs and validating webhooks change
without a change of the object that is reconciled.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from toolkit import errors, objects


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """One entry of ``Status.details.causes``: which field, why."""

    reason: str
    message: str
    field: str


class ApiError(errors.TransientError):
    """The API server answered with an error.

    ``status`` is the HTTP code (0 without an answer), ``api_reason`` is the reason of the
    ``Status`` object (``NotFound``, ``Invalid``, …), ``retry_after`` is in seconds if the server
    states it.
    """

    default_reason: ClassVar[str] = "ReconciliationFailed"
    default_status: ClassVar[int] = 0

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        api_reason: str = "",
        causes: tuple[Cause, ...] = (),
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.status = self.default_status if status is None else status
        self.api_reason = api_reason
        self.causes = causes
        self.retry_after = retry_after


class UnreachableError(ApiError):
    """No answer came: connection refused or reset, deadline passed, certificate not trusted.

    ``sent`` is false when the server cannot have seen the request.
    """

    def __init__(self, message: str, *, sent: bool = True) -> None:
        super().__init__(message)
        self.sent = sent


class UnauthorizedError(ApiError):
    """The credentials are missing, wrong or expired."""

    default_status = 401


class ForbiddenError(ApiError):
    """RBAC or an admission plugin forbids it; the message names user, verb and resource."""

    default_status = 403


class NotFoundError(ApiError):
    """The object, or the whole resource path, does not exist."""

    default_status = 404


class NoMatchError(ApiError):
    """Discovery has no such kind."""

    default_status = 404


class StaleDiscoveryError(ApiError):
    """The server that may serve a kind does not answer, so it is not known whether the kind exists.

    It must not be taken for a ``NoMatchError``: what is of that kind is still there.
    """

    default_status = 503


class ConflictError(ApiError):
    """Another client has written the object, or owns the field."""

    default_status = 409


class AlreadyExistsError(ApiError):
    """An object of that name already exists."""

    default_status = 409


class GoneError(ApiError):
    """The resourceVersion or continue token is too old."""

    default_status = 410


class InvalidError(ApiError):
    """The object fails validation; ``causes`` names the fields."""

    default_status = 422


class TooManyRequestsError(ApiError):
    """API Priority and Fairness, or a disruption budget, asks to come back later."""

    default_status = 429


class KubeConfigError(errors.TransientError):
    """A kubeconfig is invalid, or asks for something that is not allowed."""

    default_reason = "KubeConfigInvalid"


class SignInError(KubeConfigError):
    """The program or provider that a kubeconfig names issued no credentials."""


_BY_STATUS: Final[Mapping[int, type[ApiError]]] = {
    401: UnauthorizedError,
    403: ForbiddenError,
    404: NotFoundError,
    409: ConflictError,
    410: GoneError,
    422: InvalidError,
    429: TooManyRequestsError,
}


LONGEST_STATUS: Final = 256 << 10
"""Bytes of a ``meta/v1.Status``, whose causes are at most those of one object."""


def from_status(
    code: int, body: Mapping[str, Any], *, retry_after: float | None = None
) -> ApiError:
    """Make the error for a ``meta/v1.Status`` (also one that came as a watch's ERROR event)."""
    reason = str(body.get("reason") or "")
    kind = AlreadyExistsError if reason == "AlreadyExists" else _BY_STATUS.get(code, ApiError)
    causes = objects.dig(body, "details", "causes", default=[])
    seconds = objects.dig(body, "details", "retryAfterSeconds")
    if not isinstance(seconds, int | float):
        seconds = None
    return kind(
        str(body.get("message") or f"the server answered with status {code}"),
        status=code,
        api_reason=reason,
        causes=tuple(
            Cause(
                reason=str(cause.get("reason") or ""),
                message=str(cause.get("message") or ""),
                field=str(cause.get("field") or ""),
            )
            for cause in (causes if isinstance(causes, list) else ())
            if isinstance(cause, Mapping)
        ),
        retry_after=float(seconds) if retry_after is None and seconds else retry_after,
    )
