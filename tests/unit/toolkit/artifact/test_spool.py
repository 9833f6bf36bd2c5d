"""A directory for what is on its way: made below a parent, or refused with the disk's reason."""

from pathlib import Path

import pytest

from toolkit.artifact import spool
from toolkit.errors import TransientError


async def test_a_disk_that_refuses_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(TransientError, match="cannot make a directory below") as caught:
        async with spool.directory(tmp_path / "file" / "below"):
            pytest.fail("there is no directory")

    assert caught.value.reason == "StorageOperationFailed"
