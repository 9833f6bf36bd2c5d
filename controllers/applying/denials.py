"""Name the right that an account lacks, and how to give it.

The API server says who may not do what, but not what to do about it. The reason AccessDenied tells
such a failure from one of the content, whichever operation met it.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from toolkit.errors import AccessDeniedError, PenstockError

REASON: Final = AccessDeniedError.default_reason

_LACKED: Final = re.compile(
    r"User \"(?P<user>[^\"\n]{1,512})\" cannot (?P<verb>[a-z*]{1,64})"
    r" resource \"(?P<resource>[^\"\n]{1,256})\" in API group \"(?P<group>[^\"\n]{0,253})\""
    r" (?:at the cluster scope|in the namespace \"(?P<namespace>[^\"\n]{1,63})\")"
)
"""A refusal by RBAC (apiserver ``responsewriters.Forbidden``)."""
_GRANTED: Final = re.compile(
    r"user \"(?P<user>[^\"\n]{1,512})\" \([^\n]{0,4096}?\) is attempting to grant RBAC permissions"
    r" not currently held"
)
"""A refusal of a Role or binding with more rights than its writer (``escalation_check.go``)."""
_ACCOUNT: Final = "system:serviceaccount:"
_RECORDS: Final = "Helm keeps the records of a release in Secrets"
"""In a message that already names the rights that Helm's storage takes (``engine``)."""
_MOST: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class _Right:
    """A verb on a resource in a namespace, or in all of them if that is empty."""

    user: str
    verb: str
    resource: str
    group: str
    namespace: str

    def __str__(self) -> str:
        of = f" of API group {self.group!r}" if self.group else ""
        role = f"Role in namespace {self.namespace!r}" if self.namespace else "ClusterRole"
        return f"a {role} with the verb {self.verb!r} on {self.resource!r}{of}"


def denied(message: str) -> bool:
    """Tell whether a message says that RBAC refused a request."""
    return bool(_LACKED.search(message) or _GRANTED.search(message))


def remedy(message: str) -> str:
    """Return how to give the rights that a message says an account lacks; empty if it says none."""
    if _RECORDS in message:
        return ""
    found = dict.fromkeys(
        _Right(**{name: text or "" for name, text in each.groupdict().items()})
        for each in _LACKED.finditer(message)
    )
    rights = [f"bind {each} to {_who(each.user)}" for each in found][:_MOST]
    granting = dict.fromkeys(each["user"] for each in _GRANTED.finditer(message))
    rights += [
        f"give {_who(user)} these permissions first, or the verbs 'escalate' on roles and 'bind'"
        " on bindings"
        for user in granting
    ]
    return "; ".join(rights)


def explained(message: str) -> str:
    """Return a message with the remedy, if RBAC refused a request."""
    told = remedy(message)
    return f"{message}: {told}" if told and told not in message else message


@contextmanager
def explaining() -> Iterator[None]:
    """Give an error of the block the reason AccessDenied and the remedy if RBAC is its cause."""
    try:
        yield
    except PenstockError as error:
        if not denied(str(error)):
            raise
        raise error.retold(explained(str(error)), reason=REASON) from error


def _who(user: str) -> str:
    namespace, colon, name = user.removeprefix(_ACCOUNT).partition(":")
    if user.startswith(_ACCOUNT) and colon:
        return f"service account '{namespace}/{name}'"
    return f"user {user!r}"
