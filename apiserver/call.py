"""One request, as it is understood: who asks for what.

The parts are those of upstream's ``RequestInfo`` (``apiserver/pkg/endpoints/request``), because
authorization, audit and fairness are about them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from aiohttp import web
from multidict import MultiMapping


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    """Who asks, as authentication found out."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, Sequence[str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A request past authentication; ``resource`` is empty for paths that are none.

    ``deadline`` is a moment of the event loop's clock; a watch has none of its own.
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
