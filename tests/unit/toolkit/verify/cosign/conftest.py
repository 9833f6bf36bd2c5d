"""A Sigstore instance, and one artifact with the signatures that a test attaches to it."""

import pytest

from tests.fakes.cosignscene import ARTIFACT
from tests.fakes.signaturestore import SignatureStore
from tests.fakes.sigstore import Sigstore


@pytest.fixture(scope="module")
def sigstore() -> Sigstore:
    return Sigstore()


@pytest.fixture
def store() -> SignatureStore:
    return SignatureStore(ARTIFACT)
