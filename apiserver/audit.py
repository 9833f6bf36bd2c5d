"""The audit log: one line per request, with the user, the request and the result.

The terms are those of ``audit.k8s.io`` at level ``Metadata``: neither headers nor bodies, because
either may contain secrets. Health checks are left out, as they are many and say nothing.

Only a front proxy knows the addresses before it. So ``sourceIPs`` begins with the addresses that it
sent, of which the last is the one that it saw itself, and ends with the address that is connected
to us.
"""

import logging
import re
import uuid
from collections.abc import Sequence
from typing import Final

from apiserver.call import User
from apiserver.requestinfo import RequestInfo
from toolkit.objects import Json

logger = logging.getLogger("audit")

HEADER: Final = "Audit-ID"
_ID: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")
_LONGEST: Final = 512
"""Characters of anything that a client chose."""
_HOPS: Final = 16


def new_id(given: str | None) -> str:
    """Return the id that the front proxy gave a request, or a new one."""
    return given if given and _ID.fullmatch(given) else str(uuid.uuid4())


def record(  # noqa: PLR0913 - the columns of a line
    audit_id: str,
    info: RequestInfo,
    user: User | None,
    *,
    uri: str,
    code: int,
    seconds: float,
    sources: Sequence[str],
) -> None:
    """Write the line of a request that is over; ``uri`` is its path and query."""
    line: Json = {
        "auditID": audit_id,
        "stage": "ResponseComplete",
        "level": "Metadata",
        "verb": info.verb,
        "requestURI": _plain(uri),
        "user": _user(user),
        "sourceIPs": [_plain(source) for source in sources[-_HOPS:] if source],
        "objectRef": _object(info),
        "responseStatus": {"code": code},
        "latencySeconds": round(seconds, 6),
    }
    logger.info("audit", extra={"audit": {key: value for key, value in line.items() if value}})


def _user(user: User | None) -> Json:
    if user is None:
        return {}
    found: Json = {
        "username": _plain(user.name),
        "uid": _plain(user.uid),
        "groups": [_plain(group) for group in user.groups[:64]],
    }
    return {key: value for key, value in found.items() if value}


def _object(info: RequestInfo) -> Json:
    found: Json = {
        "resource": info.resource,
        "subresource": info.subresource,
        "namespace": info.namespace,
        "name": info.name,
        "apiGroup": info.group,
        "apiVersion": info.version,
    }
    kept = {key: _plain(value) for key, value in found.items() if value}
    return kept if info.is_resource else {}


def _plain(text: str) -> str:
    return text[:_LONGEST].encode(errors="backslashreplace").decode()
