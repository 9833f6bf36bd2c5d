"""Which signatures an object in a registry must have: ``spec.verify`` and its Secrets as a policy.

The Secrets are read in every pass, because a policy's ``trust`` is part of what an artifact is
remembered by: other keys mean to verify again.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, Protocol, TypeAlias

from controllers.source.reconciler import TRUST
from crds.meta import Artifact
from crds.source_parts import OCIVerification
from toolkit.chart.errors import ChartNotFoundError
from toolkit.errors import PenstockError
from toolkit.kube.secrets import Secrets
from toolkit.remote.oci.errors import ANSWERS
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


@contextmanager
def replacing(stored: Artifact | None, trust: str, *, reason: str = REASON) -> Iterator[None]:
    """Refuse what is stored if nothing can replace it and the present keys did not verify it.

    Who may push can delete what is asked for, or spoil it, and must not keep in use what was stored
    before a signature was demanded. An outage does not refuse: it passes.

    Raises:
        VerificationError: the registry answered the body that it has nothing that can be used.
    """
    try:
        yield
    except VerificationError:
        raise
    except PenstockError as exc:
        unproved = stored is not None and trust and stored.metadata.get(TRUST, "") != trust
        if not unproved or not _is_answer(exc):
            raise
        raise VerificationError(
            f"{exc}, and what is stored was not verified with the present keys", reason=reason
        ) from exc


_ANSWERS: Final = (*ANSWERS, ChartNotFoundError)


def _is_answer(error: BaseException | None) -> bool:
    while error is not None and not isinstance(error, _ANSWERS):
        error = error.__cause__
    return error is not None
