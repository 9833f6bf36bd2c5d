"""The required signatures of an artifact in a registry: a policy from ``spec.verify``.

Each reconciliation reads the Secrets of ``spec.verify``. The metadata of an artifact contain the
``trust`` of the policy, so if the keys change, the signature is verified again.
"""

from typing import Final, Protocol, TypeAlias

from crds.source_parts import OCIVerification
from toolkit.kube.secrets import Secrets
from toolkit.remote.oci.oci import Repository
from toolkit.verify.cosign import cosign
from toolkit.verify.notation import notation
from toolkit.verify.signature import Proof, VerificationError
from toolkit.verify.subject import Subject

REASON: Final = "VerificationError"

Policy: TypeAlias = cosign.Policy | notation.Policy


class Verify(Protocol):
    """Verifies signatures (``toolkit.verify.verifications``)."""

    async def __call__(self, subject: Subject, policy: Policy, *, scope: str) -> Proof:
        """Return the proof, or raise ``VerificationError``; refusals are cached per ``scope``."""
        ...


def trust(policy: Policy, repository: Repository) -> str:
    """Return the identity of a policy for a repository; its rules may differ by repository."""
    return f"{policy.trust} {repository}"


async def policy(secrets: Secrets, namespace: str, wanted: OCIVerification) -> Policy:
    """Return the policy of ``spec.verify``.

    Raises:
        VerificationError: the policy trusts no key or identity, or one of them is invalid.
        TransientError: a Secret cannot be read (reason VerificationError).
    """
    named = wanted.secret_ref
    data = await secrets.read(namespace, named.name, reason=REASON) if named else None
    if wanted.provider == "notation":
        if data is None:
            raise VerificationError(
                "spec.verify.secretRef is needed for notation: a Secret with 'trustpolicy.json' "
                "and certificates"
            )
        return notation.Policy.from_secret(data)
    if data is not None:
        return cosign.Policy.from_secret(data)
    root = None
    if wanted.trusted_root_secret_ref:
        root = await secrets.read(namespace, wanted.trusted_root_secret_ref.name, reason=REASON)
    identities = [(match.issuer, match.subject) for match in wanted.match_oidc_identity]
    return cosign.Policy.keyless(identities, root)
