"""Files of keys and certificates are read within bounds."""

from pathlib import Path

import pytest

from cli import errors, servers


def test_a_file_is_read_and_none_is_nothing(tmp_path: Path) -> None:
    file = tmp_path / "ca.pem"
    file.write_bytes(b"pem")

    assert (servers.content(file), servers.content(None)) == (b"pem", b"")


def test_what_cannot_be_a_key_is_refused(tmp_path: Path) -> None:
    giant = tmp_path / "giant"
    giant.write_bytes(b"x" * ((1 << 20) + 1))

    with pytest.raises(errors.UsageError, match="is larger than 1048576 bytes"):
        servers.content(giant)
    with pytest.raises(errors.UsageError, match=r"cannot read .*: Is a directory"):
        servers.content(tmp_path)
