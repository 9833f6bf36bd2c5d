"""Print trees as templates of Helm.

Scalars are printed as JSON, which is YAML, so none is read as another type; braces of other
template languages are escaped. The name of the namespace becomes that of the release.
"""

import json
import re
from collections.abc import Iterator
from typing import Any, Final

from cli.chart import holes
from cli.chart.merging import Choice, Condition, Leaf, Listed, Mapped, MergeError, Node, Part
from toolkit.kube import rbac

_INSTANCE: Final = "app.kubernetes.io/instance"
"""A label whose value happens to be the namespace; selectors have it too, so it is constant."""
_RELEASE: Final = "{{ $.Release.Namespace }}"
_OPENING: Final = "{{"
_PLAIN: Final = re.compile(r"[a-zA-Z][a-zA-Z-]{3,}(?<!true)(?<!null)(?<!false)")
"""Keys that no reader takes for anything but a string."""


def switch(component: str) -> str:
    """Return the value that switches a component on."""
    head, *rest = component.split("-")
    return f"$.Values.components.{head}{''.join(each.capitalize() for each in rest)}.enabled"


def condition(wanted: Condition) -> str:
    """Return a condition of a template; empty if it always holds."""
    terms = [_any([switch(each) for each in wanted.any_of])] if wanted.any_of else []
    terms += [f"(not {_any([switch(each) for each in wanted.none_of])})"] * bool(wanted.none_of)
    return terms[0] if len(terms) == 1 else f"and {' '.join(terms)}" if terms else ""


def _any(terms: list[str]) -> str:
    return terms[0] if len(terms) == 1 else f"(or {' '.join(terms)})"


def when(wanted: str, lines: Iterator[str] | list[str]) -> Iterator[str]:
    """Yield the lines, bound to a condition if there is one."""
    if wanted:
        yield f"{{{{- if {wanted} }}}}"
    yield from lines
    if wanted:
        yield "{{- end }}"


class Printer:
    """Prints one object; ``process`` is the section of the values that is about it, if any."""

    def __init__(self, process: str = "") -> None:
        self._process = process

    def object(self, kind: str, node: Node) -> Iterator[str]:
        """Yield the lines of a document."""
        yield "---"
        yield from self._node(node, kind, 0)

    def _node(self, node: Node, path: str, indent: int) -> Iterator[str]:
        """Yield the lines of a mapping or list."""
        if isinstance(node, Mapped | Listed):
            for part in node.parts:
                yield from self._guarded(part, path, indent)
            yield from self._extra(path, indent)
        if self._process and path == holes.POD and isinstance(node, Mapped):
            yield from self._affinity(node, indent)

    def _guarded(self, part: Part, path: str, indent: int) -> Iterator[str]:
        here = f"{path}.{part.key}"
        if self._process and here == holes.AFFINITY:
            return  # Printed last, with the value instead.
        yield from when(condition(part.condition), self._part(part, path, indent))

    def _part(self, part: Part, path: str, indent: int) -> Iterator[str]:
        if not part.key:
            yield from self._item(part.node, path, indent)
            return
        here, key = f"{path}.{part.key}", f"{' ' * indent}{_key(part.key)}:"
        if hole := self._hole(here, part.node):
            yield f"{key} {hole}"
        elif isinstance(part.node, Mapped | Listed):
            yield key
            yield from self._node(part.node, here, indent + 2)
        else:
            yield f"{key} {scalar(part.node, part.key)}"

    def _item(self, node: Node, path: str, indent: int) -> Iterator[str]:
        if not isinstance(node, Mapped | Listed):
            yield f"{' ' * indent}- {scalar(node, '')}"
            return
        yield f"{' ' * indent}-"
        yield from self._node(node, f"{path}[0]", indent + 2)

    def _hole(self, path: str, node: Node) -> str:
        """Return the template text that replaces a constant of the base, if there is one."""
        if not self._process:
            return ""
        match path:
            case holes.REPLICAS if isinstance(node, Leaf | Choice):
                value, own = f"$.Values.{self._process}.replicas", scalar(node, "")
                unset = f'{{{{ if kindIs "invalid" {value} }}}}'
                return f"{unset}{own}{{{{ else }}}}{{{{ {value} }}}}{{{{ end }}}}"
            case holes.POD_LABELS:
                return f"{{{{ merge {_dict(node)} $.Values.{self._process}.podLabels | toJson }}}}"
            case holes.POD_ANNOTATIONS:
                own = f"$.Values.{self._process}.podAnnotations"
                return f"{{{{ mergeOverwrite {_dict(node)} {own} | toJson }}}}"
        return holes.VALUES.get(path, "").replace("PROCESS", self._process)

    def _extra(self, path: str, indent: int) -> Iterator[str]:
        """Yield template text that values add to the end of a mapping or list."""
        if not self._process:
            return
        space = " " * indent
        if path == holes.ARGUMENTS:
            yield f"{{{{- range $.Values.{self._process}.extraArgs }}}}"
            yield f"{space}- {{{{ . | quote }}}}"
            yield "{{- end }}"
        for key, template in holes.OPTIONAL.get(path, {}).items():
            value = template.replace("PROCESS", self._process)
            yield from when(value, [f"{space}{key}: {{{{ {value} | toJson }}}}"])

    def _affinity(self, pod: Mapped, indent: int) -> Iterator[str]:
        """Yield the affinity of a pod, which a value replaces as a whole."""
        value = f"$.Values.{self._process}.affinity"
        space = " " * indent
        yield f"{{{{- if {value} }}}}"
        yield f"{space}affinity: {{{{ {value} | toJson }}}}"
        yield "{{- else }}"
        for part in pod.parts:
            if part.key == "affinity":
                yield from when(condition(part.condition), self._part(part, holes.POD, indent))
        yield "{{- end }}"


def scalar(node: Leaf | Choice, key: str) -> str:
    """Return a scalar in the form after its key."""
    if isinstance(node, Leaf):
        return _literal(node.value, key)
    chosen, otherwise = _literal(node.chosen.value, key), _literal(node.otherwise.value, key)
    return f"{{{{ if {switch(node.component)} }}}}{chosen}{{{{ else }}}}{otherwise}{{{{ end }}}}"


def _literal(value: Any, key: str) -> str:
    text = json.dumps(value, ensure_ascii=False).replace(_OPENING, '{{ "{{" }}')
    return text if key == _INSTANCE else text.replace(rbac.NAMESPACE, _RELEASE)


def _key(key: str) -> str:
    return key if _PLAIN.fullmatch(key) else json.dumps(key)


def _dict(node: Node) -> str:
    """Return an expression for a mapping that no component changes."""
    words = []
    for part in node.parts if isinstance(node, Mapped) else ():
        if not isinstance(part.node, Leaf) or part.condition != Condition():
            raise MergeError(f"a component changes {part.key}, which values are merged with")
        words += [json.dumps(part.key), json.dumps(part.node.value)]
    return f"(dict {' '.join(words)})"
