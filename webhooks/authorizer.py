"""Ask the API server for permissions of the requester (``authorization.k8s.io/v1``).

So every authorizer of the cluster counts, not only RBAC. Answers to a SubjectAccessReview are
cached for a few seconds, because one apply of a hundred objects needs a hundred. An error is raised
and never cached, so that it denies.
"""

import time
from typing import Final, Protocol

from toolkit.kube import reviews
from toolkit.kube.client import Client
from toolkit.kube.memory import Memory
from toolkit.kube.reviews import User

ALLOWED_SECONDS: Final = 5.0
REFUSED_SECONDS: Final = 2.0
"""Short, because a refused user asks for the permission and tries again."""
CAPACITY: Final = 4096


class Authorizer(Protocol):
    """Returns the permissions of users."""

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
        """Tell whether ``user`` is allowed to do this; an empty namespace means the whole cluster.

        Raises:
            ApiError: the API server did not answer, so the request is denied.
        """


class SubjectAccessReviews:
    """Asks, and remembers for seconds."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._known: Memory[bool] = Memory(size=CAPACITY, now=time.monotonic)

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
        attributes = {
            "verb": verb,
            "group": group,
            "resource": resource,
            "subresource": subresource,
            "namespace": namespace,
            "name": name,
        }
        spec = reviews.question(user, resourceAttributes=attributes)
        key = reviews.key(spec)
        known = self._known.recall(key)
        if known is not None:
            return known.value
        allowed = (await reviews.allowed(self._client, spec)).allowed
        seconds = ALLOWED_SECONDS if allowed else REFUSED_SECONDS
        return self._known.keep(key, allowed, seconds=seconds)
