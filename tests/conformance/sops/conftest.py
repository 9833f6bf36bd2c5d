"""The real sops, built once."""

from pathlib import Path

import pytest

from tests.tools import programs


@pytest.fixture(scope="session")
def age_keygen_program() -> Path:
    """Return the program that makes age identities."""
    return programs.path("age-keygen")


@pytest.fixture(scope="session")
def sops_program() -> Path:
    """Return the program (``tests/tools/sops`` pins it)."""
    return programs.path("sops")
