"""A reader: what parses or evaluates foreign text, and the bounds that it states.

A row takes bytes and may raise the errors that its callers turn into a message. Everything else is
a fault: another error, a signal, more processor time or more memory than the row states.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.fuzz.languages import Language
from toolkit.errors import PenstockError

MAIN: Final = "main"
"""The reader runs in a process that others depend on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One reader.

    - ``samples`` are inputs that it takes, which the fuzzer damages; ``worst`` returns those that
      are made to cost it most, of the bytes that it is given, besides the bombs that every reader
      gets. Without ``bombs`` it gets only its own: an operation of the engine takes a second for
      some of them.
    - ``size`` is that of the largest worst inputs.
    - ``shape`` makes up inputs in the reader's language, if that is neither JSON nor YAML, which
      are made of the samples. ``examples`` is how many inputs the fuzzer feeds.
    - ``runs`` is where: in the main process, or the module of the worker.
    - ``seconds`` of processor time and ``memory`` in MiB are what one input may cost.
    - ``places`` are the modules of the reader with the families of parsers that they use, as
      ``tests.docs.parsing`` finds them.
    - ``operations`` are those of the engine that it calls.
    """

    name: str
    parse: Callable[[bytes], object]
    samples: Callable[[], tuple[bytes, ...]]
    places: tuple[str, ...] = ()
    operations: tuple[str, ...] = ()
    worst: Callable[[int], Iterable[bytes]] = lambda _: ()
    size: int = 1 << 20
    shape: Language | None = None
    examples: int = 150
    bombs: bool = True
    refuses: tuple[type[Exception], ...] = (PenstockError,)
    runs: str = MAIN
    seconds: float = 2.0
    memory: int = 256


def texts(*given: str) -> Callable[[], tuple[bytes, ...]]:
    """Return samples that are text."""
    return lambda: tuple(each.encode() for each in given)


def files(*paths: Path) -> Callable[[], tuple[bytes, ...]]:
    """Return samples that are files."""
    return lambda: tuple(path.read_bytes() for path in paths)


def text(data: bytes) -> str:
    """Return what the API server would let through in a string field."""
    return data.decode(errors="replace")


def each(*parsers: Callable[[bytes], object], refuses: tuple[type[Exception], ...]) -> Any:
    """Return a parser that feeds all of these, each of which may refuse."""

    def parse(data: bytes) -> object:
        for parser in parsers:
            try:
                parser(data)
            except refuses:
                continue
        return None

    return parse
