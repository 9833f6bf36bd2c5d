"""Whether a request is allowed: one ``SubjectAccessReview`` for each, so RBAC is the only list.

1. ``system:masters`` may do everything, and every client may read our health. Both are answered
   without a review, as upstream (``DelegatingAuthorizationOptions``), so that discovery does not
   depend on the API server that requests it.
2. Everything else is reviewed, whatever the front proxy has reviewed before: the request may not
   come from it.
3. A review is not repeated for ten seconds, whether it allowed or denied. The whole review is the
   key. Very long ones are not kept.
4. If there is no answer, the request fails with 500.

Upstream: ``apiserver/plugin/pkg/authorizer/webhook``, ``endpoints/handlers/responsewriters``.
"""

import json
import time
from collections.abc import Callable
from typing import Final

import msgspec

from apiserver.auth import restrictions
from apiserver.requestinfo import RequestInfo
from apiserver.status import Details, StatusError
from toolkit.kube import reviews
from toolkit.kube.errors import ApiError
from toolkit.kube.memory import Memory
from toolkit.kube.reviews import Answer, Api, User
from toolkit.objects import Json

MASTERS: Final = "system:masters"
_REMEMBERED: Final = 8192
_SECONDS: Final = 10.0
_LONGEST: Final = 10_000
"""Bytes of a question that is kept."""
_ESCAPES: Final = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


class Authorization:
    """Authorizes requests with the API server."""

    def __init__(self, api: Api, *, now: Callable[[], float] = time.monotonic) -> None:
        self._api = api
        self._answers: Memory[Answer] = Memory(size=_REMEMBERED, now=now)

    async def authorize(self, user: User, info: RequestInfo) -> None:
        """Require that the user may send this request.

        Raises:
            StatusError: 403, the user may not; 500, the API server gives no answer.
        """
        # 1.
        if MASTERS in user.groups:
            return
        # 2.
        answer = await self._answer(question(user, info))
        if not answer.allowed:
            raise forbidden(user, info, answer.reason)

    async def _answer(self, spec: Json) -> Answer:
        # 3. As a hash, so that long requests do not fill the memory.
        key = reviews.key(spec)
        known = self._answers.recall(key)
        if known is not None:
            return known.value
        try:
            answer = await reviews.allowed(self._api, spec)
        except ApiError as exc:
            # 4.
            raise StatusError(
                500,
                "InternalError",
                "Internal error occurred: the API server does not say whether this is allowed;"
                " retry",
            ) from exc
        if len(msgspec.json.encode(spec)) > _LONGEST:
            return answer
        return self._answers.keep(key, answer, seconds=_SECONDS)


def question(user: User, info: RequestInfo) -> Json:
    """Return the ``spec`` of the review, as short as upstream's."""
    if info.is_resource:
        spec = reviews.question(user, resourceAttributes=_resource(info))
    else:
        about = {"path": info.path, "verb": info.verb}
        spec = reviews.question(user, nonResourceAttributes=about)
    return {key: value for key, value in spec.items() if value}


def _resource(info: RequestInfo) -> Json:
    attributes: Json = {
        "namespace": info.namespace,
        "verb": info.verb,
        "group": info.group,
        "version": info.version,
        "resource": info.resource,
        "subresource": info.subresource,
        "name": info.name,
        "fieldSelector": restrictions.of_fields(info.field_selector),
        "labelSelector": restrictions.of_labels(info.label_selector),
    }
    return {key: value for key, value in attributes.items() if value}


def forbidden(user: User, info: RequestInfo, reason: str) -> StatusError:
    """Return upstream's error (``responsewriters.ForbiddenStatusError``)."""
    said = _said(user, info).translate(_ESCAPES)
    if reason:
        said = f"{said}: {reason}"
    if not info.is_resource:
        return StatusError(403, "Forbidden", f"forbidden: {said}")
    of = f"{info.resource}.{info.group}" + (f" {_quoted(info.name)}" if info.name else "")
    details = Details(name=info.name, group=info.group, kind=info.resource)
    return StatusError(403, "Forbidden", f"{of} is forbidden: {said}", details)


def _said(user: User, info: RequestInfo) -> str:
    who = f"User {_quoted(user.name)} cannot {info.verb}"
    if not info.is_resource:
        return f"{who} path {_quoted(info.path)}"
    resource = f"{info.resource}/{info.subresource}" if info.subresource else info.resource
    what = f"{who} resource {_quoted(resource)} in API group {_quoted(info.group)}"
    if info.namespace:
        return f"{what} in the namespace {_quoted(info.namespace)}"
    return f"{what} at the cluster scope"


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
