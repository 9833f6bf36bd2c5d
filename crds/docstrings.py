"""The texts below attributes, read from the source of the module that a struct is in.

Python drops a string that follows an attribute, and the model library knows no field docs but
``Meta(description=…)``, which buries a field's type under its text. So the generator reads the
source once, and so does the aggregated API when it starts.
"""

import ast
import inspect
import sys
from collections.abc import Iterator, Mapping
from functools import cache

from msgspec import Struct


def field_docs(struct: type[Struct]) -> Mapping[str, str]:
    """Return the text of each attribute that has one, as paragraphs of one line each.

    An older version (a module named ``<kind>_<version>``) says only what is its own: other texts
    are those of the struct with the same name in the newest version. A struct that extends another
    has its texts too.
    """
    texts: dict[str, str] = {}
    for each in reversed(struct.__mro__):
        if issubclass(each, Struct) and each is not Struct:
            texts |= _own_docs(each)
    return texts


def class_doc(struct: type[Struct]) -> str:
    """Return the struct's docstring, as paragraphs of one line each."""
    return _unwrap(struct.__doc__ or "")


def _own_docs(struct: type[Struct]) -> dict[str, str]:
    newest, _, _ = struct.__module__.partition("_v")
    texts: dict[str, str] = {}
    for module in (newest, struct.__module__):
        texts |= _module_docs(module).get(struct.__name__, {})
    return texts


@cache
def _module_docs(module: str) -> dict[str, dict[str, str]]:
    tree = ast.parse(inspect.getsource(sys.modules[module]))
    return {
        node.name: dict(_documented(node)) for node in tree.body if isinstance(node, ast.ClassDef)
    }


def _documented(node: ast.ClassDef) -> Iterator[tuple[str, str]]:
    for statement, following in zip(node.body, node.body[1:], strict=False):
        if not isinstance(statement, ast.AnnAssign) or not isinstance(statement.target, ast.Name):
            continue
        match following:
            case ast.Expr(value=ast.Constant(value=str(text))):
                yield statement.target.id, _unwrap(text)


def _unwrap(text: str) -> str:
    paragraphs = inspect.cleandoc(text).split("\n\n")
    return "\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)
