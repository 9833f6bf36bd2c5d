"""Authors with real SSH keys, made once a run."""

import pytest

from tests.testdata.signatures import generate
from tests.testdata.signatures.generate import Author


@pytest.fixture(scope="session")
def authors(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Author]:
    return generate.ssh_authors(tmp_path_factory.mktemp("authors"))
