"""A decoded request: the user, the verb and the resource.

The fields are those of upstream's ``RequestInfo`` (``apiserver/pkg/endpoints/request``), because
authorization, audit and fairness use them.
"""

from dataclasses import dataclass

from aiohttp import web
from multidict import MultiMapping

from toolkit.kube.reviews import User

__all__ = ["Call", "User"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """An authenticated request; ``resource`` is empty for paths of other endpoints.

    ``deadline`` is a time of the event loop's clock; a watch has no deadline.
    """

    web: web.Request
    user: User
    verb: str
    path: str
    query: MultiMapping[str]
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    deadline: float = float("inf")
    audit_id: str = ""
