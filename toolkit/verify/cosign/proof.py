"""Steps 5 to 11 of a cosign proof: signer, transparency log, time (see `cosignsteps`).

Pure and blocking. Input: evidence, policy and root. Output: a proof or an error.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from hashlib import sha256
from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.serialization import Encoding

from toolkit.verify import certificates, publickey
from toolkit.verify.cosign import fulcio, timestampauthority, transparencylog
from toolkit.verify.cosign import policy as cosignpolicy
from toolkit.verify.cosign.evidence import Evidence
from toolkit.verify.cosign.messages import shown
from toolkit.verify.cosign.policy import Policy
from toolkit.verify.cosign.steps import Step
from toolkit.verify.cosign.trustedroot import TrustedRoot
from toolkit.verify.signature import FACT, Proof, Signer, VerificationError

KEYED: Final = "cosign-key"
KEYLESS: Final = "cosign-keyless"


def by_key(evidence: Evidence, policy: Policy, subject: str) -> Proof:
    """Prove that one of the policy's keys signed; ``subject`` names the artifact.

    Raises:
        VerificationError: none did (step 5).

    """
    keys = cosignpolicy.loaded(policy)
    for name, key in keys.items():
        try:
            publickey.check(key, evidence.signature, evidence.message)  # (5)
        except InvalidSignature:
            continue
        signer = Signer(identity=name, fingerprint=publickey.fingerprint(key))
        return Proof(
            signer=signer,
            message=f"verified signature of {subject} by key {signer}",
            facts=_facts(method=KEYED, identity=name, fingerprint=signer.fingerprint),
        )
    raise VerificationError(
        f"it was made by none of the trusted keys {', '.join(keys)}", step=Step.SIGNED
    )


def by_identity(evidence: Evidence, policy: Policy, root: TrustedRoot, subject: str) -> Proof:
    """Prove that one of the policy's identities signed; ``subject`` names the artifact.

    Raises:
        VerificationError: none did (steps 5 to 11).

    """
    certificate = _signing_certificate(evidence)  # (5)
    if not evidence.entries:  # (6)
        raise VerificationError("it is in no transparency log", step=Step.LOGGED)
    # Steps 6 and 7 are made there.
    entries = [transparencylog.check(entry, evidence, root) for entry in evidence.entries]
    times = _times(evidence, root, [entry.time for entry in entries if entry.time])  # (8)
    for entry in entries:
        if not all(entry.log.period.covers(time) for time in times):  # (6)
            raise VerificationError(
                f"its transparency log {entry.log.name} is not trusted at the time it was made",
                step=Step.LOGGED,
            )
    fulcio.check(certificate, times, root)  # (9, 10)
    issuer, identity = _identity(certificate, policy)  # (11)
    signer = Signer(
        identity=identity,
        fingerprint="SHA256:" + sha256(certificate.public_bytes(Encoding.DER)).hexdigest(),
    )
    index = entries[0].index
    signed_at = min(times).astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return Proof(
        signer=signer,
        message=f"verified signature of {subject} by {identity} (issuer {issuer}), "
        f"log index {index}, at {signed_at}",
        facts=_facts(
            method=KEYLESS,
            identity=identity,
            issuer=issuer,
            fingerprint=signer.fingerprint,
            log_index=str(index),
            signed_at=signed_at,
        ),
    )


def _signing_certificate(evidence: Evidence) -> x509.Certificate:
    """(5) Return the certificate whose key made the signature."""
    if evidence.certificate is None:
        raise VerificationError(
            "it came without a certificate, which must name the signer", step=Step.SIGNED
        )
    try:
        key = certificates.public_key(evidence.certificate)
        publickey.check(key, evidence.signature, evidence.message)
    except (InvalidSignature, ValueError) as exc:
        raise VerificationError(
            "it was not made by the key of its certificate", step=Step.SIGNED
        ) from exc
    return evidence.certificate


def _times(evidence: Evidence, root: TrustedRoot, promised: list[datetime]) -> list[datetime]:
    """(8) Return every proved time of the signature, of which there must be one."""
    times, refusals = list(promised), []
    for timestamp in evidence.timestamps:
        try:
            times.append(timestampauthority.check(timestamp, evidence.signature, root))
        except VerificationError as exc:
            refusals.append(exc)
    if times:
        return times
    if refusals:
        raise refusals[0]
    raise VerificationError(
        "neither its transparency log nor a timestamp authority says when it was made",
        step=Step.TIME,
    )


def _identity(certificate: x509.Certificate, policy: Policy) -> tuple[str, str]:
    """(11) Return issuer and subject that one of the policy's pairs matches."""
    claims = fulcio.claims(certificate)
    for subject in claims.subjects:
        if any(identity.matches(claims.issuer, subject) for identity in policy.identities):
            return shown(claims.issuer), shown(subject)
    raise VerificationError(
        f"certificate identity '{shown(', '.join(claims.subjects))}' by issuer "
        f"'{shown(claims.issuer)}' does not match {_demanded(policy)}",
        step=Step.IDENTITY,
    )


def _demanded(policy: Policy) -> str:
    first, *others = policy.identities
    text = f"subject '{first.subject}' by issuer '{first.issuer}'"
    return f"{text}, or any of {len(others)} more pairs" if others else text


def _facts(**facts: str) -> Mapping[str, str]:
    return {FACT + name.replace("_", "-"): value for name, value in facts.items()}
