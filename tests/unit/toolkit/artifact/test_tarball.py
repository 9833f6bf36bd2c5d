"""Headers that lie about sizes."""

import gzip
import tarfile
from pathlib import Path

import pytest

from toolkit.artifact import archive
from toolkit.artifact.limits import Limits
from toolkit.errors import TransientError


def test_a_negative_size_is_refused(tmp_path: Path) -> None:
    header = bytearray(tarfile.TarInfo("a").tobuf(tarfile.GNU_FORMAT))
    header[124:136] = b"\xff" * 12  # minus one, in base 256
    header[148:156] = b"%06o\0 " % tarfile.calc_chksums(bytes(header))[0]
    (tmp_path / "packed").write_bytes(gzip.compress(bytes(header) + bytes(1024)))

    with pytest.raises(TransientError, match="a size is negative"):
        archive.check(tmp_path / "packed", Limits())
