"""Parse and validate a Notary Project trust policy document (OCI trust policy, version 1.0).

Its statements define, per repository, the level of verification, the trusted authorities, and the
subjects that may sign (notaryproject/specifications, trust-store-trust-policy.md).

The document is in a Secret, so messages name its fields and contain none of its values.
"""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, Literal

import msgspec

from toolkit import untrusted
from toolkit.verify.notation.steps import unusable
from toolkit.verify.notation.stores import TYPES
from toolkit.verify.signature import VerificationError

DOCUMENT: Final = "trustpolicy.json"

Action = Literal["enforce", "log", "skip"]

LEVELS: Final[Mapping[str, Mapping[str, Action]]] = MappingProxyType(
    {
        # the action for each failed validation, by level
        "strict": {
            "integrity": "enforce",
            "authenticity": "enforce",
            "authenticTimestamp": "enforce",
            "expiry": "enforce",
            "revocation": "enforce",
        },
        "permissive": {
            "integrity": "enforce",
            "authenticity": "enforce",
            "authenticTimestamp": "log",
            "expiry": "log",
            "revocation": "log",
        },
        "audit": {
            "integrity": "enforce",
            "authenticity": "log",
            "authenticTimestamp": "log",
            "expiry": "log",
            "revocation": "log",
        },
        "skip": {
            "integrity": "skip",
            "authenticity": "skip",
            "authenticTimestamp": "skip",
            "expiry": "skip",
            "revocation": "skip",
        },
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """The required signature for artifacts in some repositories."""

    name: str
    scopes: tuple[str, ...]
    level: str
    override: Mapping[str, str]
    verify_timestamp: str
    trust_stores: tuple[str, ...]
    trusted_identities: tuple[str, ...]

    @property
    def skips(self) -> bool:
        """Tell whether nothing is verified."""
        return self.level == "skip"

    @property
    def demands_timestamp(self) -> bool:
        """Tell whether a timestamp authority must always confirm the time of a signature."""
        authorities = any(store.startswith("tsa:") for store in self.trust_stores)
        return authorities and self.verify_timestamp != "afterCertExpiry"

    def for_engine(self) -> dict[str, Any]:
        """Return the statement as it was understood."""
        return {
            "name": self.name,
            "registryScopes": self.scopes,
            "signatureVerification": {
                "level": self.level,
                "override": dict(self.override),
                "verifyTimestamp": self.verify_timestamp,
            },
            "trustStores": self.trust_stores,
            "trustedIdentities": self.trusted_identities,
        }

    def strictness(self) -> str:
        """Return the level for messages, with the validations that override it."""
        changes = ", ".join(f"{what}: {action}" for what, action in sorted(self.override.items()))
        return f"'{self.level}'" + (f" ({changes})" if changes else "")


_SCOPE: Final = re.compile(
    r"[a-zA-Z0-9]([a-zA-Z0-9-]*[a-zA-Z0-9])?(\.[a-zA-Z0-9]([a-zA-Z0-9-]*[a-zA-Z0-9])?)*(:[0-9]+)?"
    r"(/[a-z0-9]+(([._]|__|-+)[a-z0-9]+)*)+"
)
_STORE: Final = re.compile(r"([a-zA-Z]+):([a-zA-Z0-9_.-]+)")
_LONGEST: Final = 512
_MAX_BYTES: Final = 1 << 20
_MAX_STATEMENTS: Final = 256


class _Verification(msgspec.Struct, rename="camel"):
    level: str
    override: dict[str, str] = {}
    verify_timestamp: str = ""


class _Statement(msgspec.Struct, rename="camel"):
    name: str
    registry_scopes: list[str]
    signature_verification: _Verification
    trust_stores: list[str] = []
    trusted_identities: list[str] = []


class _Document(msgspec.Struct, rename="camel"):
    version: str
    trust_policies: list[_Statement]


def read(document: bytes) -> tuple[Statement, ...]:
    """Return the statements of a trust policy document.

    Raises:
        VerificationError: the text is not such a document, or breaks a rule; the message names
            the field.

    """
    if len(document) > _MAX_BYTES:
        raise unusable(f"'{DOCUMENT}' is larger than {_MAX_BYTES >> 20} MiB")
    try:
        raw = untrusted.load_json(document, _Document, size=_MAX_BYTES)
    except untrusted.UntrustedError as exc:
        raise unusable(f"'{DOCUMENT}' is not a trust policy document: {exc}") from exc
    if raw.version != "1.0":
        raise _wrong("version", "it is not supported: use 1.0")
    if not 0 < len(raw.trust_policies) <= _MAX_STATEMENTS:
        raise _wrong("trustPolicies", f"give 1 to {_MAX_STATEMENTS} statements")
    statements = tuple(
        _statement(one, f"trustPolicies[{i}]") for i, one in enumerate(raw.trust_policies)
    )
    _check_once("name", Counter(one.name for one in statements))
    _check_once("registryScopes", Counter(scope for one in statements for scope in one.scopes))
    return statements


def _statement(raw: _Statement, path: str) -> Statement:
    if not raw.name:
        raise _wrong(f"{path}.name", "is empty: every statement needs a name")
    _check_verification(raw.signature_verification, f"{path}.signatureVerification")
    _check_scopes(raw, f"{path}.registryScopes")
    if raw.signature_verification.level == "skip":
        if raw.trust_stores or raw.trusted_identities:
            raise _wrong(path, "level skip looks at no trustStores or trustedIdentities: drop them")
    else:
        _check_stores(raw.trust_stores, f"{path}.trustStores")
        _check_identities(raw.trusted_identities, f"{path}.trustedIdentities")
    return Statement(
        name=raw.name,
        scopes=tuple(raw.registry_scopes),
        level=raw.signature_verification.level,
        override=MappingProxyType(raw.signature_verification.override),
        verify_timestamp=raw.signature_verification.verify_timestamp,
        trust_stores=tuple(raw.trust_stores),
        trusted_identities=tuple(raw.trusted_identities),
    )


def _check_verification(raw: _Verification, path: str) -> None:
    if raw.level not in LEVELS:
        raise _wrong(f"{path}.level", f"it is not valid: use one of {', '.join(LEVELS)}")
    if raw.level == "skip" and raw.override:
        raise _wrong(f"{path}.override", "level skip has nothing to override")
    for what, action in raw.override.items():
        where = f"{path}.override"
        if what not in LEVELS["strict"] or what == "integrity":
            known = ", ".join(name for name in LEVELS["strict"] if name != "integrity")
            raise _wrong(where, f"an entry cannot be overridden: only {known} can")
        allowed = ("enforce", "log", "skip") if what == "revocation" else ("enforce", "log")
        if action not in allowed:
            raise _wrong(f"{where}.{what}", f"it is not valid: use {' or '.join(allowed)}")
    if raw.verify_timestamp not in {"", "always", "afterCertExpiry"}:
        raise _wrong(
            f"{path}.verifyTimestamp",
            "it is not valid: use always or afterCertExpiry",
        )


def _check_scopes(raw: _Statement, path: str) -> None:
    scopes = raw.registry_scopes
    if not scopes:
        raise _wrong(path, "is empty: name repositories, or '*' for all others")
    if "*" in scopes:
        if len(scopes) > 1:
            raise _wrong(path, "'*' stands for all and must stand alone")
        if raw.signature_verification.level == "skip":
            raise _wrong(path, "'*' cannot be skipped: name the repositories that may be unsigned")
        return
    for number, scope in enumerate(scopes):
        if len(scope) > _LONGEST or not _SCOPE.fullmatch(scope):
            raise _wrong(
                f"{path}[{number}]",
                "it is not a repository: write registry/name, without scheme, tag or wildcard",
            )


def _check_stores(stores: list[str], path: str) -> None:
    for number, store in enumerate(stores):
        match = _STORE.fullmatch(store)
        if match is None or match[1] not in TYPES:
            raise _wrong(
                f"{path}[{number}]",
                f"it is not a trust store: write <type>:<name>, with a type of {', '.join(TYPES)}",
            )
    if not any(store.startswith(("ca:", "signingAuthority:")) for store in stores):
        raise _wrong(path, "names no authority: add a store, as ca:<name>")


def _check_identities(identities: list[str], path: str) -> None:
    if not identities:
        raise _wrong(path, "is empty: add 'x509.subject: C=…, ST=…, O=…', or '*' for all")
    if "*" in identities and len(identities) > 1:
        raise _wrong(path, "'*' stands for all and must stand alone")
    for number, identity in enumerate(identities):
        kind, separator, value = identity.partition(":")
        if identity == "*" or (separator and kind != "x509.subject"):
            continue
        parts = {part.partition("=")[0].strip() for part in re.split(r"[,+]", value)}
        if not separator or not {"C", "O"} <= parts or not parts & {"ST", "S"}:
            raise _wrong(
                f"{path}[{number}]",
                "it is not an identity: write 'x509.subject: C=…, ST=…, O=…' with at least these "
                "parts of the signer's subject",
            )


def _check_once(what: str, counted: Counter[str]) -> None:
    for times in counted.values():
        if times > 1:
            raise _wrong("trustPolicies", f"one {what} stands in {times} statements")


def _wrong(path: str, message: str) -> VerificationError:
    return unusable(f"{path} in '{DOCUMENT}': {message}")
