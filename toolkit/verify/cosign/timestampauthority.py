"""When a signature was made, by a timestamp authority (RFC 3161): step 8 of a cosign proof."""

from datetime import datetime
from typing import Final

from cryptography import x509
from rfc3161_client import VerificationError as TimestampError
from rfc3161_client import VerifierBuilder, decode_timestamp_response

from toolkit.verify import certificates
from toolkit.verify.cosign.steps import Step
from toolkit.verify.cosign.trustedroot import Authority, TrustedRoot
from toolkit.verify.signature import VerificationError

_MAX_BYTES: Final = 64 << 10


def check(timestamp: bytes, signature: bytes, root: TrustedRoot) -> datetime:
    """Return the time at which a trusted authority saw the signature.

    Raises:
        VerificationError: no trusted authority did (step 8).

    """
    for authority in root.timestamp_authorities:
        time = _seen(timestamp, signature, authority)
        if time is not None and authority.period.covers(time):
            return time
    raise VerificationError(
        "its timestamp was not made for it by a timestamp authority that is trusted",
        step=Step.TIME,
    )


def _seen(timestamp: bytes, signature: bytes, authority: Authority) -> datetime | None:
    if len(timestamp) > _MAX_BYTES:
        return None
    # A chain may begin with the certificate that signs, or with the authority that issued it.
    leaf = None if _is_authority(authority.chain[0]) else authority.chain[0]
    above = authority.chain if leaf is None else authority.chain[1:]
    if not above:
        return None
    builder = VerifierBuilder(tsa_certificate=leaf)
    builder = builder.add_root_certificate(above[-1])
    for certificate in above[:-1]:
        builder = builder.add_intermediate_certificate(certificate)
    try:
        response = decode_timestamp_response(timestamp)
        builder.build().verify_message(response, signature)
    # The library raises ValueError for invalid data, and KeyError or TypeError for odd fields.
    except (TimestampError, LookupError, TypeError, *certificates.ERRORS):
        return None
    return response.tst_info.gen_time


def _is_authority(certificate: x509.Certificate) -> bool:
    try:
        constraints = certificate.extensions.get_extension_for_class(x509.BasicConstraints)
    except (x509.ExtensionNotFound, *certificates.ERRORS):
        return False
    return constraints.value.ca
