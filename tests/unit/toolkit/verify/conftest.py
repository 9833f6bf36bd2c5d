"""Authors with real keys, made once a run."""

from collections.abc import Iterator

import pytest

from tests.testdata.signatures import generate
from tests.testdata.signatures.generate import Author


@pytest.fixture(scope="session")
def authors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Author]]:
    with generate.authors(tmp_path_factory.mktemp("authors")) as made:
        yield made
