"""A file that becomes an artifact as it is."""

import os
from pathlib import Path

import pytest

from toolkit.artifact import archive, limits
from toolkit.errors import TransientError


@pytest.mark.slow  # reads a gigabyte
def test_a_file_that_grows_too_large_while_it_is_copied_is_refused(tmp_path: Path) -> None:
    growing = tmp_path / "growing"
    growing.write_bytes(b"small")

    def grow() -> None:
        os.truncate(growing, limits.PACKED + 1)

    with (
        Path("/dev/null").open("wb") as nowhere,
        pytest.raises(TransientError, match="larger than 1024 MiB"),
    ):
        archive.copy(growing, nowhere, checkpoint=grow)
