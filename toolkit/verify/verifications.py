"""A cache of proofs: a digest is not verified again under the same policy for a while.

A proof belongs to a digest, never to a tag, and to the policy with its keys and roots (``trust``).
If one of them changes, the digest is verified again. Refusals are cached for seconds at most, and
errors of the registry are not cached.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, Final, Protocol
from weakref import WeakValueDictionary

from toolkit.native.pool import WorkerPool
from toolkit.verify.cosign import cosign
from toolkit.verify.cosign.publicroot import PublicRoot
from toolkit.verify.notation import notation
from toolkit.verify.notation.judge import Revocations
from toolkit.verify.signature import Proof, VerificationError
from toolkit.verify.subject import Subject

PROOF_SECONDS: Final = 3600.0
REFUSAL_SECONDS: Final = 10.0
CAPACITY: Final = 4096


class Policy(Protocol):
    """The required signers; ``trust`` changes with every key, root and rule."""

    @property
    def trust(self) -> str:
        """Return the hash of the policy and all that it trusts."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Means:
    """The means of verifiers: Sigstore's public root, engine workers, revocation servers."""

    public_root: PublicRoot
    pool: WorkerPool
    revocations: Revocations


@dataclass(frozen=True, slots=True, kw_only=True)
class Verifier:
    """The verifier for one kind of policy; ``verify`` also gets the flow of ``WorkerPool.call``."""

    policy: type
    verify: Callable[[Subject, Any, Means, str], Awaitable[Proof]]


VERIFIERS: Final[Mapping[str, Verifier]] = MappingProxyType(
    {
        # spec.verify.provider; cosign verifies with keys, or identities certified by a Sigstore
        # instance
        "cosign": Verifier(
            policy=cosign.Policy,
            verify=lambda subject, policy, means, _: cosign.verify(
                subject, policy, public_root=means.public_root
            ),
        ),
        # a trust policy and certificates of the Notary Project
        "notation": Verifier(
            policy=notation.Policy,
            verify=lambda subject, policy, means, flow: notation.verify(
                subject, policy, pool=means.pool, flow=flow, revocations=means.revocations
            ),
        ),
    }
)


class Verifications:
    """Verifies artifacts in registries; concurrent calls share a result, cached for an hour.

    A refusal is cached for ``refusal_seconds``. With some seconds, the replicas of a Deployment do
    not ask a registry one by one. It is zero if each call is made because something changed.
    """

    def __init__(
        self,
        means: Means,
        *,
        verifiers: Mapping[str, Verifier] = VERIFIERS,
        refusal_seconds: float = REFUSAL_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._means = means
        self._refusal_seconds = refusal_seconds
        self._verifiers = verifiers
        self._clock = clock
        self._kept: OrderedDict[_Key, _Kept] = OrderedDict()
        self._turns: WeakValueDictionary[_Key, asyncio.Lock] = WeakValueDictionary()

    async def verify(self, subject: Subject, policy: Policy, *, scope: str) -> Proof:
        """Return the proof for the subject; the caller sets a deadline.

        Concurrent calls with the same ``scope`` wait for one result. A scope is the tenant that
        configured the access to the registry: a namespace, or ``<namespace>/<name>`` of an object.
        Its namespace is the flow of the work (``WorkerPool.call``). A proof is valid for all
        scopes.
        But a registry behind a tenant's proxy may have invented or hidden signatures. So refusals,
        and failures that a policy tolerates, are cached only for the same scope.

        Raises:
            VerificationError: no key or identity of the policy made a valid signature.
            RegistryError: the registry could not be read.
        """
        verifier = next(row for row in self._verifiers.values() if isinstance(policy, row.policy))
        proved = ("", str(subject.repository), subject.digest, policy.trust)
        refused = (f"scope {scope}", *proved[1:])
        turn = self._turns.get(refused)
        if turn is None:
            turn = self._turns[refused] = asyncio.Lock()
        async with turn:
            outcome = self._look_up(proved) or self._look_up(refused)
            if outcome is None:
                outcome = await self._find_out(verifier, subject, policy, scope)
                self._keep(proved if _proves(outcome) else refused, outcome)
        if isinstance(outcome, Proof):
            return outcome
        raise VerificationError(outcome.finding, reason=outcome.reason, step=outcome.step)

    def forget(self) -> None:
        """Drop every proof and refusal."""
        self._kept.clear()

    async def _find_out(
        self, verifier: Verifier, subject: Subject, policy: Policy, scope: str
    ) -> Proof | VerificationError:
        try:
            return await verifier.verify(subject, policy, self._means, scope.partition("/")[0])
        except VerificationError as exc:
            return exc.with_traceback(None)

    def _look_up(self, key: "_Key") -> Proof | VerificationError | None:
        kept = self._kept.get(key)
        if kept is None or kept.until <= self._clock():
            self._kept.pop(key, None)
            return None
        self._kept.move_to_end(key)
        return kept.outcome

    def _keep(self, key: "_Key", outcome: Proof | VerificationError) -> None:
        self._kept[key] = _Kept(outcome, self._clock() + self._lifetime(outcome))
        while len(self._kept) > CAPACITY:
            self._kept.popitem(last=False)

    def _lifetime(self, outcome: Proof | VerificationError) -> float:
        if isinstance(outcome, VerificationError):
            return self._refusal_seconds
        if outcome.fresh_until is None:
            return PROOF_SECONDS
        return min(PROOF_SECONDS, (outcome.fresh_until - datetime.now(UTC)).total_seconds())


_Key = tuple[str, str, str, str]


@dataclass(frozen=True, slots=True)
class _Kept:
    outcome: Proof | VerificationError
    until: float


def _proves(outcome: Proof | VerificationError) -> bool:
    return isinstance(outcome, Proof) and not outcome.tolerated
