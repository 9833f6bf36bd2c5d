"""Parse the signatures of an artifact: bundles, and signatures of the old format.

A bundle (protobuf-specs, sigstore_bundle.proto) contains a DSSE envelope around an in-toto
statement, or a plain signature over the manifest. The old format is a layer with the signed payload
("simple signing"), and annotations for the rest. Both become `Evidence`, of which only the signed
subject is checked here (steps 2 to 4). Public keys in a bundle are ignored, because trusted keys
come from the policy.
"""

import binascii
from base64 import b64decode
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Final, TypeVar

import msgspec
from cryptography import x509

from crds import misfits
from toolkit.verify import certificates
from toolkit.verify.cosign import bundlerules
from toolkit.verify.cosign.messages import (
    Bundle,
    Envelope,
    InclusionPromise,
    LogEntry,
    LogId,
    Material,
    Message,
    MessageSignature,
    Natural,
    shown,
)
from toolkit.verify.cosign.steps import Step
from toolkit.verify.signature import VerificationError

MAX_BYTES: Final = 1 << 20
"""A larger bundle or payload is not a signature."""
BUNDLE: Final = bundlerules.PREFIX
SIMPLE_SIGNING: Final = "application/vnd.dev.cosign.simplesigning.v1+json"
SIGN_PREDICATE: Final = "https://sigstore.dev/cosign/sign/v1"

_ANNOTATION: Final = "dev.cosignproject.cosign/signature"
_CERTIFICATE: Final = "dev.sigstore.cosign/certificate"
_LOG_ENTRY: Final = "dev.sigstore.cosign/bundle"
_TIMESTAMP: Final = "dev.sigstore.cosign/rfc3161timestamp"
_IN_TOTO: Final = "application/vnd.in-toto+json"
_STATEMENTS: Final = ("https://in-toto.io/Statement/v0.1", "https://in-toto.io/Statement/v1")
_SIMPLE_TYPE: Final = "cosign container image signature"
_MAX_SUBJECTS: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """A signature and its material; all of it is untrusted.

    ``message`` are the signed bytes; ``payload`` is their content in a DSSE envelope.
    """

    message: bytes
    signature: bytes
    payload: bytes | None
    certificate: x509.Certificate | None
    entries: tuple[LogEntry, ...]
    timestamps: tuple[bytes, ...]


def from_bundle(data: bytes, *, digest: str, manifest: bytes | None) -> Evidence:
    """Parse a bundle that should sign the artifact with this digest.

    ``manifest`` are the bytes of the artifact, which some bundles sign directly.

    Raises:
        VerificationError: it is not a signature, or not of this artifact (steps 2 to 4).
    """
    bundle = _decoded(_BUNDLE, data, "the bundle")
    bundlerules.check(bundle)
    material = bundle.verification_material
    payload = None
    if bundle.dsse_envelope is not None:
        envelope = bundle.dsse_envelope
        signature, payload = _signature(envelope), envelope.payload
        _check_statement(envelope, digest)
        message = _pre_authentication(envelope.payload_type, envelope.payload)
    elif bundle.message_signature is not None and manifest is not None:
        signature, message = bundle.message_signature.signature, manifest
        _check_digest(bundle.message_signature, digest)
    else:
        raise _unreadable("the bundle holds no signature")
    return Evidence(
        message=message,
        signature=signature,
        payload=payload,
        certificate=_certificate(material),
        entries=material.tlog_entries,
        timestamps=tuple(
            timestamp.signed_timestamp
            for timestamp in (
                material.timestamp_verification_data.rfc3161_timestamps
                if material.timestamp_verification_data
                else ()
            )
        ),
    )


def from_simple_signing(payload: bytes, annotations: Mapping[str, str], *, digest: str) -> Evidence:
    """Read a layer of the old form that should sign the artifact with this digest.

    Raises:
        VerificationError: it is not a signature, or not of this artifact (steps 2 to 4).

    """
    critical = _decoded(_SIMPLE, payload, "the signed payload").critical
    if critical.type != _SIMPLE_TYPE:  # (3)
        raise VerificationError(
            f"it says '{shown(critical.type)}', not that it signs an image",
            step=Step.SIGNATURE,
        )
    _check_artifact([critical.image.docker_manifest_digest], digest)
    try:
        signature = b64decode(annotations.get(_ANNOTATION, ""), validate=True)
        pem = annotations.get(_CERTIFICATE)
        certificate = certificates.from_pem(pem.encode()) if pem else None
    except (binascii.Error, ValueError) as exc:
        raise _unreadable("the annotations of the signature cannot be read") from exc
    if not signature:
        raise _unreadable(f"the annotation '{_ANNOTATION}' is missing")
    entry, timestamp = annotations.get(_LOG_ENTRY), annotations.get(_TIMESTAMP)
    return Evidence(
        message=payload,
        signature=signature,
        payload=None,
        certificate=certificate,
        entries=(_old_entry(entry.encode()),) if entry else (),
        timestamps=(
            (_decoded(_OLD_STAMP, timestamp.encode(), "the timestamp").signed,) if timestamp else ()
        ),
    )


class _Subject(Message):
    digest: dict[str, str] = msgspec.field(default_factory=dict)


class _Statement(msgspec.Struct, rename={"type": "_type", "predicate_type": "predicateType"}):
    type: str
    predicate_type: str
    subject: Annotated[tuple[_Subject, ...], msgspec.Meta(max_length=_MAX_SUBJECTS)]


class _Image(msgspec.Struct, rename="kebab"):
    docker_manifest_digest: str


class _Critical(msgspec.Struct):
    type: str
    image: _Image


class _Simple(msgspec.Struct):
    critical: _Critical


class _OldPayload(msgspec.Struct, rename={"integrated_time": "integratedTime"}):
    body: bytes
    integrated_time: Natural
    index: Natural = msgspec.field(name="logIndex")
    log: str = msgspec.field(name="logID")


class _OldEntry(msgspec.Struct):
    promise: bytes = msgspec.field(name="SignedEntryTimestamp")
    payload: _OldPayload = msgspec.field(name="Payload")


class _OldTimestamp(msgspec.Struct):
    signed: bytes = msgspec.field(name="SignedRFC3161Timestamp")


_BUNDLE: Final = msgspec.json.Decoder(Bundle, strict=False)
_STATEMENT: Final = msgspec.json.Decoder(_Statement)
_SIMPLE: Final = msgspec.json.Decoder(_Simple)
_OLD_ENTRY: Final = msgspec.json.Decoder(_OldEntry)
_OLD_STAMP: Final = msgspec.json.Decoder(_OldTimestamp)


_T = TypeVar("_T")


def _decoded(decoder: "msgspec.json.Decoder[_T]", data: bytes, what: str) -> _T:
    """(2) Decode the data, if it is small enough and valid."""
    if len(data) > MAX_BYTES:
        raise _unreadable(f"{what} has more than {MAX_BYTES} bytes")
    try:
        return decoder.decode(data)
    except (msgspec.MsgspecError, ValueError, RecursionError) as exc:
        raise _unreadable(f"{what} is damaged: {shown(misfits.told(exc))}") from exc


def _unreadable(message: str) -> VerificationError:
    return VerificationError(message, step=Step.READABLE)


def _signature(envelope: Envelope) -> bytes:
    if len(envelope.signatures) != 1:
        raise _unreadable(f"the envelope has {len(envelope.signatures)} signatures instead of one")
    return envelope.signatures[0].sig


def _check_statement(envelope: Envelope, digest: str) -> None:
    if envelope.payload_type != _IN_TOTO:  # (3)
        raise VerificationError(
            f"it signs '{shown(envelope.payload_type)}', not a statement about an artifact",
            step=Step.SIGNATURE,
        )
    statement = _decoded(_STATEMENT, envelope.payload, "the signed statement")
    if statement.type not in _STATEMENTS or statement.predicate_type != SIGN_PREDICATE:  # (3)
        raise VerificationError(
            f"it is an attestation of '{shown(statement.predicate_type)}', not a signature",
            step=Step.SIGNATURE,
        )
    _check_artifact(
        [
            f"{algorithm}:{value}"
            for subject in statement.subject
            for algorithm, value in subject.digest.items()
        ],
        digest,
    )


def _check_digest(signature: MessageSignature, digest: str) -> None:
    stated = signature.message_digest
    if stated is not None and stated.algorithm == "SHA2_256" and digest.startswith("sha256:"):
        _check_artifact([f"sha256:{stated.digest.hex()}"], digest)


def _check_artifact(signed: list[str], digest: str) -> None:
    """(4) Compare the signed digest with the resolved one."""
    if digest not in signed:
        raise VerificationError(
            f"it signs another artifact, {shown(', '.join(signed[:3]) or 'none')}",
            step=Step.ARTIFACT,
        )


def _pre_authentication(payload_type: str, payload: bytes) -> bytes:
    """Return the bytes that a DSSE signature covers (DSSE protocol, PAE)."""
    kind = payload_type.encode()
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)


def _certificate(material: Material) -> x509.Certificate | None:
    # A chain's first certificate is the one that signed; the others are the trusted root's matter.
    chain = material.x509_certificate_chain
    raw = material.certificate or (chain.certificates[0] if chain and chain.certificates else None)
    if raw is None:
        return None
    try:
        return certificates.from_der(raw.raw_bytes)
    except ValueError as exc:
        raise _unreadable("the certificate in the bundle cannot be read") from exc


def _old_entry(data: bytes) -> LogEntry:
    old = _decoded(_OLD_ENTRY, data, "the log entry")
    try:
        key_id = bytes.fromhex(old.payload.log)
    except ValueError as exc:
        raise _unreadable("the log entry names no log") from exc
    return LogEntry(
        log_id=LogId(key_id=key_id),
        canonicalized_body=old.payload.body,
        log_index=old.payload.index,
        integrated_time=old.payload.integrated_time,
        inclusion_promise=InclusionPromise(signed_entry_timestamp=old.promise),
    )
