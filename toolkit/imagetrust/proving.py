"""Verify the signatures that an ImageVerificationPolicy requires for an image.

A proof that a trust policy only tolerates does not count. Temporary problems are reported before a
missing signature, because they may be the reason why it is missing.
"""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from crds.policy_image import ImageVerificationPolicy
from toolkit.errors import PenstockError, StalledError, TransientError
from toolkit.imagetrust.trust import Rules
from toolkit.policy import imagepolicies
from toolkit.verify.signature import Proof, VerificationError
from toolkit.verify.subject import Subject
from toolkit.verify.verifications import Verifications

_KEPT: Final = 4096


class Prover:
    """Asks the verifiers of policies, first those that found their signature before."""

    def __init__(self, verifications: Verifications) -> None:
        self._verifications = verifications
        self._provers: OrderedDict[_Place, frozenset[str]] = OrderedDict()

    async def signers(
        self,
        subject: Subject,
        policy: ImageVerificationPolicy,
        rules: Mapping[str, Rules],
        *,
        scope: str,
    ) -> tuple[str, ...]:
        """Return the signers, one for each required verifier.

        ``rules`` are by the names of the policy's verifiers; ``scope`` is that of
        ``Verifications.verify``.

        Raises:
            VerificationError: fewer verifiers than required found a signature.
            TransientError: a signature could not be checked because of a temporary problem.
            StalledError: a trusted key or identity cannot be used.
        """
        place = (policy.metadata.name, str(subject.repository), subject.digest)
        wanted, signers, failed = imagepolicies.required(policy), dict[str, str](), list[_Failure]()
        for name, rule in self._likeliest(place, rules):
            if len(signers) == wanted:
                break
            try:
                proof = await self._verifications.verify(subject, rule, scope=scope)
                signers[name] = _signer(proof)
            except PenstockError as exc:
                failed.append(_Failure(name, exc))
        if len(signers) < wanted:
            raise _worst(failed)
        self._note(place, frozenset(signers))
        return tuple(signers.values())

    def _likeliest(self, place: "_Place", rules: Mapping[str, Rules]) -> list[tuple[str, Rules]]:
        """Return the verifiers in the order in which to try them.

        Verifiers with a cached proof come first. Proofs are cached for long and refusals for
        seconds only, so that an image which any of several verifiers may accept costs no requests.
        """
        known = self._provers.get(place, frozenset())
        return sorted(rules.items(), key=lambda each: each[0] not in known)

    def _note(self, place: "_Place", names: frozenset[str]) -> None:
        self._provers[place] = names
        self._provers.move_to_end(place)
        while len(self._provers) > _KEPT:
            self._provers.popitem(last=False)


_Place = tuple[str, str, str]
"""Name of a policy, repository, digest."""


@dataclass(frozen=True, slots=True)
class _Failure:
    """A failed verifier, and its error."""

    verifier: str
    error: PenstockError


def _signer(proof: Proof) -> str:
    if proof.tolerated:
        raise VerificationError(
            f"{proof.message}: the trust policy tolerates failures, so this is no proof; make it"
            " stricter, or set the mode of the policy to Warn"
        )
    return str(proof.signer)


def _worst(failed: Sequence[_Failure]) -> PenstockError:
    """Return the error to report: a temporary one first, as it may hide a missing signature."""
    first = next((x for x in failed if not isinstance(x.error, VerificationError)), failed[0])
    told = f"verifier '{first.verifier}': {first.error}"
    if isinstance(first.error, VerificationError):
        return VerificationError(told, reason=first.error.reason)
    if isinstance(first.error, StalledError):
        return StalledError(told)
    return TransientError(told)
