"""The real cosign, what it signs now, and a registry and a Sigstore instance for more."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.fakes.sigstore import Sigstore
from tests.tools import cosigncases, sign
from tests.tools.cosigncases import Cosign


@pytest.fixture(scope="session")
def fresh(cosign_program: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make the committed signatures anew, elsewhere."""
    assert cosign_program.is_file()
    directory = tmp_path_factory.mktemp("signatures")
    assert sign.main(["cosign", str(directory)]) == 0
    return directory / "cosign"


@pytest.fixture
def sigstore() -> Sigstore:
    """Return an instance of its own for the test."""
    return Sigstore()


@pytest.fixture
async def cosign_cli(
    cosign_program: Path, sigstore: Sigstore, tmp_path: Path
) -> AsyncIterator[Cosign]:
    """Return cosign with keys and services of the test's own."""
    async with cosigncases.ready(cosign_program, tmp_path, sigstore) as ready:
        yield ready
