r"""Dotenv files: one ``KEY=value`` a line, ``#`` comments, newlines in values written as ``\n``."""

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
    text_of,
)


def load(data: bytes) -> list[Branch]:
    """Return the lines as one flat mapping; empty lines carry nothing.

    Raises:
        DecryptionError: a line is neither a comment nor an assignment, or there are too many.
    """
    branch = Branch([])
    for number, whole in enumerate(lines(text_of(data)), start=1):
        line = whole.removesuffix("\n")
        if number > MAX_NODES:
            raise DecryptionError(f"the file has more than {MAX_NODES} lines")
        if not line:
            continue
        if line[0] == "#":
            branch.items.append((Comment(line[1:]), None))
            continue
        key, assigned, value = line.partition("=")
        if not assigned:
            raise DecryptionError(f"line {number} is neither a comment nor an assignment")
        branch.items.append((key, value.replace("\\n", "\n")))
    return [branch]


def dump(documents: list[Branch]) -> bytes:
    """Write the document.

    Raises:
        DecryptionError: it has nested values.
    """
    return bytes_of("".join(_line(key, value) for key, value in only(documents).items))


def _line(key: str | Comment, value: Value) -> str:
    if isinstance(key, Comment):
        return f"#{key.text}\n"
    if isinstance(value, Branch | list):
        raise DecryptionError("a dotenv file cannot hold nested values")
    return f"{key}={plain_text(value)}".replace("\n", "\\n") + "\n"
