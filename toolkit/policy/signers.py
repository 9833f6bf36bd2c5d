"""Decide whether a signature is the one that a ``SourcePolicy`` requires (``verify``). Pure.

``weaker`` compares the requirements of a source object with those of the policy. It refuses
requirements that are certainly weaker; patterns of identities are compared as far as this can be
decided. ``refused`` checks the actual signer before the content is stored.
"""

import dataclasses
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from crds.policy_parts import RequiredIdentity
from crds.policy_source import (
    RequiredCosignSignature,
    RequiredGitSignature,
    RequiredNotationSignature,
    RequiredVerification,
)
from toolkit import regexp
from toolkit.objects import Json, dig
from toolkit.policy.origins import FACT, Origin

_VERIFY: Final = "spec.verify"
_MODES: Final[Mapping[str, frozenset[str]]] = {
    "head": frozenset({"commit"}),
    "HEAD": frozenset({"commit"}),
    "Tag": frozenset({"tag"}),
    "TagAndHEAD": frozenset({"commit", "tag"}),
}
_MOST: Final = 256
"""Identities of a source: each is compared with each that is required."""
_LONGEST: Final = 4096
"""Characters of a pattern."""
_SPECIAL: Final = frozenset(r".^$*+?()[]{}|\\")


@dataclass(frozen=True, slots=True)
class Finding:
    """A problem in a field; ``value`` distinguishes findings, and may be secret."""

    field: str
    why: str
    value: str = dataclasses.field(default="", repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Signed:
    """The signer that a verification has proved, and the other requirements of the source."""

    method: str
    identity: str
    issuer: str
    fingerprints: tuple[str, ...]
    demanded: Origin

    @classmethod
    def of(cls, origin: Origin) -> "Signed":
        """Read the facts that are recorded of an origin (``toolkit.verify.signature.FACT``)."""
        facts = origin.facts
        return cls(
            method=facts.get(f"{FACT}method", ""),
            identity=facts.get(f"{FACT}identity", ""),
            issuer=facts.get(f"{FACT}issuer", ""),
            # tag and commit may have been signed by two keys, of which both must be allowed
            fingerprints=tuple(facts.get(f"{FACT}fingerprint", "").split(", ")),
            demanded=origin,
        )


def weaker(obj: Json, required: RequiredVerification) -> Finding | None:
    """Return where a source demands less than is required; None if it demands enough."""
    verify = dig(obj, "spec", "verify")
    if not verify:
        return Finding(_VERIFY, f"a signature must be demanded: {_told(required)}")
    if obj.get("kind") == "GitRepository":
        return _weaker_git(verify, required.git) if required.git else None
    provider = verify.get("provider") or "cosign"
    if provider == "cosign" and required.cosign:
        return _weaker_cosign(verify, required.cosign)
    if provider == "notation" and required.notation:
        return _unfounded(required.notation)
    return Finding(f"{_VERIFY}.provider", f"'{provider}' is not enough: {_told(required)}")


def refused(signed: Signed | None, required: RequiredVerification | None) -> str:
    """Return why a signer is not one of those required; empty if it is."""
    if required is None:
        return ""
    if signed is None:
        return f"no trusted signer signed all of it; required is {_told(required)}"
    match signed.method:
        case "git" if required.git:
            fine = _committed(signed, required.git)
        case "cosign-key" if required.cosign:
            fine = _keyed(signed, required.cosign)
        case "cosign-keyless" if required.cosign:
            fine = _identified(signed, required.cosign)
        case "notation" if required.notation:
            fine = _certified(signed, required.notation)
        case _:
            fine = False
    if fine:
        return ""
    who = " ".join(part for part in (signed.identity, *signed.fingerprints) if part)
    mode = f" ({signed.demanded.mode})" if signed.demanded.mode else ""
    root = ", by a trust root of the source's own" if signed.demanded.own_trusted_root else ""
    return f"it was signed by {who}{mode}{root}; required is {_told(required)}"


def _unfounded(required: RequiredNotationSignature) -> Finding | None:
    """Return that nothing can satisfy a requirement of names alone, if it is one.

    The definition refuses such a policy; the store may hold one from before.
    """
    if _certifiable(required):
        return None
    return Finding(
        f"{_VERIFY}.provider",
        "no signature by Notation is enough, because the policy lists identities without "
        "certificates, and the source brings its own authorities (ownAuthorities)",
    )


def _certifiable(required: RequiredNotationSignature) -> bool:
    """Tell whether the names in certificates prove something.

    A source trusts the authorities in its own Secret, and an authority writes any name.
    """
    named = bool(required.identities) and not required.certificates
    return not named or required.own_authorities == "Allow"


def _weaker_git(verify: Json, required: RequiredGitSignature) -> Finding | None:
    mode = str(verify.get("mode") or "HEAD")
    if _MODES[required.mode] <= _MODES.get(mode, frozenset()):
        return None
    return Finding(f"{_VERIFY}.mode", f"'{mode}' is not enough: it must be {required.mode} or more")


def _weaker_cosign(verify: Json, required: RequiredCosignSignature) -> Finding | None:
    either = not required.keys and not required.identities
    if verify.get("secretRef"):
        if either or required.keys:
            return None
        return Finding(f"{_VERIFY}.secretRef", "keys are not enough: an identity must sign")
    if not either and not required.identities:
        return Finding(f"{_VERIFY}.secretRef", "a key must sign, an identity is not enough")
    return _weaker_identities(verify, required)


def _weaker_identities(verify: Json, required: RequiredCosignSignature) -> Finding | None:
    identities = verify.get("matchOIDCIdentity") or ()
    where = f"{_VERIFY}.matchOIDCIdentity"
    if verify.get("trustedRootSecretRef") and required.own_trusted_root == "Deny":
        return Finding(f"{_VERIFY}.trustedRootSecretRef", "a private trust root is not allowed")
    if not identities:
        return Finding(where, "any identity would do; name those that may sign")
    if len(identities) > _MOST:
        return Finding(where, f"more than {_MOST} identities are not compared; name fewer")
    for number, each in enumerate(identities):
        found = str(each.get("issuer") or ""), str(each.get("subject") or "")
        if required.identities and not any(_within(*found, one) for one in required.identities):
            allowed = "; ".join(f"{one.subject} by {one.issuer}" for one in required.identities)
            return Finding(
                f"{where}[{number}]",
                f"it may match others than those required: {allowed}; anchor it with ^ and $, "
                "and write the same pattern or a narrower one",
            )
    return None


def _within(issuer: str, subject: str, required: RequiredIdentity) -> bool:
    return _narrower(issuer, required.issuer) and _narrower(subject, required.subject)


def _narrower(pattern: str, required: str) -> bool:
    """Tell whether ``required`` matches everything that an anchored pattern matches, if decidable.

    This is decided in three cases: both are equal, the pattern is a plain text that matches, or the
    required pattern is a plain text followed by anything and the pattern begins with that text. A
    pattern longer than any identity is not compared.
    """
    inner = _anchored(pattern) if len(pattern) <= _LONGEST else None
    if inner is None:
        return False
    if inner == required:
        return True
    text, rest = _literal(inner)
    if not rest:
        return regexp.fits(required, text)
    prefix, wild = _literal(required)
    return wild == ".*" and text.startswith(prefix)


def _anchored(pattern: str) -> str | None:
    """Return the text between the anchors of a pattern; None if it is not completely anchored."""
    if not (pattern.startswith("^") and pattern.endswith("$")) or pattern.endswith(r"\$"):
        return None
    inner = pattern[1:-1]
    if inner.startswith("(?:") and inner.endswith(")") and not set("()|") & set(inner[3:-1]):
        return inner[3:-1]
    # an alternative, or a flag, could get out of the anchors
    return None if "|" in inner or "(?" in inner else inner


def _literal(pattern: str) -> tuple[str, str]:
    """Split a pattern into the plain text that it begins with, and the rest."""
    text, at = "", 0
    while at < len(pattern):
        char, following = pattern[at], pattern[at + 1 : at + 2]
        escaped = char == "\\" and following in _SPECIAL | set("/-:@ ")
        step = 2 if escaped else 1
        quantified = pattern[at + step : at + step + 1] in set("*+?{")
        if quantified or (char in _SPECIAL and not escaped):
            break
        text += following if escaped else char
        at += step
    return text, pattern[at:]


def _known(signed: Signed, allowed: list[str]) -> bool:
    """Tell whether all keys that signed are among those allowed; with none, any is."""
    wanted = {_same(each) for each in allowed}
    return not wanted or all(_same(each) in wanted for each in signed.fingerprints)


def _same(fingerprint: str) -> str:
    """Return a fingerprint as it is compared: hexadecimal digits have no case, base64 has."""
    digits = fingerprint.removeprefix("SHA256:")
    if re.fullmatch(r"[0-9A-Fa-f]{40}|[0-9A-Fa-f]{64}", digits):
        return fingerprint.upper()
    return fingerprint.rstrip("=")


def _keyed(signed: Signed, required: RequiredCosignSignature) -> bool:
    if not required.keys:
        return not required.identities
    return _known(signed, required.keys)


def _committed(signed: Signed, required: RequiredGitSignature) -> bool:
    enough = _MODES[required.mode] <= _MODES.get(signed.demanded.mode, frozenset())
    return enough and _known(signed, required.keys)


def _identified(signed: Signed, required: RequiredCosignSignature) -> bool:
    if signed.demanded.own_trusted_root and required.own_trusted_root == "Deny":
        return False
    if not required.identities:
        return not required.keys and not signed.demanded.any_identity
    return any(
        regexp.fits(each.issuer, signed.issuer) and regexp.fits(each.subject, signed.identity)
        for each in required.identities
    )


def _certified(signed: Signed, required: RequiredNotationSignature) -> bool:
    if not _certifiable(required):
        return False
    if required.certificates and not _known(signed, required.certificates):
        return False
    has = set(_attributes(signed.identity))
    wanted = [set(_attributes(each)) for each in required.identities]
    return not wanted or any(each and each <= has for each in wanted)


def _attributes(name: str) -> Iterator[str]:
    """Yield the attributes of a distinguished name (RFC 4514), as ``O=Acme``."""
    for part in re.split(r"(?<!\\)[,+]", name.removeprefix("x509.subject:")):
        key, separator, value = part.strip().partition("=")
        if separator:
            yield f"{key.strip().upper()}={value.strip()}"


def _told(required: RequiredVerification) -> str:
    """Return the requirement for messages."""
    parts = []
    if required.git:
        parts.append(f"a git signature ({required.git.mode}){_of(required.git.keys)}")
    if required.cosign:
        identities = [f"{each.subject} by {each.issuer}" for each in required.cosign.identities]
        parts.append(f"a cosign signature{_of([*required.cosign.keys, *identities])}")
    if required.notation:
        notation = required.notation
        founded = "" if _certifiable(notation) else " (which takes certificates or ownAuthorities)"
        named = _of([*notation.certificates, *notation.identities])
        parts.append(f"a notation signature{named}{founded}")
    return " or ".join(parts)


def _of(allowed: list[str]) -> str:
    return f" of {' or '.join(allowed)}" if allowed else ""
