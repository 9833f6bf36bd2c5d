"""INI files: sections of ``key = value`` as Go's ini.v1 reads and writes them.

SOPS uses that library, so its quoting, comments and alignment define the format. A comment belongs
to the section or key that follows it. In the tree it is the first entry of its section, or comes
after its key.
"""

import re
from collections.abc import Iterator
from typing import Final

from toolkit.decrypt.errors import DecryptionError
from toolkit.decrypt.tree import (
    MAX_NODES,
    Branch,
    Comment,
    Value,
    bytes_of,
    lines,
    only,
    plain_text,
    require_branch,
    text_of,
)


def load(data: bytes) -> list[Branch]:
    """Return one mapping of sections; keys before the first header are in ``DEFAULT``.

    Raises:
        DecryptionError: a line is not a section, key or comment; a key twice; too many lines.
    """
    return [_Reader(text_of(data.removeprefix(b"\xef\xbb\xbf"))).read()]


def dump(documents: list[Branch]) -> bytes:
    """Write the document, keys aligned as ini.v1 does.

    Raises:
        DecryptionError: a section is not a mapping, or holds nested values.
    """
    sections = list(only(documents).entries())
    text = ""
    for index, (name, value) in enumerate(sections):
        section = require_branch(value, "a section of an INI file")
        text += "".join(_comment_lines(_heading(section)))
        if index or name.upper() != _DEFAULT:
            text += f"[{name}]\n"
        elif not any(section.entries()):
            continue
        text += "".join(_section_lines(section))
        text += "\n" if index < len(sections) - 1 else ""
    return bytes_of(text)


_DEFAULT: Final = "DEFAULT"
_DELIMITER = re.compile("[=:]")
_TRIPLE: Final = '"""'


class _Reader:
    """Reads line by line; a value may take several of them."""

    def __init__(self, text: str) -> None:
        self._lines = self._counted(text)
        self._comment: list[str] = []
        self._names: set[str] = set()

    def read(self) -> Branch:
        section = Branch([])
        document = Branch([(_DEFAULT, section)])
        for line in self._lines:
            content = line.lstrip()
            if not content:
                continue
            if content[0] in "#;":
                self._comment.append(content)
            elif content[0] == "[":
                section = self._section(content, document)
            else:
                self._entry(content, section)
        return document

    def _counted(self, text: str) -> Iterator[str]:
        for number, line in enumerate(lines(text), start=1):
            if number > MAX_NODES:
                raise DecryptionError(f"the file has more than {MAX_NODES} lines")
            yield line

    def _section(self, line: str, document: Branch) -> Branch:
        end = line.rfind("]")
        if end < 2:
            raise DecryptionError("an INI section has no name or no closing bracket")
        section = Branch([])
        self._names.clear()
        self._comment.append(_inline_comment(line[end + 1 :]))
        self._attach(section)
        document.items.append((line[1:end], section))
        return section

    def _entry(self, line: str, section: Branch) -> None:
        name, rest = _split(line)
        if not name or name in self._names:
            raise DecryptionError("an INI key is empty, or occurs twice in its section")
        self._names.add(name)
        section.items.append((name, self._value(rest)))
        self._attach(section)

    def _attach(self, section: Branch) -> None:
        """Add the collected comment to the tree, without its first mark."""
        text = "".join(self._comment).strip()
        self._comment.clear()
        if text:
            section.items.append((Comment(text.lstrip(f"{text[0]} ")), None))

    def _value(self, rest: str) -> str:
        text = rest.lstrip()
        if not text:
            return ""
        quote = _TRIPLE if text.startswith(_TRIPLE) and len(text) > 3 else text[0]
        if quote in (_TRIPLE, "`"):
            end = text.rfind(quote, len(quote))
            return text[len(quote) : end] if end >= 0 else self._quoted_lines(text, quote)
        text = text.rstrip()
        if text.endswith("\\"):
            return self._continued_lines(text[:-1])
        mark = _mark(text)
        if mark >= 0:
            self._comment.append(text[mark:])
            text = text[:mark].rstrip()
        if len(text) > 1 and text[0] in "'\"" and text.find(text[0], 1) == len(text) - 1:
            return text[1:-1]
        return text

    def _quoted_lines(self, text: str, quote: str) -> str:
        parts = [text[len(quote) :]]
        for line in self._lines:
            end = line.rfind(quote)
            if end < 0:
                parts.append(line)
                continue
            self._comment.append(_inline_comment(line[end:]).strip())
            return "".join([*parts, line[:end]])
        raise DecryptionError("a quoted INI value is not closed")

    def _continued_lines(self, value: str) -> str:
        parts = [value]
        for line in self._lines:
            text = line.strip()
            parts.append(text.removesuffix("\\"))
            if not text.endswith("\\"):
                break
        return "".join(parts)


def _mark(text: str) -> int:
    """Return where a comment begins, or -1."""
    return min((at for at in (text.find("#"), text.find(";")) if at >= 0), default=-1)


def _inline_comment(text: str) -> str:
    mark = _mark(text)
    return text[mark:] if mark >= 0 else ""


def _split(line: str) -> tuple[str, str]:
    """Return the key and the text after its delimiter."""
    quote = next((mark for mark in (_TRIPLE, '"', "`") if line.startswith(mark)), "")
    end = line.find(quote, len(quote)) if quote else 0
    delimiter = _DELIMITER.search(line, end + len(quote)) if end >= 0 else None
    if delimiter is None:
        raise DecryptionError("an INI line is neither a section nor a key")
    name = line[len(quote) : end] if quote else line[: delimiter.start()]
    return name.strip(), line[delimiter.end() :]


def _heading(section: Branch) -> str:
    first = section.items[0][0] if section.items else ""
    return first.text if isinstance(first, Comment) else ""


def _comment_lines(text: str) -> Iterator[str]:
    for line in text.split("\n") if text else ():
        marked = f"{line[0]} {line[1:].strip()}" if line[:1] in ("#", ";") else f"; {line.strip()}"
        yield f"{marked}\n"


def _section_lines(section: Branch) -> Iterator[str]:
    names = {key: _quoted_name(key) for key, _ in section.entries()}
    width = max((len(bytes_of(name)) for name in names.values()), default=0)
    for index, (key, value) in enumerate(section.items):
        if isinstance(key, Comment):
            continue
        if isinstance(value, Branch | list):
            raise DecryptionError("an INI file cannot hold such nested values")
        following = section.items[index + 1][0] if index + 1 < len(section.items) else ""
        yield from _comment_lines(following.text if isinstance(following, Comment) else "")
        padding = " " * (width - len(bytes_of(names[key])))
        yield f"{names[key]}{padding} = {_quoted_value(value)}\n"


def _quoted_name(name: str) -> str:
    if '"' in name or _DELIMITER.search(name):
        return f"`{name}`"
    return f"{_TRIPLE}{name}{_TRIPLE}" if "`" in name else name


def _quoted_value(value: Value) -> str:
    text = plain_text(value) if not isinstance(value, Branch | list) else ""
    if "\n" in text or "`" in text:
        return f"{_TRIPLE}{text}{_TRIPLE}"
    if "#" in text or ";" in text:
        return f"`{text}`"
    return f'"{text}"' if text.strip() != text else text
