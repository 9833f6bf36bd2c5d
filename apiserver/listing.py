"""The options of a list or a watch, and their validation.

Rules and messages are upstream's: decoding (``runtime/conversion.go``), defaults and validation
(``apis/meta/internalversion``).
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from apiserver import paging, position, selectors, status
from apiserver.call import Call
from apiserver.paging import Page
from apiserver.resource import Resource
from apiserver.selectors import Selector, Term
from apiserver.status import Cause, Details, StatusError

Match = Literal["", "Exact", "NotOlderThan"]
_MATCH: Final = "resourceVersionMatch"
_INITIAL: Final = "sendInitialEvents"
_INT64: Final = 1 << 63
_INTEGER: Final = re.compile(r"[-+]?[0-9]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """``meta/v1.ListOptions``, read and found to be valid."""

    selector: Selector
    version: int = 0
    unset: bool = True
    """No ``resourceVersion`` was given: the most recent is wanted."""
    match: Match = ""
    limit: int = 0
    page: Page | None = None
    timeout: float = 0.0
    """Seconds that a watch lasts; 0 leaves it to us, and a negative one is over at once."""
    bookmarks: bool = False
    initial: bool | None = None
    """Whether a watch begins with the existing objects; None if the request does not say."""


def parse(call: Call, resource: Resource, *, watch: bool) -> Options:
    """Read the options of a list or a watch.

    Raises:
        StatusError: 400, something is malformed; 422, the parts do not fit each other.
    """
    asked = call.query
    raw = asked.get("resourceVersion", "")
    limit, timeout = _integer(asked, "limit"), _integer(asked, "timeoutSeconds")
    labels = selectors.parse_labels(asked.get("labelSelector", ""))
    terms = selectors.parse_fields(asked.get("fieldSelector", ""), resource.fields)
    initial = _boolean(asked, _INITIAL) if _INITIAL in asked else None
    match, token = asked.get(_MATCH, ""), asked.get("continue", "")
    if watch and initial is None and not match and raw in {"", "0"}:
        initial, match = True, "NotOlderThan"  # SetListOptionsDefaults
    given = _Given(match=match, raw=raw, token=token, initial=initial)
    _validate(_broken_watch(given) if watch else _broken_list(given))
    return Options(
        selector=Selector(labels=labels, fields=_named(call, terms)),
        version=position.parse(raw),
        unset=not raw,
        match=_MATCHES[match],
        limit=max(limit, 0),
        page=_page(token, raw) if token and not watch else None,
        timeout=float(timeout),
        bookmarks=_boolean(asked, "allowWatchBookmarks"),
        initial=initial,
    )


def version_of(call: Call) -> int:
    """Read the resource version that the answer to a get must not be older than.

    Raises:
        StatusError: 400.
    """
    return position.parse(call.query.get("resourceVersion", ""))


_MATCHES: Final[dict[str, Match]] = {"": "", "Exact": "Exact", "NotOlderThan": "NotOlderThan"}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Given:
    """The options that have rules about each other."""

    match: str
    raw: str
    token: str
    initial: bool | None


def _validate(broken: Sequence[Cause]) -> None:
    """Refuse options that do not fit together (``errors.NewInvalid``).

    Raises:
        StatusError: 422, with a cause for each violated rule.
    """
    if not broken:
        return
    told = list(dict.fromkeys(f"{cause.field}: {cause.message}" for cause in broken))
    shown = told[0] if len(told) == 1 else f"[{', '.join(told)}]"
    raise StatusError(
        422,
        "Invalid",
        f'ListOptions.meta.k8s.io "" is invalid: {shown}',
        Details(group="meta.k8s.io", kind="ListOptions", causes=broken),
    )


def _broken_list(given: _Given) -> Sequence[Cause]:
    """``ValidateListOptions`` of a list."""
    rules = (
        (not given.raw, _forbidden(f"{_MATCH} is forbidden unless resourceVersion is provided")),
        (bool(given.token), _forbidden(f"{_MATCH} is forbidden when continue is provided")),
        (given.match not in _MATCHES, _unsupported(given.match, "Exact", "NotOlderThan", "")),
        (
            given.match == "Exact" and given.raw == "0",
            _forbidden(f'{_MATCH} "exact" is forbidden for resourceVersion "0"'),
        ),
    )
    broken = [cause for is_broken, cause in rules if given.match and is_broken]
    if given.initial is not None:
        broken.append(_forbidden(f"{_INITIAL} is forbidden for list", field=_INITIAL))
    return broken


def _broken_watch(given: _Given) -> Sequence[Cause]:
    """``validateWatchOptions``."""
    other = given.match != "NotOlderThan"
    rules = (
        (
            given.initial is not None and other,
            _forbidden(f"{_INITIAL} requires setting {_MATCH} to NotOlderThan"),
        ),
        (
            bool(given.match) and given.initial is None,
            _forbidden(f"{_MATCH} is forbidden for watch unless {_INITIAL} is provided"),
        ),
        (bool(given.match) and other, _unsupported(given.match, "NotOlderThan")),
        (
            bool(given.match) and bool(given.token),
            _forbidden(f"{_MATCH} is forbidden when continue is provided"),
        ),
    )
    return [cause for is_broken, cause in rules if is_broken]


def _forbidden(why: str, *, field: str = _MATCH) -> Cause:
    return Cause(reason="FieldValueForbidden", message=f"Forbidden: {why}", field=field)


def _unsupported(value: str, *supported: str) -> Cause:
    names = ", ".join(f'"{name}"' for name in supported)
    message = f'Unsupported value: "{value[:64]}": supported values: {names}'
    return Cause(reason="FieldValueNotSupported", message=message, field=_MATCH)


def _named(call: Call, terms: tuple[Term, ...]) -> tuple[Term, ...]:
    """Return the terms; a name in the path is one more, and may not contradict (``listOpts``)."""
    if not call.name:
        return terms
    wanted = [term.value for term in terms if term.field == "metadata.name" and term.equal]
    if wanted == [call.name]:
        return terms
    if terms:
        raise status.bad_request("fieldSelector metadata.name doesn't match requested name")
    return (selectors.named(call.name),)


def _page(token: str, raw: str) -> Page:
    page = paging.decode(token)
    if raw not in {"", "0"}:
        raise status.bad_request("specifying resource version is not allowed when using continue")
    return page


def _integer(asked: Mapping[str, str], name: str) -> int:
    text = asked.get(name, "")
    if not text:
        return 0
    shown = f'strconv.ParseInt: parsing "{text[:64]}"'
    if not _INTEGER.fullmatch(text):
        raise status.bad_request(f"{shown}: invalid syntax")
    if len(text) > 20 or not -_INT64 <= int(text) < _INT64:
        raise status.bad_request(f"{shown}: value out of range")
    return int(text)


def _boolean(asked: Mapping[str, str], name: str) -> bool:
    """Read a flag as upstream does: absent, ``0`` and ``false`` are false, the rest is true."""
    return name in asked and asked[name] != "0" and asked[name].lower() != "false"
