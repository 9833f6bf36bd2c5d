"""Make the committed signatures anew: ``python -m tests.tools.sign cosign [directory]``.

They are other bytes each time, and the same cases in the same files.
"""

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

from tests.tools import cosigncases

TESTDATA: Final = Path(__file__).parents[1] / "testdata"

GENERATORS: Final[Mapping[str, Callable[[Path], None]]] = MappingProxyType(
    {
        # what signs, and the name of the directory: what runs it
        "cosign": cosigncases.generate,
    }
)


def main(arguments: list[str]) -> int:
    """Run the generators that are named, or all; the last argument may be a directory."""
    directory = TESTDATA
    if arguments and arguments[-1] not in GENERATORS:
        directory = Path(arguments.pop())
    for name in arguments or GENERATORS:
        GENERATORS[name](directory / name)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
