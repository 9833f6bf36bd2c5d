"""Verify that a transparency log contains a signature: steps 6 and 7 of a cosign proof.

Rekor promises inclusion with a signed entry timestamp (v1), or proves it with a Merkle path (RFC
9162, section 2.1.3) to a signed checkpoint (v1 and v2). At least one of them must be given, and all
that are given must be valid. No log is contacted: the material of the signature must be enough.
"""

import binascii
import json
from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256, sha384, sha512
from types import MappingProxyType
from typing import Any, Final

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.serialization import Encoding

from toolkit.verify import certificates, publickey
from toolkit.verify.cosign.evidence import Evidence
from toolkit.verify.cosign.messages import InclusionProof, LogEntry, shown
from toolkit.verify.cosign.steps import Step
from toolkit.verify.cosign.trustedroot import Log, TrustedRoot
from toolkit.verify.signature import VerificationError

_HASHES: Final = MappingProxyType(
    {
        # as Rekor v1 and as Rekor v2 call it
        "sha256": sha256,
        "sha384": sha384,
        "sha512": sha512,
        "SHA2_256": sha256,
        "SHA2_384": sha384,
        "SHA2_512": sha512,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Logged:
    """The log that contains the evidence, and the time of the entry, if the log promises it."""

    log: Log
    index: int
    time: datetime | None


def check(entry: LogEntry, evidence: Evidence, root: TrustedRoot) -> Logged:
    """Return the trusted log that contains the evidence.

    Raises:
        VerificationError: no trusted log contains it (steps 6 and 7).
    """
    log = root.logs.get(entry.log_id.key_id)
    if log is None:  # (6)
        raise _unlogged(f"its transparency log {entry.log_id.key_id[:32].hex()} is not trusted")
    promise, proof = entry.inclusion_promise, entry.inclusion_proof
    if promise is None and proof is None:
        raise _unlogged("its log entry comes without promise and proof of the log")
    index, time = 0, None
    if proof is not None:
        _check_proof(entry, proof, log)
        index = proof.log_index
    if promise is not None:
        _check_promise(entry, promise.signed_entry_timestamp, log)
        # A log in several trees counts through all of them; the proof has the place in one.
        index, time = entry.log_index, _time(entry.integrated_time)
    _check_body(entry, evidence)  # (7)
    return Logged(log=log, index=index, time=time)


def _check_promise(entry: LogEntry, promise: bytes, log: Log) -> None:
    """(6) The log signed body, time, log and index, as canonical JSON (RFC 8785)."""
    signed = json.dumps(
        {
            "body": b64encode(entry.canonicalized_body).decode(),
            "integratedTime": entry.integrated_time,
            "logID": entry.log_id.key_id.hex(),
            "logIndex": entry.log_index,
        },
        separators=(",", ":"),
        sort_keys=True,
    )
    try:
        publickey.check(log.key, promise, signed.encode())
    except InvalidSignature as exc:
        raise _unlogged(f"its log entry was not signed by {log.name}") from exc


def _check_proof(entry: LogEntry, proof: InclusionProof, log: Log) -> None:
    """(6) The path from the entry leads to a root that the log signed."""
    root = _root(entry.canonicalized_body, proof)
    if not root or root != proof.root_hash:
        raise _unlogged("its log entry's inclusion proof does not lead to the root of the log")
    if proof.checkpoint is None:
        raise _unlogged("its log entry's inclusion proof has no checkpoint")
    if _checkpoint(proof.checkpoint.envelope, log) != (proof.tree_size, root):
        raise _unlogged(f"its log entry's inclusion proof is not for the checkpoint of {log.name}")


def _root(body: bytes, proof: InclusionProof) -> bytes:
    """Climb from the leaf; returns nothing where the path is too long or too short."""
    index, last = proof.log_index, proof.tree_size - 1
    if index > last:
        return b""
    node = sha256(b"\x00" + body).digest()
    for sibling in proof.hashes:
        if not last:
            return b""
        if index & 1 or index == last:
            node = sha256(b"\x01" + sibling + node).digest()
            while not index & 1 and index:
                index, last = index >> 1, last >> 1
        else:
            node = sha256(b"\x01" + node + sibling).digest()
        index, last = index >> 1, last >> 1
    return b"" if last else node


def _checkpoint(envelope: str, log: Log) -> tuple[int, bytes]:
    """Return size and root of the log as it signed them (C2SP tlog-checkpoint)."""
    text, separator, signatures = envelope.partition("\n\n")
    try:
        _, size, root, *_ = text.split("\n")
        if not separator or not _signed(text + "\n", signatures, log):
            raise _unlogged(f"the checkpoint of its log entry was not signed by {log.name}")
        return int(size), b64decode(root, validate=True)
    except (ValueError, binascii.Error) as exc:
        raise _unlogged("the checkpoint of its log entry is damaged") from exc


def _signed(text: str, signatures: str, log: Log) -> bool:
    """Tell whether one of the lines ``— name base64(key id, signature)`` is the log's."""
    for line in signatures.splitlines():
        dash, _, rest = line.partition(" ")
        _, _, encoded = rest.partition(" ")
        blob = b64decode(encoded, validate=True)
        if dash != "—" or blob[:4] != log.key_id[:4]:
            continue  # a witness's
        try:
            publickey.check(log.key, blob[4:], text.encode())
        except InvalidSignature:
            continue
        return True
    return False


def _check_body(entry: LogEntry, evidence: Evidence) -> None:
    """(7) The entry is about these bytes, this signature and this certificate."""
    try:
        body = msgspec.json.decode(entry.canonicalized_body)
        kind = (body["kind"], body["apiVersion"])
        compare = _BODIES.get(kind)
        same = compare is not None and compare(body["spec"], evidence)
    except (msgspec.MsgspecError, LookupError, TypeError, ValueError, RecursionError) as exc:
        raise VerificationError(
            "the body of its log entry cannot be read", step=Step.ENTRY
        ) from exc
    if compare is None:
        raise VerificationError(
            f"its log entry is a '{shown(str(kind[0]))} {shown(str(kind[1]))}', which is not the "
            "entry of such a signature",
            step=Step.ENTRY,
        )
    told = entry.kind_version
    if told is not None and (told.kind, told.version) != kind:
        raise VerificationError("its log entry is of another kind than it says", step=Step.ENTRY)
    if not same:
        raise VerificationError(
            "its log entry is the entry of another artifact, signature or certificate",
            step=Step.ENTRY,
        )


def _hashedrekord(spec: Mapping[str, Any], evidence: Evidence) -> bool:
    hashed, signature = spec["data"]["hash"], spec["signature"]
    digest = _HASHES[hashed["algorithm"]](evidence.message).hexdigest()
    return bool(
        hashed["value"] == digest
        and b64decode(signature["content"], validate=True) == evidence.signature
        and _pem_is(signature["publicKey"]["content"], evidence)
    )


def _dsse(spec: Mapping[str, Any], evidence: Evidence) -> bool:
    hashed, (signature,) = spec["payloadHash"], spec["signatures"]
    return bool(
        evidence.payload is not None
        and hashed["value"] == _HASHES[hashed["algorithm"]](evidence.payload).hexdigest()
        and b64decode(signature["signature"], validate=True) == evidence.signature
        and _pem_is(signature["verifier"], evidence)
    )


def _hashedrekord_v2(spec: Mapping[str, Any], evidence: Evidence) -> bool:
    record = spec["hashedRekordV002"]
    data = record["data"]
    return bool(
        b64decode(data["digest"], validate=True)
        == _HASHES[data["algorithm"]](evidence.message).digest()
        and _signature_is(record["signature"], evidence)
    )


def _dsse_v2(spec: Mapping[str, Any], evidence: Evidence) -> bool:
    record = spec["dsseV002"]
    hashed, (signature,) = record["payloadHash"], record["signatures"]
    return bool(
        evidence.payload is not None
        and b64decode(hashed["digest"], validate=True)
        == _HASHES[hashed["algorithm"]](evidence.payload).digest()
        and _signature_is(signature, evidence)
    )


_BODIES: Final = MappingProxyType(
    {
        # kind and version of an entry: how it is compared
        ("hashedrekord", "0.0.1"): _hashedrekord,
        ("dsse", "0.0.1"): _dsse,
        ("hashedrekord", "0.0.2"): _hashedrekord_v2,
        ("dsse", "0.0.2"): _dsse_v2,
    }
)


def _pem_is(encoded: str, evidence: Evidence) -> bool:
    certificate = certificates.from_pem(b64decode(encoded, validate=True))
    return certificate == evidence.certificate


def _signature_is(signature: Mapping[str, Any], evidence: Evidence) -> bool:
    raw = b64decode(signature["verifier"]["x509Certificate"]["rawBytes"], validate=True)
    return (
        evidence.certificate is not None
        and raw == evidence.certificate.public_bytes(Encoding.DER)
        and b64decode(signature["content"], validate=True) == evidence.signature
    )


def _time(seconds: int) -> datetime:
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError) as exc:
        raise _unlogged("its log entry has no possible time") from exc


def _unlogged(message: str) -> VerificationError:
    return VerificationError(message, step=Step.LOGGED)
