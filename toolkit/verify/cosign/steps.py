"""The steps of a cosign proof, in order; each block of code that makes one carries its number.

With keys of the policy the proof ends after step 5: as with Flux, such a verification is offline
and looks at no log, so neither the time of the signature nor its publication is proved.

 1. A signature refers to the artifact: a bundle among its referrers, or the tag ``<digest>.sig``.
 2. What refers to it is small enough and well-formed.
 3. It is a signature, and not an SBOM or provenance by the same signer.
 4. What it signs is the digest of this artifact, and no other's.
 5. A trusted key made it; without keys of the policy, the key of the certificate that came with it.
 6. It is in a transparency log that is trusted: by the log's promise, by proof, or both.
 7. What is in the log is this signature of these bytes by this certificate (CVE-2026-22703).
 8. When it was made is proved, by a trusted log or timestamp authority.
 9. The certificate was issued for signing code, by a trusted authority, and valid at that time.
10. The certificate itself was published in a trusted certificate log.
11. The certificate's issuer and subject are among those that may sign.
"""

from enum import IntEnum


class Step(IntEnum):
    """One step of the proof; its number is part of the message when it fails."""

    FOUND = 1
    READABLE = 2
    SIGNATURE = 3
    ARTIFACT = 4
    SIGNED = 5
    LOGGED = 6
    ENTRY = 7
    TIME = 8
    CERTIFICATE = 9
    CERTIFICATE_LOGGED = 10
    IDENTITY = 11
