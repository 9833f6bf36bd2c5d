"""A full disk is told with its volume and the flag that chooses it."""

import errno
import os

import pytest

from toolkit import disk


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_volume_and_its_flag_are_named(number: int) -> None:
    error = OSError(number, os.strerror(number))

    told = disk.why(error, "/data", flag="--storage-path")

    assert told.startswith(os.strerror(number))
    assert "the volume of '/data' (--storage-path) is full; free space or enlarge it" in told


def test_another_failure_keeps_its_reason() -> None:
    assert disk.why(OSError(errno.EACCES, "Permission denied"), "/data") == "Permission denied"
