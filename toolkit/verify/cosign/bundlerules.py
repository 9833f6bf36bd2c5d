"""Rules for the content of a bundle, by version: part of step 2 of a cosign proof (see `steps`).

The rules are those of protobuf-specs (sigstore_bundle.proto, sigstore_rekor.proto), as sigstore-go
enforces them when it loads a bundle (pkg/bundle/bundle.go, ``validate``; pkg/tlog/entry.go). A
bundle that violates a rule is refused as a whole, even if its other parts would be a proof.
"""

from collections.abc import Callable
from types import MappingProxyType
from typing import Final

from toolkit.verify.cosign.messages import Bundle, shown
from toolkit.verify.cosign.steps import Step
from toolkit.verify.signature import VerificationError

PREFIX: Final = "application/vnd.dev.sigstore.bundle"

_VERSIONS: Final = MappingProxyType(
    {
        f"{PREFIX}+json;version=0.1": 1,
        f"{PREFIX}+json;version=0.2": 2,
        f"{PREFIX}+json;version=0.3": 3,
        f"{PREFIX}.v0.3+json": 3,
    }
)
_PROOFS_SINCE: Final = 2
_NO_CHAINS_SINCE: Final = 3


def check(bundle: Bundle) -> None:
    """Refuse a bundle that its version does not allow.

    Raises:
        VerificationError: it breaks a rule (step 2).

    """
    version = _VERSIONS.get(bundle.media_type)
    if version is None:
        raise _refused(f"bundles of type '{shown(bundle.media_type)}' are not known")
    for allowed, problem in _RULES:
        if not allowed(bundle, version):
            raise _refused(f"{problem} (version 0.{version})")


def _refused(message: str) -> VerificationError:
    return VerificationError(message, step=Step.READABLE)


def _one_signature(bundle: Bundle, _version: int) -> bool:
    return bundle.message_signature is None or bundle.dsse_envelope is None


def _one_signer(bundle: Bundle, _version: int) -> bool:
    material = bundle.verification_material
    named = (material.public_key, material.certificate, material.x509_certificate_chain)
    return sum(one is not None for one in named) <= 1


def _certificate(bundle: Bundle, version: int) -> bool:
    chain = bundle.verification_material.x509_certificate_chain
    return chain is None or version < _NO_CHAINS_SINCE


def _promised(bundle: Bundle, version: int) -> bool:
    entries = bundle.verification_material.tlog_entries
    return version >= _PROOFS_SINCE or all(entry.inclusion_promise for entry in entries)


def _proved(bundle: Bundle, version: int) -> bool:
    entries = bundle.verification_material.tlog_entries
    return version < _PROOFS_SINCE or all(entry.inclusion_proof for entry in entries)


def _with_checkpoints(bundle: Bundle, _version: int) -> bool:
    proofs = [entry.inclusion_proof for entry in bundle.verification_material.tlog_entries]
    return all(proof is None or proof.checkpoint for proof in proofs)


def _kinds(bundle: Bundle, _version: int) -> bool:
    return all(entry.kind_version for entry in bundle.verification_material.tlog_entries)


def _different_entries(bundle: Bundle, _version: int) -> bool:
    entries = bundle.verification_material.tlog_entries
    return len({(entry.log_id.key_id, entry.log_index) for entry in entries}) == len(entries)


def _different_timestamps(bundle: Bundle, _version: int) -> bool:
    data = bundle.verification_material.timestamp_verification_data
    stamps = [stamp.signed_timestamp for stamp in data.rfc3161_timestamps] if data else []
    return len(set(stamps)) == len(stamps)


_RULES: Final[tuple[tuple[Callable[[Bundle, int], bool], str], ...]] = (
    # rule: message if the rule is violated
    (_one_signature, "the bundle holds both a signature of a message and an envelope"),
    (_one_signer, "the bundle names its signer in more than one way"),
    (_certificate, "the bundle holds a chain of certificates instead of a single one"),
    (_promised, "a log entry of the bundle has no inclusion promise"),
    (_proved, "a log entry of the bundle has no inclusion proof"),
    (_with_checkpoints, "an inclusion proof of the bundle has no checkpoint"),
    (_kinds, "a log entry of the bundle does not say its kind and version"),
    (_different_entries, "the bundle holds a log entry twice"),
    (_different_timestamps, "the bundle holds a timestamp twice"),
)
