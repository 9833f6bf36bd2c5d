"""Parse XML answers of object stores, which are untrusted.

Document types are refused, so no entity can be defined. Depth, elements and their attributes are
limited, and so is the input that the parser takes at once.
"""

from typing import Final
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers import expat

_MAX_DEPTH: Final = 16
_MAX_ELEMENTS: Final = 64_000
_MAX_ATTRIBUTES: Final = 8
_MAX_PIECE: Final = 16 << 10
"""Bytes between one tag's beginning and the next's."""


class XmlError(Exception):
    """The answer is not XML of the kind that is expected."""


def parse(data: bytes) -> Element:
    """Return the root element; names lose their namespace.

    Raises:
        XmlError: it is not well-formed, has a document type, or is too deep or too large.
    """
    _check_pieces(data)
    tree = _Tree()
    parser = expat.ParserCreate(namespace_separator=" ")
    parser.StartElementHandler = tree.start
    parser.EndElementHandler = tree.end
    parser.CharacterDataHandler = tree.builder.data
    parser.StartDoctypeDeclHandler = tree.refuse
    try:
        parser.Parse(data, True)  # noqa: FBT003  # expat's own signature: this is the last piece
    except (expat.ExpatError, ValueError, LookupError) as exc:  # An encoding may be unknown.
        raise XmlError("the answer is not well-formed XML") from exc
    return tree.builder.close()


def text(element: Element, name: str) -> str:
    """Return the text of a child; empty if there is none."""
    return element.findtext(name) or ""


def _check_pieces(data: bytes) -> None:
    """Refuse a tag of a million attributes before a parser has read them all."""
    at = 0
    while len(data) - at > _MAX_PIECE:
        last = data.rfind(b"<", at, at + _MAX_PIECE)
        if last < 0:
            raise XmlError("the answer has too much in one piece")
        at = last + 1


class _Tree:
    def __init__(self) -> None:
        self.builder = TreeBuilder()
        self._depth = 0
        self._elements = 0

    def start(self, name: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        self._elements += 1
        if self._depth > _MAX_DEPTH or self._elements > _MAX_ELEMENTS:
            raise XmlError("the answer is too deep or too large")
        if len(attributes) > _MAX_ATTRIBUTES:
            raise XmlError("the answer has too many attributes")
        self.builder.start(name.rpartition(" ")[2], attributes)

    def end(self, name: str) -> None:
        self._depth -= 1
        self.builder.end(name.rpartition(" ")[2])

    def refuse(self, *_: object) -> None:
        raise XmlError("the answer has a document type")
