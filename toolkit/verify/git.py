"""Whether a checked-out commit, or the tag it was found by, is signed by someone who is trusted.

The commit's id was computed from its bytes when it was fetched, and so was the tag's: what remains
to prove is who signed them, and that the tag is the one that was asked for.

1. The mode asks for something that the reference can give.
2. Tag: it is annotated and signed.
3. Tag: it calls itself what its reference is called. A signed tag that is moved under another name
   would otherwise pass an old release off as a new one.
4. Tag: the signature is by a trusted key. (That it leads to the commit was seen at the checkout.)
5. Commit: it is signed, by a trusted key.

Where a signature fails at 4 or 5, the message adds at which of its own steps (`ssh`, `openpgp`).
"""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from enum import IntEnum
from typing import Final

from toolkit.remote.git.objects import Signed
from toolkit.remote.git.wire import Checkout, TagObject
from toolkit.skipped import told
from toolkit.verify import openpgp, ssh, sshkeys
from toolkit.verify.signature import FACT, Proof, Signer, VerificationError, VerificationModeError

_SSH_KEYS: Final = ".sshpub"
_SSH_SIGNATURE: Final = b"-----BEGIN SSH SIGNATURE-----"
_PGP_SIGNATURES: Final = (b"-----BEGIN PGP SIGNATURE-----", b"-----BEGIN PGP MESSAGE-----")


class Step(IntEnum):
    """One step of the proof; its number is part of the message when it fails."""

    MODE = 1
    TAG_SIGNED = 2
    TAG_NAME = 3
    TAG_SIGNER = 4
    COMMIT = 5


def verify(checkout: Checkout, *, mode: str, keys: Mapping[str, bytes]) -> Proof:
    """Verify the signatures for a mode: ``HEAD`` (or ``head``), ``Tag`` or ``TagAndHEAD``.

    ``keys`` is the Secret's data: ``*.sshpub`` are SSH public keys, all others OpenPGP keyrings.

    Raises:
        VerificationModeError: the mode needs a tag and the spec names none.
        VerificationError: ``InvalidGitObject``, ``InvalidTagSignature``,
            ``InvalidCommitSignature``.
    """
    wants_tag, wants_commit = _parts(mode)
    found: list[tuple[str, Signer]] = []
    if wants_tag:
        name = checkout.tag.name if checkout.tag else ""
        found.append((f"tag '{name}'", _verify_tag(checkout.tag, keys)))
    if wants_commit:
        found.append((f"commit '{checkout.commit}'", _verify_commit(checkout, keys)))
    signed = " and of ".join(f"{what} by {signer}" for what, signer in found)
    people = [signer for _, signer in found]
    skipped = [entry for signer in people for entry in signer.skipped]
    return Proof(
        signer=people[-1],
        message=f"verified signature of {signed}{told(skipped)}",
        facts={
            f"{FACT}method": "git",
            f"{FACT}identity": _listed(signer.identity for signer in people),
            f"{FACT}fingerprint": _listed(signer.fingerprint for signer in people),
        },
    )


def skipped(keys: Mapping[str, bytes]) -> tuple[str, ...]:
    """Return the ignored entries among the SSH keys of a Secret, each with its reason.

    Raises:
        VerificationError: a line that revokes a key cannot be parsed.
    """
    try:
        return sshkeys.read(_ssh_keys(keys), now=datetime.now(UTC)).skipped
    except ValueError as exc:
        raise VerificationError(str(exc)) from exc


def _ssh_keys(keys: Mapping[str, bytes]) -> dict[str, bytes]:
    return {name: key for name, key in keys.items() if name.endswith(_SSH_KEYS)}


def _listed(values: Iterable[str]) -> str:
    """Return the messages of tag and commit, without duplicates."""
    return ", ".join(dict.fromkeys(values))


def _parts(mode: str) -> tuple[bool, bool]:
    match mode:
        case "HEAD" | "head":
            return False, True
        case "Tag":
            return True, False
        case "TagAndHEAD":
            return True, True
    raise VerificationModeError(
        f"step {Step.MODE}: unknown verification mode '{mode}': use HEAD, Tag or TagAndHEAD"
    )


def _verify_tag(tag: TagObject | None, keys: Mapping[str, bytes]) -> Signer:
    if tag is None:  # (1)
        raise VerificationModeError(
            f"step {Step.MODE}: cannot verify a tag: spec.ref names none; set tag, semver, or a "
            "name below refs/tags/"
        )
    if not tag.own_name or tag.signature is None:  # (2)
        kind = "not signed" if tag.own_name else "a lightweight one, which cannot be signed"
        raise VerificationError(
            f"tag '{tag.name}' is {kind}", reason="InvalidGitObject", step=Step.TAG_SIGNED
        )
    if tag.own_name != tag.name:  # (3)
        raise VerificationError(
            f"tag '{tag.name}' calls itself '{tag.own_name}': its signature is for that name",
            reason="InvalidTagSignature",
            step=Step.TAG_NAME,
        )
    what = f"tag '{tag.name}'"
    return _signer(tag.signature, keys, what, "InvalidTagSignature", Step.TAG_SIGNER)  # (4)


def _verify_commit(checkout: Checkout, keys: Mapping[str, bytes]) -> Signer:
    what = f"commit '{checkout.commit}'"
    if checkout.commit_signature is None:  # (5)
        raise VerificationError(
            f"signature verification of {what} failed: it is not signed",
            reason="InvalidCommitSignature",
            step=Step.COMMIT,
        )
    return _signer(checkout.commit_signature, keys, what, "InvalidCommitSignature", Step.COMMIT)


def _signer(
    signed: Signed, keys: Mapping[str, bytes], what: str, reason: str, step: Step
) -> Signer:
    try:
        return _check(signed, keys)
    except VerificationError as exc:
        at = f" at its own step {exc.step}" if exc.step else ""
        raise VerificationError(
            f"signature verification of {what} failed{at}: {exc.finding}", reason=reason, step=step
        ) from exc


def _check(signed: Signed, keys: Mapping[str, bytes]) -> Signer:
    if signed.signature.startswith(_SSH_SIGNATURE):
        ssh_keys = _ssh_keys(keys)
        if not ssh_keys:
            raise VerificationError("it is signed with SSH, and the secret has no *.sshpub key")
        return ssh.verify(signed, ssh_keys)
    if signed.signature.startswith(_PGP_SIGNATURES):
        keyrings = {name: key for name, key in keys.items() if not name.endswith(_SSH_KEYS)}
        if not keyrings:
            raise VerificationError("it is signed with OpenPGP, and the secret has no OpenPGP key")
        return openpgp.verify(signed, keyrings)
    raise VerificationError("it is neither an OpenPGP nor an SSH signature")
