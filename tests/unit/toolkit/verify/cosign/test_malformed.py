"""Evidence with one malformed part each, and the error that names the part."""

import hashlib
import json

import pytest

from tests.fakes import cosignsigner
from tests.fakes.cosignscene import ARTIFACT, refusal, trusting
from tests.fakes.cosignsigner import BUNDLE
from tests.fakes.signaturestore import SignatureStore
from tests.fakes.sigstore import Sigstore
from toolkit.verify.cosign import evidence
from toolkit.verify.cosign.steps import Step
from toolkit.verify.signature import VerificationError

DIGEST = f"sha256:{hashlib.sha256(ARTIFACT).hexdigest()}"
SIMPLE = cosignsigner.simple(DIGEST)
ENTRY = "dev.sigstore.cosign/bundle"


def said(payload: bytes, annotations: dict[str, str]) -> str:
    with pytest.raises(VerificationError) as caught:
        evidence.from_simple_signing(payload, annotations, digest=DIGEST)
    return str(caught.value)


def test_old_signature_must_be_there() -> None:
    assert "the annotation 'dev.cosignproject.cosign/signature' is missing" in said(SIMPLE, {})


def test_payload_has_a_bound() -> None:
    assert f"has more than {evidence.MAX_BYTES} bytes" in said(b" " * evidence.MAX_BYTES + b" ", {})


def test_old_log_entry_must_name_its_log() -> None:
    annotations = cosignsigner.simple_layer(Sigstore(), SIMPLE)
    entry = json.loads(annotations[ENTRY])
    entry["Payload"]["logID"] = "no hex"

    assert "the log entry names no log" in said(SIMPLE, {**annotations, ENTRY: json.dumps(entry)})


async def test_referrer_without_a_bundle_is_no_signature(
    store: SignatureStore, sigstore: Sigstore
) -> None:
    store.attach(b"{}", "text/plain", artifact_type=f"{BUNDLE};version=0.3")

    refused = await refusal(store, trusting(sigstore))

    assert (refused.step, "it holds no bundle" in str(refused)) == (Step.FOUND, True)
