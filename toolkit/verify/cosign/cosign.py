"""Signatures by cosign on artifacts in a registry: bundles, and the form before them.

The steps of the proof are listed in `cosignsteps`. Every signature that refers to the artifact is
tried, in this order: bundles that say they are signatures, other bundles, the tag of the old form.
The first whose proof holds suffices; otherwise the error is that of the one that got furthest.

A user who may write to the repository may attach anything. So what is read is bounded, and no
attachment can turn an error of the registry into "not signed", nor itself be such an error.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final

from toolkit.remote.oci.errors import MalformedError, RegistryError, RegistryNotFoundError
from toolkit.remote.oci.oci import MAX_MANIFEST, Descriptor
from toolkit.verify.cosign import evidence as cosignevidence
from toolkit.verify.cosign import proof, trustedroot
from toolkit.verify.cosign.evidence import (
    BUNDLE,
    MAX_BYTES,
    SIGN_PREDICATE,
    SIMPLE_SIGNING,
    Evidence,
)
from toolkit.verify.cosign.policy import Identity, Policy, unanchored
from toolkit.verify.cosign.publicroot import PublicRoot
from toolkit.verify.cosign.steps import Step
from toolkit.verify.cosign.trustedroot import TrustedRoot
from toolkit.verify.signature import Proof, VerificationError
from toolkit.verify.subject import Subject, refusing

__all__ = ["Identity", "Policy", "unanchored", "verify"]

MAX_SIGNATURES: Final = 50
"""So many are tried; a signature behind them does not count."""

_MAX_ERRORS: Final = 3
_PREDICATE: Final = "dev.sigstore.bundle.predicateType"
# The artifact types that registries without support for them report.
_UNTOLD: Final = ("", "application/vnd.oci.empty.v1+json")
_OLD_MANIFEST: Final = "application/vnd.dev.cosign.artifact.sig.v1+json"


async def verify(subject: Subject, policy: Policy, *, public_root: PublicRoot) -> Proof:
    """Return the proof for the subject; the caller sets a deadline.

    Raises:
        VerificationError: no key or identity of the policy made a valid signature; ``step`` is the
            failed step.
        RegistryError: the attachments of the subject could not be listed.
    """
    root = None if policy.keys else await _root(policy, public_root)
    failures: list[tuple[str, VerificationError]] = []
    errors: list[RegistryError] = []
    async with aclosing(_candidates(subject, errors)) as candidates:
        async for candidate in candidates:
            if len(failures) == MAX_SIGNATURES or len(errors) > _MAX_ERRORS:
                break
            try:
                return await _prove(candidate, subject, policy, root)
            except VerificationError as exc:
                failures.append((candidate.name, exc))
            except RegistryError as exc:
                errors.append(exc)
    if errors:
        raise errors[0]
    raise _refusal(subject, failures)


async def _root(policy: Policy, public_root: PublicRoot) -> TrustedRoot:
    if policy.trusted_root is None:
        return await public_root.get()
    return trustedroot.read(policy.trusted_root)


async def _prove(
    candidate: "_Candidate", subject: Subject, policy: Policy, root: TrustedRoot | None
) -> Proof:
    with refusing(Step.READABLE):
        read = await candidate.fetch()

    def prove() -> Proof:
        evidence = read()  # (2, 3, 4)
        if root is None:
            return proof.by_key(evidence, policy, str(subject))  # (5)
        return proof.by_identity(evidence, policy, root, str(subject))  # (5 to 11)

    # Parsing and mathematics take milliseconds, of which the loop has none to spare.
    return await asyncio.to_thread(prove)


def _refusal(subject: Subject, failures: list[tuple[str, VerificationError]]) -> VerificationError:
    """Tell of the signature that got furthest."""
    if not failures:  # (1)
        return VerificationError(
            f"{subject} is not signed: no signature is attached to it", step=Step.FOUND
        )
    name, furthest = max(failures, key=lambda failure: failure[1].step)
    tried = "the only one" if len(failures) == 1 else f"which got furthest of {len(failures)} tried"
    return VerificationError(
        f"{furthest.finding} ({name} of {subject}, {tried})", step=furthest.step
    )


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A possible signature; ``fetch`` downloads it and returns the function that parses it."""

    name: str
    fetch: Callable[[], Awaitable[Callable[[], Evidence]]]


async def _candidates(
    subject: Subject, errors: list[RegistryError]
) -> AsyncGenerator[_Candidate, None]:
    """(1) Yield the attachments of the subject; add errors of single ones to ``errors``."""
    referrers: tuple[Descriptor, ...] = ()
    try:
        referrers = await subject.store.referrers(subject.repository, subject.digest)
    except MalformedError as exc:
        yield _refused("referrers", str(exc))
    for descriptor in sorted(referrers, key=_rank)[:MAX_SIGNATURES]:
        if descriptor.artifact_type.startswith(BUNDLE) or descriptor.artifact_type in _UNTOLD:
            yield _bundle(subject, descriptor)
        elif descriptor.artifact_type == _OLD_MANIFEST:
            try:
                layers = await _old_form(subject, descriptor.digest)
            except RegistryError as exc:
                errors.append(exc)
                continue
            for candidate in layers:
                yield candidate
    for candidate in await _tagged(subject):
        yield candidate


def _rank(descriptor: Descriptor) -> int:
    # The annotation is only a hint for the order.
    predicate = descriptor.annotations.get(_PREDICATE)
    if not descriptor.artifact_type.startswith((BUNDLE, _OLD_MANIFEST)):
        return 3 if descriptor.artifact_type in _UNTOLD else 4
    return 0 if predicate == SIGN_PREDICATE else 1 if predicate is None else 2


def _bundle(subject: Subject, referrer: Descriptor) -> _Candidate:
    async def fetch() -> Callable[[], Evidence]:
        store, repository = subject.store, subject.repository
        _check_size(referrer, MAX_BYTES)
        manifest = await store.manifest(repository, referrer.digest)
        layer = next((x for x in manifest.layers if x.media_type.startswith(BUNDLE)), None)
        if layer is None:
            raise VerificationError("it holds no bundle", step=Step.FOUND)
        data = await _read(subject, layer)
        # Most bundles sign a statement about the artifact; the others sign its manifest itself.
        signed = None
        if b"messageSignature" in data:
            signed = (await store.manifest(repository, subject.digest)).raw
        return lambda: cosignevidence.from_bundle(data, digest=subject.digest, manifest=signed)

    return _Candidate(f"bundle {referrer.digest}", fetch)


async def _tagged(subject: Subject) -> list[_Candidate]:
    """Return the signatures behind the tag of the old form."""
    tag = subject.digest.replace(":", "-") + ".sig"
    try:
        found = await subject.store.resolve(subject.repository, tag)
    except RegistryNotFoundError:
        return []
    except MalformedError as exc:
        return [_refused(f"tag {tag}", str(exc))]
    if found.size > MAX_MANIFEST:
        return [_refused(f"tag {tag}", f"it has more than {MAX_MANIFEST} bytes")]
    return await _old_form(subject, found.digest)


async def _old_form(subject: Subject, digest: str) -> list[_Candidate]:
    """Return the signatures in a manifest of the old form."""
    try:
        with refusing(Step.READABLE):
            manifest = await subject.store.manifest(subject.repository, digest)
    except VerificationError as exc:
        return [_refused(f"signatures {digest}", exc.finding)]
    return [
        _layer(subject, layer)
        for layer in manifest.layers[: MAX_SIGNATURES + 1]
        if layer.media_type == SIMPLE_SIGNING
    ]


def _layer(subject: Subject, layer: Descriptor) -> _Candidate:
    async def fetch() -> Callable[[], Evidence]:
        payload = await _read(subject, layer)
        return lambda: cosignevidence.from_simple_signing(
            payload, layer.annotations, digest=subject.digest
        )

    return _Candidate(f"signature {layer.digest}", fetch)


async def _read(subject: Subject, layer: Descriptor) -> bytes:
    _check_size(layer, MAX_BYTES)
    return await subject.store.read_blob(subject.repository, layer, limit=MAX_BYTES)


def _refused(name: str, finding: str) -> _Candidate:
    async def fetch() -> Callable[[], Evidence]:
        raise VerificationError(finding, step=Step.READABLE)

    return _Candidate(name, fetch)


def _check_size(descriptor: Descriptor, limit: int) -> None:
    """(2) Refuse an attachment that is too large before it is fetched."""
    if descriptor.size > limit:
        raise VerificationError(f"it has more than {limit} bytes", step=Step.READABLE)
