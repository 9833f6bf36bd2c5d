"""``spec.verify`` of objects in registries: it names keys or identities, and matches no others."""

from collections.abc import Iterator
from typing import Final, Protocol

from crds.source_parts import OCIVerification
from toolkit import regexp
from toolkit.verify.cosign import cosign
from toolkit.verify.signature import VerificationError
from webhooks.validation import patterns
from webhooks.validation.rule import Fault, Rule, WithSpec, when

MAX_IDENTITIES: Final = 256
_FIELD: Final = "spec.verify"
_IDENTITIES: Final = f"{_FIELD}.matchOIDCIdentity"
_ANYBODY: Final = (
    "it trusts no signer: without a key or an identity a signature of anybody would do, which "
    "proves nothing"
)
_REMEDY: Final = (
    "name a Secret in secretRef, or for cosign write matchOIDCIdentity with issuer and subject of "
    "the signer, such as ^https://token\\.actions\\.githubusercontent\\.com$ and "
    "^https://github\\.com/ORG/REPO/.+$"
)


class Signed(Protocol):
    """A spec with ``verify``."""

    @property
    def verify(self) -> OCIVerification | None:
        """Return the field ``verify``."""


def _nobody(obj: WithSpec[Signed]) -> Iterator[Fault]:
    verify = obj.spec.verify
    if verify is None or verify.secret_ref is not None:
        return
    if verify.provider == "notation":
        yield Fault(f"{_FIELD}.secretRef", "notation needs a trust policy and certificates")
    elif not verify.match_oidc_identity:
        yield Fault(_FIELD, _ANYBODY)


def _patterns(obj: WithSpec[Signed]) -> Iterator[Fault]:
    verify = obj.spec.verify
    identities = verify.match_oidc_identity if verify else []
    if len(identities) > MAX_IDENTITIES:
        yield Fault(_IDENTITIES, f"there are more than {MAX_IDENTITIES} entries")
        return
    size = 0
    for number, identity in enumerate(identities):
        try:
            cosign.Policy.keyless([(identity.issuer, identity.subject)])
        except VerificationError as exc:
            why = exc.finding.removeprefix(f"{_IDENTITIES}: ").removeprefix(f"{_IDENTITIES} ")
            yield Fault(f"{_IDENTITIES}[{number}]", why)
            continue
        size += regexp.size(identity.issuer) + regexp.size(identity.subject)
        if size > regexp.MOST_INSTRUCTIONS:
            yield Fault(f"{_IDENTITIES}[{number}]", patterns.TOO_LARGE)
            return


def _unanchored(obj: WithSpec[Signed]) -> Iterator[Fault]:
    verify = obj.spec.verify
    for number, each in enumerate(verify.match_oidc_identity[:MAX_IDENTITIES] if verify else ()):
        for name, identity in (
            ("issuer", cosign.Identity(issuer=each.issuer, subject="^x$")),
            ("subject", cosign.Identity(issuer="^x$", subject=each.subject)),
        ):
            yield from when(
                cosign.unanchored(identity),
                f"{_IDENTITIES}[{number}].{name}",
                "it matches within longer texts, too",
            )


def _unused(obj: WithSpec[Signed]) -> Iterator[Fault]:
    verify = obj.spec.verify
    if verify is None:
        return
    why = "with notation" if verify.provider == "notation" else "with keys in spec.verify.secretRef"
    if verify.provider == "notation" or verify.secret_ref is not None:
        yield from when(verify.match_oidc_identity, _IDENTITIES, f"it has no effect {why}")
        yield from when(
            verify.trusted_root_secret_ref,
            f"{_FIELD}.trustedRootSecretRef",
            f"it has no effect {why}",
        )


RULES: Final[tuple[Rule[WithSpec[Signed]], ...]] = (
    Rule(
        name="verify-nobody",
        fields=("spec.verify",),
        demands="it names keys or identities that are trusted",
        remedy=_REMEDY,
        find=_nobody,
    ),
    Rule(
        name="verify-identity",
        fields=(f"{_IDENTITIES}[].issuer", f"{_IDENTITIES}[].subject"),
        demands=patterns.DEMANDS,
        remedy=patterns.REMEDY,
        find=_patterns,
    ),
    Rule(
        name="verify-unanchored",
        fields=(f"{_IDENTITIES}[].issuer", f"{_IDENTITIES}[].subject"),
        demands="it begins with ^ and ends with $",
        remedy="put it between ^ and $",
        find=_unanchored,
        refuses=False,
    ),
    Rule(
        name="verify-unused",
        fields=(_IDENTITIES, "spec.verify.trustedRootSecretRef"),
        demands="it is looked at",
        remedy="remove it, or the field that makes it ineffective",
        find=_unused,
        refuses=False,
    ),
)
