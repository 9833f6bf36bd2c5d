"""The trusted root of a Sigstore instance: certificate authorities, logs, timestamp services.

Parses ``trusted_root.json`` (protobuf-specs, sigstore_trustroot.proto), as ``cosign trusted-root
create`` writes it and Sigstore's public instance publishes it. Each part is only trusted within its
validity period.
"""

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import Final

import msgspec
from cryptography import x509

from crds import misfits
from toolkit.verify import certificates, publickey
from toolkit.verify.publickey import PublicKey
from toolkit.verify.signature import VerificationError

MAX_BYTES: Final = 1 << 20

_HASH: Final = "SHA2_256"
_MEDIA_TYPES: Final = (
    "application/vnd.dev.sigstore.trustedroot+json;version=0.1",
    "application/vnd.dev.sigstore.trustedroot.v0.2+json",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Period:
    """From when to when something counts; ``None`` is open."""

    start: datetime | None
    end: datetime | None

    def covers(self, time: datetime) -> bool:
        """Tell whether the time is within the period."""
        return (self.start is None or self.start <= time) and (self.end is None or time <= self.end)


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """A transparency or certificate log: its id, and its public key."""

    name: str
    key_id: bytes
    key: PublicKey
    period: Period


@dataclass(frozen=True, slots=True, kw_only=True)
class Authority:
    """Certificates from the one that signs (for timestamps: the leaf) up to the root."""

    name: str
    chain: tuple[x509.Certificate, ...]
    period: Period


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustedRoot:
    """All that a Sigstore instance is trusted by; logs by their ids."""

    digest: str
    logs: Mapping[bytes, Log]
    certificate_logs: Mapping[bytes, Log]
    authorities: tuple[Authority, ...]
    timestamp_authorities: tuple[Authority, ...]


@functools.lru_cache(maxsize=64)
def read(data: bytes) -> TrustedRoot:
    """Read ``trusted_root.json``.

    Raises:
        VerificationError: the file is not a trusted root, or a key or certificate in it is not
            valid.

    """
    if len(data) > MAX_BYTES:
        raise VerificationError(f"the trusted root is larger than {MAX_BYTES} bytes")
    try:
        root = _DECODER.decode(data)
        if root.media_type not in _MEDIA_TYPES:
            raise VerificationError("the mediaType of the trusted root is not known")
        return TrustedRoot(
            digest=sha256(data).hexdigest(),
            logs=_logs(root.tlogs),
            certificate_logs=_logs(root.ctlogs),
            authorities=tuple(map(_authority, root.certificate_authorities)),
            timestamp_authorities=tuple(map(_authority, root.timestamp_authorities)),
        )
    except (ValueError, RecursionError, msgspec.MsgspecError) as exc:
        raise VerificationError(f"the trusted root cannot be read: {misfits.told(exc)}") from exc


class _Message(msgspec.Struct, rename="camel"):
    """A protobuf message in its JSON form; bytes are base64."""


class _Period(_Message):
    start: datetime | None = None
    end: datetime | None = None


class _PublicKey(_Message):
    raw_bytes: bytes
    valid_for: _Period | None = None


class _LogId(_Message):
    key_id: bytes


class _Log(_Message):
    public_key: _PublicKey
    log_id: _LogId
    hash_algorithm: str = ""
    base_url: str = ""
    checkpoint_key_id: _LogId | None = None


class _Certificate(_Message):
    raw_bytes: bytes


class _Chain(_Message):
    certificates: tuple[_Certificate, ...] = ()


class _Authority(_Message):
    cert_chain: _Chain
    uri: str = ""
    valid_for: _Period | None = None


class _TrustedRoot(_Message):
    media_type: str
    tlogs: tuple[_Log, ...] = ()
    ctlogs: tuple[_Log, ...] = ()
    certificate_authorities: tuple[_Authority, ...] = ()
    timestamp_authorities: tuple[_Authority, ...] = ()


_DECODER: Final = msgspec.json.Decoder(_TrustedRoot)


def _logs(messages: tuple[_Log, ...]) -> dict[bytes, Log]:
    logs = {}
    for message in messages:
        # sigstore-go refuses these too (pkg/root/trusted_root.go, ParseTransparencyLogs).
        period = _period(message.public_key.valid_for)
        if period.start is None:
            raise ValueError("the key of a log has no start in its validFor")
        if message.hash_algorithm != _HASH:
            raise ValueError(f"the hashAlgorithm of a log is not {_HASH}")
        for id_ in filter(None, (message.log_id, message.checkpoint_key_id)):
            logs[id_.key_id] = Log(
                name=message.base_url or id_.key_id.hex(),
                key_id=id_.key_id,
                key=publickey.from_der(message.public_key.raw_bytes),
                period=period,
            )
    return logs


def _authority(message: _Authority) -> Authority:
    chain = tuple(
        certificates.from_der(certificate.raw_bytes)
        for certificate in message.cert_chain.certificates
    )
    if not chain:
        raise ValueError("a certificate authority has no certificates")
    return Authority(
        name=message.uri or chain[0].subject.rfc4514_string(),
        chain=chain,
        period=_period(message.valid_for),
    )


def _period(message: _Period | None) -> Period:
    return Period(start=message.start if message else None, end=message.end if message else None)
