"""An artifact store."""

from pathlib import Path

import pytest

from toolkit.artifact.storage import Storage


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return Storage(tmp_path / "root", advertised="artifacts.test")
