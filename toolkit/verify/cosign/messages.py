"""Bundles and log entries in JSON (protobuf-specs, sigstore_bundle and sigstore_rekor).

This module has types and limits only; ``bundlerules`` has the rules for combinations of fields.
"""

from typing import Annotated, Final

import msgspec

_MAX_ENTRIES: Final = 8
_MAX_TIMESTAMPS: Final = 8
_MAX_HASHES: Final = 64


class Message(msgspec.Struct, rename="camel"):
    """A protobuf message in its JSON form: bytes are base64, 64-bit numbers may be strings."""


Natural = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


class LogId(Message):
    """Which log it is."""

    key_id: bytes


class KindVersion(Message):
    """The format of the body of an entry."""

    kind: str = ""
    version: str = ""


class InclusionPromise(Message):
    """The signature of a log when it accepts an entry."""

    signed_entry_timestamp: bytes = b""


class Checkpoint(Message):
    """A log's signed state, as a signed note (C2SP)."""

    envelope: str = ""


class InclusionProof(Message):
    """The proof that an entry is part of the log."""

    tree_size: Natural
    root_hash: bytes
    log_index: Natural = 0
    hashes: Annotated[tuple[bytes, ...], msgspec.Meta(max_length=_MAX_HASHES)] = ()
    checkpoint: Checkpoint | None = None


class LogEntry(Message):
    """An entry of a transparency log, and the proofs of its inclusion."""

    log_id: LogId
    canonicalized_body: bytes
    log_index: Natural = 0
    kind_version: KindVersion | None = None
    integrated_time: Natural = 0
    inclusion_promise: InclusionPromise | None = None
    inclusion_proof: InclusionProof | None = None


class Hint(Message):
    """A hint at the key that signed; the key itself is never part of a bundle."""

    hint: str = ""


class Raw(Message):
    """A certificate in DER."""

    raw_bytes: bytes


class Chain(Message):
    """Certificates, the one that signed first."""

    certificates: tuple[Raw, ...] = ()


class Timestamp(Message):
    """A response of a timestamp authority (RFC 3161)."""

    signed_timestamp: bytes


class Timestamps(Message):
    """All timestamps of a signature."""

    rfc3161_timestamps: Annotated[
        tuple[Timestamp, ...], msgspec.Meta(max_length=_MAX_TIMESTAMPS)
    ] = ()


class Material(Message):
    """The material of a signature, which is untrusted."""

    public_key: Hint | None = None
    certificate: Raw | None = None
    x509_certificate_chain: Chain | None = None
    tlog_entries: Annotated[tuple[LogEntry, ...], msgspec.Meta(max_length=_MAX_ENTRIES)] = ()
    timestamp_verification_data: Timestamps | None = None


class Hash(Message):
    """A digest, and by which algorithm."""

    digest: bytes = b""
    algorithm: str = ""


class MessageSignature(Message):
    """A signature over the bytes of an artifact."""

    signature: bytes
    message_digest: Hash | None = None


class EnvelopeSignature(Message):
    """One signature of an envelope."""

    sig: bytes


class Envelope(Message):
    """A DSSE envelope."""

    payload: bytes
    payload_type: str
    signatures: tuple[EnvelopeSignature, ...]


class Bundle(Message):
    """A signature with its material."""

    media_type: str
    verification_material: Material
    message_signature: MessageSignature | None = None
    dsse_envelope: Envelope | None = None


def shown(text: str) -> str:
    """Return untrusted text in a form that is safe for a message."""
    text = "".join(character if character.isprintable() else "?" for character in text[:201])
    return text if len(text) <= 200 else text[:200] + "…"
