"""Which signatures an object in a registry must have: ``spec.verify`` and its Secrets as a policy.

The Secrets are read in every pass, because a policy's ``trust`` is part of what an artifact is
remembered by: other keys mean to verify again.
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
    """See ``toolkit.verify.verifications``."""

    async def __call__(self, subject: Subject, policy: Policy, *, scope: str) -> Proof:
        """Return who signed, or raise ``VerificationError``; ``scope`` chose the way there."""
        ...


def trust(policy: Policy, repository: Repository) -> str:
    """Return what a proof holds for: a policy may have other rules for another repository."""
    return f"{policy.trust} {repository}"


async def policy(secrets: Secrets, namespace: str, wanted: OCIVerification) -> Policy:
    """Return whom to trust.

    Raises:
        VerificationError: it can trust nobody, or what it trusts cannot be used.
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
