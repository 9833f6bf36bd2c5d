"""Content negotiation: media type, transformation, and indentation for people.

``apiserver/pkg/endpoints/handlers/negotiation/negotiate.go``: clauses of ``Accept`` in order of
preference; unsupported ones are skipped. Protobuf and CBOR are among these, and all clients of the
toolkit list JSON after them.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from apiserver import status
from apiserver.call import Call

JSON: Final = "application/json"
YAML: Final = "application/yaml"
_LONGEST: Final = 4 << 10
_TRUE: Final = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_PEOPLE: Final = ("curl", "Wget", "Mozilla/5.0")

Form = Literal["", "Table", "PartialObjectMetadata", "PartialObjectMetadataList"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """The form of the answer; ``version`` is that of ``meta.k8s.io`` if ``form`` is set."""

    media_type: str = JSON
    form: Form = ""
    version: str = "v1"
    pretty: bool = False

    @property
    def api_version(self) -> str:
        """Return the group and version of a transformed answer."""
        return f"meta.k8s.io/{self.version}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Clause:
    """One of the things that a client takes."""

    type: str
    subtype: str
    weight: float = 1.0
    parameters: Mapping[str, str] = field(default_factory=dict)


def negotiate(call: Call, *, forms: frozenset[str] = frozenset()) -> Accepted:
    """Return the form that the client likes best of those that can be made.

    Raises:
        StatusError: 406, it takes none.
    """
    found = _first(call, (JSON, YAML), forms)
    if found is None:
        raise status.not_acceptable(JSON, YAML)
    return found


def require_json(call: Call) -> None:
    """Require that a body, if there is one, is declared as JSON.

    Raises:
        StatusError: 415 (``NegotiateInputSerializer``).
    """
    if not call.web.body_exists or "Content-Type" not in call.web.headers:
        return
    if call.web.content_type != JSON:
        raise status.StatusError(
            415,
            "UnsupportedMediaType",
            f"the body of the request was in an unknown format - accepted media types: {JSON}",
        )


def negotiate_stream(call: Call, *, forms: frozenset[str] = frozenset()) -> Accepted:
    """Return the form of a watch; only JSON has one.

    Raises:
        StatusError: 406, the client does not take it.
    """
    found = _first(call, (JSON, YAML), forms)
    if found is None or found.media_type != JSON:
        raise status.not_acceptable("application/json;stream=watch")
    return found


def parse_accept(header: str) -> list[Clause]:
    """Return the valid clauses, best first (``goautoneg``)."""
    clauses = [clause for part in header[:_LONGEST].split(",") for clause in _clause(part)]
    return sorted(clauses, key=lambda clause: (-clause.weight, _vagueness(clause)))


def _first(call: Call, offered: tuple[str, ...], forms: frozenset[str]) -> Accepted | None:
    pretty = _pretty(call)
    header = call.web.headers.get("Accept", "")
    if not header:
        return Accepted(pretty=pretty)
    for clause in parse_accept(header):
        for media_type in offered:
            if _takes(clause, media_type):
                found = _accept(clause, media_type, forms, pretty=pretty)
                if found is not None:
                    return found
    return None


def _takes(clause: Clause, media_type: str) -> bool:
    kind, _, subtype = media_type.partition("/")
    return clause.type in {kind, "*"} and clause.subtype in (
        {subtype, "*"} if clause.type == kind else {"*"}
    )


def _accept(
    clause: Clause, media_type: str, forms: frozenset[str], *, pretty: bool
) -> Accepted | None:
    """Return the form of a clause; None if it is not supported (acceptMediaTypeOptions)."""
    asked = clause.parameters
    if asked.get("stream", "") not in {"", "watch"} or asked.get("sv", "") not in {"", "v1"}:
        return None
    pretty = pretty or asked.get("pretty") == "1"
    if not asked.keys() & {"as", "g", "v"}:
        return Accepted(media_type=media_type, pretty=pretty)
    form, version = asked.get("as", ""), asked.get("v", "")
    if asked.get("g") != "meta.k8s.io" or version not in {"v1", "v1beta1"} or form not in forms:
        return None
    return Accepted(media_type=media_type, form=_FORMS[form], version=version, pretty=pretty)


_FORMS: Final[dict[str, Form]] = {
    "Table": "Table",
    "PartialObjectMetadata": "PartialObjectMetadata",
    "PartialObjectMetadataList": "PartialObjectMetadataList",
}
TRANSFORMATIONS: Final = frozenset(_FORMS)
"""The transformations of objects."""


def _clause(text: str) -> Iterator[Clause]:
    media_type, *rest = (part.strip(" ") for part in text.split(";"))
    kind, _, subtype = media_type.partition("/")
    if kind == "*" and not subtype:
        subtype = "*"
    if not kind or not subtype or "/" in subtype:
        return
    pairs = (part.partition("=") for part in rest)
    parameters = {name.strip(" "): value.strip(" ") for name, _, value in pairs if value}
    weight = _weight(parameters.pop("q", "1"))
    yield Clause(
        type=kind.strip(" "), subtype=subtype.strip(" "), weight=weight, parameters=parameters
    )


def _weight(text: str) -> float:
    try:
        weight = float(text)
    except ValueError:
        return 0.0
    return weight if 0.0 <= weight <= 1.0 else 0.0


def _vagueness(clause: Clause) -> int:
    return (clause.type == "*") + (clause.subtype == "*")


def _pretty(call: Call) -> bool:
    """Tell whether a person reads it (isPrettyPrint)."""
    asked = call.query.get("pretty", "")
    if asked:
        return asked in _TRUE
    return call.web.headers.get("User-Agent", "").startswith(_PEOPLE)
