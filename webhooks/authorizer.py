"""Ask the API server what the requester may do (``authorization.k8s.io/v1 SubjectAccessReview``).

Whatever authorizer the cluster has decides, RBAC or another. Answers are kept for a few seconds,
because one apply of a hundred objects asks a hundred times; an error is raised and never kept, so
that it denies.
"""

import asyncio
from collections import OrderedDict
from dataclasses import dataclass
from typing import Final, Protocol

from toolkit.kube.client import Client
from toolkit.objects import Json, dig
from webhooks.request import User

ALLOWED_SECONDS: Final = 5.0
REFUSED_SECONDS: Final = 2.0
"""Short, because whoever was refused asks for the right and tries again."""
CAPACITY: Final = 4096
_PATH: Final = "/apis/authorization.k8s.io/v1/subjectaccessreviews"


class Authorizer(Protocol):
    """Tells what users may do."""

    async def allowed(  # noqa: PLR0913 - the attributes of a request
        self,
        user: User,
        *,
        verb: str,
        group: str,
        resource: str,
        namespace: str,
        name: str = "",
        subresource: str = "",
    ) -> bool:
        """Tell whether ``user`` may do this; an empty namespace means the whole cluster.

        Raises:
            ApiError: the API server did not answer, so the request is denied.
        """


@dataclass(frozen=True, slots=True)
class _Question:
    user: User
    verb: str
    group: str
    resource: str
    namespace: str
    name: str
    subresource: str

    def body(self) -> Json:
        attributes = {
            "verb": self.verb,
            "group": self.group,
            "resource": self.resource,
            "subresource": self.subresource,
            "namespace": self.namespace,
            "name": self.name,
        }
        spec = {
            "user": self.user.name,
            "uid": self.user.uid,
            "groups": list(self.user.groups),
            "extra": {key: list(values) for key, values in self.user.extra.items()},
            "resourceAttributes": attributes,
        }
        kind = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview"}
        return {**kind, "spec": spec}

    @property
    def key(self) -> tuple[object, ...]:
        """Return what the answer depends on."""
        user = self.user
        extra = tuple(sorted((key, tuple(values)) for key, values in user.extra.items()))
        who = (user.name, user.uid, user.groups, extra)
        what = (self.verb, self.group, self.resource, self.subresource, self.namespace, self.name)
        return (*who, *what)


class SubjectAccessReviews:
    """Asks, and remembers for seconds."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._known: OrderedDict[tuple[object, ...], tuple[bool, float]] = OrderedDict()

    async def allowed(  # noqa: PLR0913 - the attributes of a request
        self,
        user: User,
        *,
        verb: str,
        group: str,
        resource: str,
        namespace: str,
        name: str = "",
        subresource: str = "",
    ) -> bool:
        """Tell whether ``user`` may do this (see ``Authorizer``)."""
        question = _Question(user, verb, group, resource, namespace, name, subresource)
        key, now = question.key, asyncio.get_running_loop().time()
        answer, until = self._known.get(key, (False, 0.0))
        if until > now:
            return answer
        review = await self._client.request("POST", _PATH, body=question.body())
        answer = dig(review, "status", "allowed") is True
        self._known[key] = (answer, now + (ALLOWED_SECONDS if answer else REFUSED_SECONDS))
        self._known.move_to_end(key)
        while len(self._known) > CAPACITY:
            self._known.popitem(last=False)
        return answer
