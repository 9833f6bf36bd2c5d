"""Which objects a rule is about: kustomize's selector over rendered objects.

Names are anchored regular expressions (kustomize ``types.Selector``) and come from tenants, so
they are patterns of ``toolkit.regexp``, which bounds what one costs; plain names need no pattern at
all. Labels and annotations are matched by Kubernetes' label-selector expressions.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from toolkit import errors, regexp
from toolkit.objects import Json, dig, gvk_of, key_of

_MAX_SELECTOR: Final = 1024
_MAX_PATTERN: Final = 256
_PLAIN: Final = re.compile(r"[A-Za-z0-9-]*")
_REQUIREMENT: Final = re.compile(
    r"\s*(?:"
    r"(?P<absent>!)?\s*(?P<key>[\w./-]+)"
    r"(?:\s*(?P<op>==|=|!=)\s*(?P<value>[^,()!=\s]*)"
    r"|\s+(?P<set>in|notin)\s*\((?P<values>[^()]*)\))?"
    r")\s*(?:,|$)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Selector:
    """Matches objects; an empty field matches everything."""

    group: str = ""
    version: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""
    label_selector: str = ""
    annotation_selector: str = ""

    def matches(self, obj: Json) -> bool:
        """Tell whether the object is selected.

        Raises:
            StalledError: a pattern or selector is malformed.
        """
        gvk, key = gvk_of(obj), key_of(obj)
        named = (
            (self.group, gvk.group),
            (self.version, gvk.version),
            (self.kind, gvk.kind),
            (self.namespace, key.namespace),
            (self.name, key.name),
        )
        return (
            all(_anchored(pattern, text) for pattern, text in named)
            and _selected(self.label_selector, dig(obj, "metadata", "labels", default={}))
            and _selected(self.annotation_selector, dig(obj, "metadata", "annotations", default={}))
        )

    @property
    def size(self) -> int:
        """Return how many instructions its patterns have; one that is malformed has none.

        At worst each of them takes 10 ns at each character of a name.
        """
        return sum(map(_size, (self.group, self.version, self.kind, self.namespace, self.name)))

    def check(self) -> None:
        """Refuse what could never be matched.

        Raises:
            StalledError: a pattern or selector is malformed.
        """
        for pattern in (self.group, self.version, self.kind, self.namespace, self.name):
            _anchored(pattern, "")
        _requirements(self.label_selector)
        _requirements(self.annotation_selector)


def _size(pattern: str) -> int:
    if _PLAIN.fullmatch(pattern) or len(pattern) > _MAX_PATTERN:
        return 0
    try:
        return regexp.size(pattern)
    except ValueError:
        return 0


def _anchored(pattern: str, text: str) -> bool:
    if not pattern or pattern == text:
        return True
    if _PLAIN.fullmatch(pattern):
        return False
    if len(pattern) > _MAX_PATTERN:
        raise errors.StalledError(f"pattern is longer than {_MAX_PATTERN} characters")
    try:
        return regexp.compiled(pattern).fullmatch(text) is not None
    except ValueError as exc:
        raise errors.StalledError(f"malformed pattern {pattern!r}: {exc}") from exc


def _selected(selector: str, values: Mapping[str, str]) -> bool:
    return all(holds(values) for holds in _requirements(selector))


def _requirements(selector: str) -> list[Callable[[Mapping[str, str]], bool]]:
    if len(selector) > _MAX_SELECTOR:
        raise errors.StalledError(f"selector is longer than {_MAX_SELECTOR} characters")
    found, position = [], 0
    while position < len(selector):
        match = _REQUIREMENT.match(selector, position)
        if match is None or (match["absent"] and (match["op"] or match["set"])):
            raise errors.StalledError(f"malformed selector {selector!r}")
        found.append(_requirement(match))
        position = match.end()
    return found


def _requirement(match: re.Match[str]) -> Callable[[Mapping[str, str]], bool]:
    key, negated = match["key"], match["op"] == "!=" or match["set"] == "notin"
    if match["absent"]:
        return lambda values: key not in values
    if not (match["op"] or match["set"]):
        return lambda values: key in values
    wanted = {v.strip() for v in match["values"].split(",")} if match["set"] else {match["value"]}
    # a missing key satisfies != and notin (apimachinery labels.Requirement)
    return lambda values: (values.get(key) in wanted) is not negated
