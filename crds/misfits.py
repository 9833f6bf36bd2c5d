"""What is wrong with a document, in words: the one place that reads msgspec's messages.

A message of msgspec names a type and a path. An author needs the field, its value, the rule, and
what to write. ``_ROWS`` has a row for each message; patterns are put into words by ``crds.forms``.
No value is shown that may be secret: without the document none is.
"""

import ast
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import msgspec
from msgspec import Struct, inspect

from crds import forms

_LONGEST: Final = 100
_REFERENCE: Final = "see the API reference for what the field holds"


@dataclass(frozen=True, slots=True, kw_only=True)
class Misfit:
    """One field that does not hold what it should; ``value`` is empty where it is not shown."""

    field: str
    why: str
    remedy: str
    value: str = ""

    def __str__(self) -> str:
        value = f" '{self.value}'" if self.value else ""
        return f"{self.field or 'the document'}{value}: {self.why}: {self.remedy}"


def told(error: Exception, document: Any = None, model: type[Struct] | None = None) -> str:
    """Return what is wrong as one line; errors of others speak for themselves."""
    if isinstance(error, msgspec.ValidationError):
        return str(explain(error, document, model))
    return str(error)


def explain(
    error: msgspec.ValidationError, document: Any = None, model: type[Struct] | None = None
) -> Misfit:
    """Return what is wrong.

    ``document`` is what was read: give it only where its values may be repeated. ``model`` is what
    it was read as; it tells the words that a field may hold.
    """
    said, steps = _split(str(error))
    found = _Found(steps, document, inspect.type_info(model) if model else None)
    for pattern, explained in _ROWS:
        if match := pattern.fullmatch(said):
            return explained(found, match)
    return found.misfit("it cannot be read", _REFERENCE)


_Step = str | int | None
"""A field, a place in a list, or an entry of a mapping of which msgspec does not tell the name."""

_PLACE: Final = re.compile(r"(?P<said>.*?)(?: - at (?:`key` in )?`\$(?P<path>[^`]*)`)?", re.DOTALL)
_STEP: Final = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]|\[(\.\.\.)\]")


def _split(message: str) -> tuple[str, list[_Step]]:
    match = _PLACE.fullmatch(message)
    if match is None:
        return message, []
    return match["said"], [_step(*each.groups()) for each in _STEP.finditer(match["path"] or "")]


def _step(name: str | None, number: str | None, _: str | None) -> _Step:
    return int(number) if number is not None else name


class _Found:
    """Where a document does not fit, and what is there."""

    def __init__(self, steps: list[_Step], document: Any, model: inspect.Type | None) -> None:
        self.document = document
        self.steps = steps
        self.type = model
        self.value: Any = document
        for number, step in enumerate(steps):
            at = self._entry(step, steps[number + 1 :])
            steps[number] = at
            self.type = _inner(self.type, at)
            self.value = _at(self.value, at)

    def misfit(self, why: str, remedy: str, *, below: str = "", shown: bool = True) -> Misfit:
        steps = [*self.steps, below] if below else self.steps
        return Misfit(
            field=_path(steps),
            why=why,
            remedy=remedy,
            value=self._shown() if shown and not below else "",
        )

    def _entry(self, step: _Step, rest: list[_Step]) -> _Step:
        """Return the name of a mapping's entry: the first one that is not of its type."""
        if step is not None or not isinstance(self.value, dict):
            return step
        kind = _inner(self.type, None)
        misfits = (name for name, value in self.value.items() if not _fits(value, kind, rest))
        return next(misfits, None)

    def _shown(self) -> str:
        if self.value is None or isinstance(self.value, (dict, list)):
            return ""
        if SECRET.intersection(str(step) for step in self.steps):
            return ""
        value, mark = self.value, ""
        text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
        if "@" in text and _at_host(self.steps):
            # What stands before it may be a user and a password.
            text, mark = text.rpartition("@")[2], "…@"
        dots = "…" if len(text) > _LONGEST else ""
        return mark + ascii(text[:_LONGEST])[1:-1] + dots


SECRET: Final = frozenset(
    {
        *("patch", "patches", "patchesStrategicMerge", "patchesJson6902", "substitute"),
        *("data", "stringData", "values", "annotations", "conversion"),
    }
)
"""Fields whose values are never repeated."""
_HOSTS: Final = frozenset({"url", "urls", "endpoint", "address", "proxy"})


def _at_host(steps: list[_Step]) -> bool:
    return not _HOSTS.isdisjoint(step for step in steps if isinstance(step, str))


def _at(value: Any, step: _Step) -> Any:
    if isinstance(value, dict) and isinstance(step, str):
        return value.get(step)
    if isinstance(value, list) and isinstance(step, int) and step < len(value):
        return value[step]
    return None


def _inner(kind: inspect.Type | None, step: _Step) -> inspect.Type | None:
    """Return the type of what is one step further in."""
    match _bare(kind):
        case inspect.StructType(fields=fields):
            return next((each.type for each in fields if each.encode_name == step), None)
        case inspect.ListType(item_type=item):
            return item
        case inspect.DictType(value_type=value):
            return value
        case _:
            return None


def _bare(kind: inspect.Type | None) -> inspect.Type | None:
    while True:
        match kind:
            case inspect.Metadata(type=inner):
                kind = inner
            case inspect.UnionType(types=types):
                kind = next(
                    (each for each in types if not isinstance(each, inspect.NoneType)), None
                )
            case _:
                return kind


def _fits(value: Any, kind: inspect.Type | None, rest: list[_Step]) -> bool:
    for step in rest:
        value, kind = _at(value, step), _inner(kind, step)
    expected = next((types for each, types in _PYTHON if isinstance(_bare(kind), each)), None)
    return expected is None or (isinstance(value, expected) and type(value) in _JSON)


_JSON: Final = (str, int, float, bool, list, dict)
_PYTHON: Final[tuple[tuple[type[inspect.Type], type], ...]] = (
    (inspect.StrType, str),
    (inspect.BoolType, bool),
    (inspect.IntType, int),
    (inspect.ListType, list),
    (inspect.DictType, dict),
    (inspect.StructType, dict),
)


def _path(steps: list[_Step]) -> str:
    return "".join(_written(step) for step in steps).removeprefix(".")


def _written(step: _Step) -> str:
    if isinstance(step, int):
        return f"[{step}]"
    return "[…]" if step is None else f".{step}"


_TYPES: Final = {
    "str": ("text", "quote it"),
    "int": ("a whole number", "write digits without quotes"),
    "float": ("a number", "write it without quotes"),
    "bool": ("true or false", "write one of them without quotes"),
    "array": ("a list", "begin each entry with '- '"),
    "object": ("an object", "write its fields below it"),
    "null": ("nothing", "leave the field out"),
}


def _type(found: _Found, match: re.Match[str]) -> Misfit:
    wanted = match["wanted"].split(" | ")
    rule = " or ".join(_TYPES.get(each, ("something else", ""))[0] for each in wanted)
    there = _TYPES.get(match["got"], ("something else", ""))[0]
    remedy = _example(found.type) or _TYPES.get(wanted[0], ("", _REFERENCE))[1]
    if match["got"] == "null":
        remedy = "write a value, or leave the field out"
    return found.misfit(f"it must be {rule}, and is {there}", remedy)


def _example(kind: inspect.Type | None) -> str:
    """Return what to write where more is known of a text than that it is one."""
    match _bare(kind):
        case inspect.StrType(pattern=str(pattern)):
            return forms.FORMS.get(pattern, ("", ""))[1]
        case inspect.LiteralType(values=values):
            return f"write {', '.join(str(each) for each in values)}"
        case _:
            return ""


def _pattern(found: _Found, match: re.Match[str]) -> Misfit:
    pattern = ast.literal_eval(match["pattern"])
    rule, remedy = forms.FORMS.get(pattern, (f"it must have the form {pattern}", _REFERENCE))
    return found.misfit(rule, remedy)


def _length(found: _Found, match: re.Match[str]) -> Misfit:
    unit = {"str": "characters", "array": "entries"}.get(match["what"], "fields")
    more = match["bound"] == ">="
    rule = f"it must have {'at least' if more else 'at most'} {match['number']} {unit}"
    return found.misfit(rule, "write more" if more else "shorten it")


def _range(found: _Found, match: re.Match[str]) -> Misfit:
    more = match["bound"].startswith(">")
    rule = f"it must be {'at least' if more else 'at most'} {match['number']}"
    return found.misfit(rule, f"write {match['number']} or {'more' if more else 'less'}")


def _enum(found: _Found, _: re.Match[str]) -> Misfit:
    remedy = _example(found.type) or _REFERENCE
    return found.misfit("it is not one of the words that the field takes", remedy)


_MISSING: Final[tuple[tuple[type[inspect.Type], str], ...]] = (
    # the type of the field, and what to write
    (inspect.BoolType, "write true or false"),
    (inspect.ListType, "write its entries below it, each after '- '"),
    (inspect.StructType, "write its fields below it"),
    (inspect.DictType, "write its fields below it"),
)


def _missing(found: _Found, match: re.Match[str]) -> Misfit:
    kind = _bare(_inner(found.type, match["name"]))
    remedy = next((told for each, told in _MISSING if isinstance(kind, each)), "write it")
    return found.misfit("it is missing", _example(kind) or remedy, below=match["name"])


def _unknown(found: _Found, match: re.Match[str]) -> Misfit:
    if found.document is None:
        return found.misfit("it has a field that does not exist", "remove it")
    return found.misfit("there is no such field", "correct its name", below=match["name"])


_ROWS: Final[tuple[tuple[re.Pattern[str], Callable[[_Found, re.Match[str]], Misfit]], ...]] = tuple(
    (re.compile(pattern, re.DOTALL), explained)
    for pattern, explained in (
        # what msgspec says, and who explains it
        (r"Expected `(?P<wanted>[a-z0-9| ]+)`, got `(?P<got>[a-z0-9]+)`", _type),
        (r"Expected `str` matching regex (?P<pattern>['\"].*)", _pattern),
        (
            r"Expected `(?P<what>str|array|object)` of length (?P<bound>>=|<=) (?P<number>\d+)",
            _length,
        ),
        (r"Expected `(?:int|float)` (?P<bound>>=|<=|>|<) (?P<number>-?[\d.e+]+)", _range),
        (r"Invalid enum value .*", _enum),
        (r"Object missing required field `(?P<name>[^`]+)`", _missing),
        (r"Object contains unknown field `(?P<name>[^`]+)`", _unknown),
    )
)
