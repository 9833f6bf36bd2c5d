"""Ask the API server who a user is, and what a user may do (TokenReview, SubjectAccessReview).

So every authenticator and authorizer of the cluster counts, not only RBAC. Requests are built and
answers are read here only, because a mistake in either grants access. Nothing is cached: callers
decide about that.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

import msgspec

from toolkit.objects import Json, dig

_TOKENS: Final = ("authentication.k8s.io", "TokenReview", "tokenreviews")
_ACCESS: Final = ("authorization.k8s.io", "SubjectAccessReview", "subjectaccessreviews")


class Api(Protocol):
    """The API server, as ``toolkit.kube.client.Client`` reaches it."""

    async def request(self, method: str, path: str, *, body: Json) -> Json:
        """Send a request and return the decoded answer."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    """An authenticated user (``authentication.k8s.io/v1 UserInfo``).

    After impersonation this is the impersonated user, with its ``extra``.
    """

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, Sequence[str]] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Whether a user is allowed, and the reason if not."""

    allowed: bool
    reason: str = ""


async def whose(api: Api, token: str, *, audience: str = "") -> User | None:
    """Return the user of a token; None if it is invalid, or not for the audience.

    Raises:
        ApiError: the API server does not answer.
    """
    spec = {"token": token} | ({"audiences": [audience]} if audience else {})
    status = await _ask(api, _TOKENS, spec)
    # 1. The token belongs to a user.
    name = dig(status, "user", "username", default="")
    if status.get("authenticated") is not True or not name:
        return None
    # 2. A server without support for audiences returns none, so its answer does not count.
    if audience and audience not in dig(status, "audiences", default=()):
        return None
    user = status["user"]
    return User(
        name=str(name),
        uid=str(user.get("uid") or ""),
        groups=tuple(user.get("groups") or ()),
        extra=user.get("extra") or {},
    )


def question(user: User, **attributes: Json) -> Json:
    """Return ``SubjectAccessReviewSpec``; ``attributes`` are one of its two kinds, by its name."""
    extra = {key: list(values) for key, values in user.extra.items()}
    who = {"user": user.name, "uid": user.uid, "groups": list(user.groups), "extra": extra}
    return who | attributes


def key(spec: Json) -> bytes:
    """Return the cache key of a question: a hash, because its content is untrusted."""
    return hashlib.sha256(msgspec.json.encode(spec, order="sorted")).digest()


async def allowed(api: Api, spec: Json) -> Answer:
    """Ask the API server; the result is allowed only if it plainly says so.

    Raises:
        ApiError: the API server does not answer, which is no permission.
    """
    status = await _ask(api, _ACCESS, spec)
    if status.get("allowed") is True:
        return Answer(allowed=True)
    return Answer(allowed=False, reason=str(status.get("reason") or ""))


async def _ask(api: Api, what: tuple[str, str, str], spec: Json) -> Json:
    group, kind, resource = what
    body = {"apiVersion": f"{group}/v1", "kind": kind, "spec": spec}
    answer = await api.request("POST", f"/apis/{group}/v1/{resource}", body=body)
    status: Json = answer.get("status") or {}
    return status
