"""What the image's own interpreter does while the image is built; it imports nothing of ours.

``compile ROOT`` makes bytecode of every module below ``ROOT``, as if ``ROOT`` were ``/``.
``compress`` is gzip(1) without name and time. ``import NAME…`` imports modules and all that is in
them. ``load FILE…`` loads C libraries. ``trust FILE`` reads certificates of authorities.

Whatever has an interpreter or a compression library of another version would get other bytes.
"""

import importlib
import pkgutil
import py_compile
import ssl
import sys
import zlib
from collections.abc import Callable, Mapping, Sequence
from ctypes import CDLL
from pathlib import Path
from types import MappingProxyType
from typing import Final

_GZIP: Final = 31
"""zlib's ``windowBits`` for the greatest window in gzip's format; its header has no time."""
_PIECE: Final = 1 << 20


def _compile(arguments: Sequence[str]) -> None:
    root = Path(arguments[0])
    for path in sorted(root.rglob("*.py")):
        py_compile.compile(
            str(path),
            dfile=f"/{path.relative_to(root)}",
            doraise=True,
            # The time of the source is not looked at, and neither is the source.
            invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
        )


def _compress(_: Sequence[str]) -> None:
    compressor = zlib.compressobj(level=6, wbits=_GZIP)
    while piece := sys.stdin.buffer.read(_PIECE):
        sys.stdout.buffer.write(compressor.compress(piece))
    sys.stdout.buffer.write(compressor.flush())


def _import(names: Sequence[str]) -> None:
    for name in names:
        module = importlib.import_module(name)
        for found in pkgutil.walk_packages(getattr(module, "__path__", ()), f"{name}."):
            if not found.name.endswith(".__main__"):
                importlib.import_module(found.name)


def _load(paths: Sequence[str]) -> None:
    for path in paths:
        CDLL(path)


def _trust(paths: Sequence[str]) -> None:
    ssl.create_default_context(cafile=paths[0])


_COMMANDS: Final[Mapping[str, Callable[[Sequence[str]], None]]] = MappingProxyType(
    {"compile": _compile, "compress": _compress, "import": _import, "load": _load, "trust": _trust}
)

if __name__ == "__main__":
    _COMMANDS[sys.argv[1]](sys.argv[2:])
