"""A tree that changes while it is packed."""

import io
import secrets
from pathlib import Path
from typing import Any

import pytest

from toolkit.artifact import archive
from toolkit.artifact.ignore import Ignore
from toolkit.errors import TransientError


class Truncating(io.BytesIO):
    """Empties a file when the first bytes of the archive are written."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self._file = file

    def write(self, data: Any) -> int:
        self._file.write_bytes(b"")
        return super().write(data)


def test_a_file_that_becomes_shorter_while_it_is_read_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "tree" / "a"
    file.parent.mkdir()
    file.write_bytes(secrets.token_bytes(4 << 20))

    with pytest.raises(TransientError, match="'a' changed while read"):
        archive.pack(tmp_path / "tree", Truncating(file), Ignore.from_rules(None))
