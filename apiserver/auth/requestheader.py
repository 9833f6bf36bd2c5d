"""Who the front proxy says it speaks for (apiserver ``authentication/request/headerrequest``).

1. Its certificate is of the front proxies' authority. Not of the clients': every user has one of
   those.
2. Its common name is on the list, unless the list is empty.
3. Only then are the headers read, under the names that the API server has been told.
"""

from typing import Final
from urllib.parse import unquote

from cryptography.x509.oid import NameOID
from multidict import MultiMapping

from apiserver.auth.authorities import UntrustedError
from apiserver.auth.configuration import Trust
from apiserver.call import User

_MAX_VALUES: Final = 1024
"""Groups, and values of ``extra``; more than any directory gives a person."""


def user(trust: Trust, certificate: bytes, headers: MultiMapping[str]) -> User | None:
    """Return the user that a front proxy sends; None if it sends none.

    Raises:
        UntrustedError: the certificate (DER) is not a front proxy's.
    """
    # 1.
    leaf = trust.proxies.verify(certificate)
    # 2.
    names = [str(each.value) for each in leaf.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
    if trust.allowed_names and (not names or names[-1] not in trust.allowed_names):
        raise UntrustedError("the certificate's common name is not a front proxy's")
    # 3.
    name = _first(headers, trust.username_headers)
    if not name:
        return None
    return User(
        name=name,
        uid=_first(headers, trust.uid_headers),
        groups=_all(headers, trust.group_headers),
        extra=_extra(headers, trust.extra_prefixes),
    )


def is_told(trust: Trust, header: str) -> bool:
    """Tell whether a header is one of those for users."""
    lower = header.lower()
    named = (*trust.username_headers, *trust.uid_headers, *trust.group_headers)
    return any(lower == each.lower() for each in named) or any(
        lower.startswith(prefix.lower()) for prefix in trust.extra_prefixes
    )


def _first(headers: MultiMapping[str], names: tuple[str, ...]) -> str:
    return next((value for name in names if (value := headers.get(name))), "")


def _all(headers: MultiMapping[str], names: tuple[str, ...]) -> tuple[str, ...]:
    found = (value for name in names for value in headers.getall(name, ()))
    return _bounded(tuple(value for value in found if value))


def _extra(headers: MultiMapping[str], prefixes: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    """Return the rest; keys are lower-cased, then unescaped (KEP-1513)."""
    found: dict[str, tuple[str, ...]] = {}
    for prefix in prefixes:
        for header, value in headers.items():
            if header.lower().startswith(prefix.lower()):
                key = unquote(header[len(prefix) :].lower())
                found[key] = _bounded((*found.get(key, ()), value))
    return found


def _bounded(values: tuple[str, ...]) -> tuple[str, ...]:
    if len(values) > _MAX_VALUES:
        raise UntrustedError("too many groups")
    return values
