"""Find SOPS ciphertext in a tree: a byte search, long before anything is parsed.

The result are candidates. A document that only mentions ciphertext is found too. An encrypted
document of any format is never missed, because every encrypted value has the same beginning.
"""

import os
from io import FileIO
from pathlib import Path
from typing import Final

from toolkit.artifact import threads
from toolkit.artifact.threads import Checkpoint

MARKER: Final = b"ENC[AES256_GCM"


async def suspects(tree: Path, *, omitted: str = "") -> frozenset[str]:
    """Return the paths below ``tree`` of files that contain ciphertext.

    Directories with the name ``omitted`` are passed over.
    """
    return await threads.run(lambda checkpoint: _scan(tree, omitted, checkpoint))


def _scan(tree: Path, omitted: str, checkpoint: Checkpoint) -> frozenset[str]:
    found = set()
    for parent, directories, names in os.walk(tree):
        directories[:] = [name for name in directories if name != omitted]
        for name in names:
            checkpoint()
            path = Path(parent, name)
            if path.is_file() and not path.is_symlink():
                with path.open("rb", buffering=0) as file:
                    if _contains(file, checkpoint):
                        found.add(path.relative_to(tree).as_posix())
    return frozenset(found)


_CHUNK: Final = 1 << 20


def _contains(file: FileIO, checkpoint: Checkpoint) -> bool:
    tail = b""
    while chunk := file.read(_CHUNK):
        checkpoint()
        if MARKER in tail + chunk:
            return True
        tail = chunk[-len(MARKER) + 1 :]
    return False
