"""The link to the newest artifact: replaced in one step, or refused without leaving a trace."""

from pathlib import Path

import pytest

from toolkit.artifact import directory
from toolkit.errors import TransientError


def test_a_disk_that_refuses_the_link_is_told(tmp_path: Path) -> None:
    (tmp_path / "abc.tar.gz").touch()
    (tmp_path / "latest.tar.gz").mkdir()

    with pytest.raises(TransientError, match=r"cannot point 'latest\.tar\.gz' at") as caught:
        directory.link(tmp_path / "abc.tar.gz")

    assert caught.value.reason == "SymlinkUpdateFailed"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["abc.tar.gz", "latest.tar.gz"]
