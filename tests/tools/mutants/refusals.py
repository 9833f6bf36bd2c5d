"""Find the refusals of a module, and put a switch before each of them.

A refusal is a ``raise``, a ``return False``, or a ``return`` of a new ``Finding`` or ``Violation``.
The switch asks ``stands(key)``: while it says yes the module does what it always does; when it says
no, a ``raise`` or a finding is passed over and ``False`` becomes ``True``. So one loaded module
holds all of its mutants.

A key is the file, the function and the message, without line numbers, so that it survives edits
elsewhere in the file.
"""

import ast
from collections import Counter
from dataclasses import dataclass, field
from typing import Final

SWITCH: Final = "__stands__"
_FINDINGS: Final = frozenset({"Finding", "Violation"})
_LONGEST: Final = 160


@dataclass(frozen=True, slots=True, order=True)
class Refusal:
    """One place where a module says no; ``line`` is for people and not a part of the key."""

    path: str
    function: str
    text: str
    line: int = field(compare=False)

    @property
    def key(self) -> str:
        """Return what names the refusal in exceptions and results."""
        return f"{self.path}::{self.function}::{self.text}"


def instrument(source: str, path: str) -> tuple[ast.Module, list[Refusal]]:
    """Return the module with a switch before each refusal, and the refusals in their order."""
    switches = _Switches(path)
    tree = switches.visit(ast.parse(source, path))
    return ast.fix_missing_locations(tree), switches.found


class _Switches(ast.NodeTransformer):
    def __init__(self, path: str) -> None:
        self.found: list[Refusal] = []
        self._path = path
        self._scope: list[str] = []
        self._times: Counter[tuple[str, str]] = Counter()

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        return self._inside(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        return self._inside(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        return self._inside(node)

    def visit_Raise(self, node: ast.Raise) -> ast.AST:
        return ast.copy_location(ast.If(self._asked(node, node.exc), [node], []), node)

    def visit_Return(self, node: ast.Return) -> ast.AST:
        if isinstance(node.value, ast.Constant) and node.value.value is False:
            node.value = ast.UnaryOp(ast.Not(), self._asked(node, node.value))
        elif isinstance(node.value, ast.Call) and _name(node.value.func) in _FINDINGS:
            return ast.copy_location(ast.If(self._asked(node, node.value), [node], []), node)
        return node

    def _inside(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> ast.AST:
        self._scope.append(node.name)
        self.generic_visit(node)
        self._scope.pop()
        return node

    def _asked(self, node: ast.Raise | ast.Return, value: ast.expr | None) -> ast.Call:
        function, text = ".".join(self._scope), _text(node, value)
        self._times[function, text] += 1
        if (times := self._times[function, text]) > 1:
            text = f"{text} #{times}"
        refusal = Refusal(self._path, function, text, node.lineno)
        self.found.append(refusal)
        asked = ast.Call(ast.Name(SWITCH, ast.Load()), [ast.Constant(refusal.key)], [])
        return ast.copy_location(asked, node)


def _text(node: ast.Raise | ast.Return, value: ast.expr | None) -> str:
    """Return the message, with ``{}`` for what is filled in; the statement where there is none."""
    for found in ast.walk(value) if isinstance(value, ast.Call) else ():
        message = ""
        if isinstance(found, ast.Constant) and isinstance(found.value, str):
            message = found.value
        elif isinstance(found, ast.JoinedStr):
            message = "".join(_piece(part) for part in found.values)
        if " " in message.strip():
            return message[:_LONGEST]
    return ast.unparse(node)[:_LONGEST]


def _piece(part: ast.expr) -> str:
    return str(part.value) if isinstance(part, ast.Constant) else "{}"


def _name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
