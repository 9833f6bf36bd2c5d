"""Decode and encode ``admission.k8s.io/v1 AdmissionReview``, with limits.

Warnings, audit annotations and messages are shortened to the limits of API servers and logs. An
answer has a JSON Patch only if the object was changed.
"""

import base64
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final, Literal

import msgspec

from crds import misfits
from toolkit.errors import (
    AccessDeniedError,
    PenstockError,
    StalledError,
    TransientError,
    WaitingError,
)
from toolkit.objects import GroupVersionKind, Json, key_of
from webhooks import jsonpatch
from webhooks.plugin import Answer, Cause, DeniedError
from webhooks.request import Request, User

_API_VERSION: Final = "admission.k8s.io/v1"
_MAX_WARNINGS: Final = 16
_MAX_WARNING: Final = 256
"""API servers cut to this length when there are many (``k8s.io/apiserver``, 4096 in all)."""
_MAX_MESSAGE: Final = 4096
_MAX_CAUSES: Final = 32
_MAX_NOTES: Final = 32
_MAX_NOTE: Final = 1024
_INVALID: Final = "Invalid"
_UNDERSTOOD: Final = MappingProxyType(
    {AccessDeniedError: 403, StalledError: 422, WaitingError: 503, TransientError: 503}
)


class MalformedError(StalledError):
    """The body is not an AdmissionReview of this version."""

    default_reason = "BadRequest"


class _Kind(msgspec.Struct):
    group: str = ""
    version: str = ""
    kind: str = ""

    @property
    def gvk(self) -> GroupVersionKind:
        return GroupVersionKind(self.group, self.version, self.kind)


class _Resource(msgspec.Struct):
    group: str = ""
    version: str = ""
    resource: str = ""


class _User(msgspec.Struct):
    username: str = ""
    uid: str = ""
    groups: list[str] = []
    extra: dict[str, list[str]] = {}


class _Request(msgspec.Struct, rename="camel"):
    uid: str
    kind: _Kind
    resource: _Resource
    operation: Literal["CREATE", "UPDATE", "DELETE", "CONNECT"]
    user_info: _User
    request_kind: _Kind | None = None
    sub_resource: str = ""
    name: str = ""
    namespace: str = ""
    object: dict[str, Any] | None = None
    old_object: dict[str, Any] | None = None
    dry_run: bool = False
    options: dict[str, Any] | None = None


class _Review(msgspec.Struct, rename="camel"):
    api_version: Literal["admission.k8s.io/v1"]
    kind: Literal["AdmissionReview"]
    request: _Request


_DECODER: Final = msgspec.json.Decoder(_Review)


def decode(body: bytes, *, deadline: float) -> Request:
    """Read a review; ``deadline`` is in seconds of the event loop's clock.

    Raises:
        MalformedError: the body is not a review of ``admission.k8s.io/v1``.
    """
    try:
        asked = _DECODER.decode(body).request
    # an object may be nested deeper than the interpreter follows
    except (ValueError, RecursionError) as exc:
        raise MalformedError(f"not an AdmissionReview of {_API_VERSION}: {_where(exc)}") from exc
    user = asked.user_info
    return Request(
        uid=asked.uid,
        operation=asked.operation,
        gvk=asked.kind.gvk,
        asked=(asked.request_kind or asked.kind).gvk,
        resource=asked.resource.resource,
        subresource=asked.sub_resource,
        namespace=asked.namespace,
        name=asked.name,
        user=User(
            name=user.username,
            uid=user.uid,
            groups=tuple(user.groups),
            extra=MappingProxyType({key: tuple(values) for key, values in user.extra.items()}),
        ),
        object=asked.object,
        old=asked.old_object,
        dry_run=asked.dry_run,
        options=asked.options or {},
        deadline=deadline,
    )


def allowed(request: Request, answer: Answer, *, mutating: bool) -> bytes:
    """Encode the answer that allows the request, with a patch if the object was changed."""
    response: Json = {"uid": request.uid, "allowed": True}
    if mutating and answer.object is not None and request.object is not None:
        patch = jsonpatch.diff(request.object, answer.object)
        if patch:
            response["patchType"] = "JSONPatch"
            response["patch"] = base64.b64encode(msgspec.json.encode(patch)).decode()
    return _review(response, answer.warnings, answer.audit)


def denied(request: Request, denial: DeniedError, *, warnings: Iterable[str] = ()) -> bytes:
    """Write the answer that denies the request; its ``details`` name the object."""
    message = _cut(str(denial), _MAX_MESSAGE)
    status: Json = {
        "status": "Failure",
        "message": message,
        "reason": denial.reason,
        "code": denial.code,
    }
    details = _details(request, denial)
    if details:
        status["details"] = details
    return _review({"uid": request.uid, "allowed": False, "status": status}, warnings, denial.audit)


def understood(error: PenstockError) -> DeniedError:
    """Return the denial for any error of the toolkit."""
    if isinstance(error, DeniedError):
        return error
    code = next((code for kind, code in _UNDERSTOOD.items() if isinstance(error, kind)), 403)
    return DeniedError(str(error), code=code)


def _review(response: Json, warnings: Iterable[str], notes: Mapping[str, str]) -> bytes:
    said = [_cut(" ".join(each.split()), _MAX_WARNING) for each in warnings if each.strip()]
    if said:
        response["warnings"] = list(dict.fromkeys(said))[:_MAX_WARNINGS]
    if notes:
        kept = list(notes.items())[:_MAX_NOTES]
        response["auditAnnotations"] = {key: _cut(value, _MAX_NOTE) for key, value in kept}
    review = {"apiVersion": _API_VERSION, "kind": "AdmissionReview", "response": response}
    return msgspec.json.encode(review)


def _details(request: Request, denial: DeniedError) -> Json:
    """Return ``meta/v1.StatusDetails``; an object that gets its name later has none."""
    causes = _causes(denial.causes)
    if denial.reason == _INVALID and not causes:
        # If details name an invalid object, kubectl shows the causes instead of the message.
        return {}
    present = request.object if request.object is not None else request.old
    details: Json = {
        "group": request.gvk.group,
        "kind": request.gvk.kind,
        "name": request.name or key_of(present or {}).name,
        "causes": causes,
    }
    return {key: value for key, value in details.items() if value}


def _causes(causes: Iterable[Cause]) -> list[Json]:
    return [
        {
            "reason": cause.reason,
            "message": _cut(cause.message, _MAX_NOTE),
            "field": cause.field,
        }
        for cause in list(causes)[:_MAX_CAUSES]
    ]


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: length - 1]}…"


def _where(exc: Exception) -> str:
    """Return the problem without a value of the object."""
    return misfits.told(exc) if isinstance(exc, msgspec.ValidationError) else "it is not JSON"
