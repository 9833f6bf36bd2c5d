"""Fixtures that tests of several folders use."""

import logging
from collections.abc import Iterator

import pytest


@pytest.fixture
def root() -> Iterator[logging.Logger]:
    """Give the root logger, and undo what is done to it."""
    logger = logging.getLogger()
    handlers, level = logger.handlers[:], logger.level
    yield logger
    logger.handlers[:] = handlers
    logger.setLevel(level)
