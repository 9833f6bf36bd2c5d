"""The steps of a Notary Project proof, in order; each block of code that makes one has its number.

Steps 4 to 9 are made by the engine, on one envelope. What becomes of a failure in steps 5 to 8 is
the trust policy's to say: ``enforce`` refuses the signature, ``log`` lets it pass, and then nothing
is proved. (`notationpolicy.LEVELS`)

 1. A statement of the trust policy is for the repository, and can be used.
 2. Signatures refer to the artifact: no more than a few of them are looked at (CVE-2023-33957).
 3. A signature is small enough, and one envelope that refers to this artifact.
 4. The envelope is whole: its signature matches, its certificates are a chain fit for signing code,
    and nothing in it is critical that is not understood. (``integrity``)
 5. The chain leads to a certificate of a trust store, and its subject is a trusted identity.
    (``authenticity``)
 6. The signature has not expired. (``expiry``)
 7. The certificates are valid, or a trusted timestamp authority says that they were when it was
    made. (``authenticTimestamp``)
 8. No certificate of the chain is revoked. (``revocation``)
 9. What is signed is this artifact's descriptor and no other's (GHSA-xhg5-42rf-296r).
"""

from enum import IntEnum

from toolkit.verify.signature import VerificationError


class Step(IntEnum):
    """One step of the proof; its number is part of the message when it fails."""

    POLICY = 1
    FOUND = 2
    READABLE = 3
    INTEGRITY = 4
    AUTHENTICITY = 5
    EXPIRY = 6
    TIMESTAMP = 7
    REVOCATION = 8
    ARTIFACT = 9


def unusable(message: str) -> VerificationError:
    """Return the error of a policy that cannot be used."""
    return VerificationError(message, step=Step.POLICY)
