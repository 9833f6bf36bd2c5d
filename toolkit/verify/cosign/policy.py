"""Trusted signers of a cosign verification: public keys, or identities of a Sigstore instance.

Identities are patterns in RE2, whose time is linear. As in Go they match anywhere unless they are
anchored: ``unanchored`` finds patterns that other identities can match too.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from toolkit import regexp
from toolkit.verify import publickey
from toolkit.verify.cosign import trustedroot
from toolkit.verify.publickey import PublicKey
from toolkit.verify.signature import VerificationError

KEYS: Final = ".pub"
TRUSTED_ROOT: Final = "trusted_root.json"

_MAX_IDENTITIES: Final = 256
_MAX_KEYS: Final = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Patterns for a certificate's issuer and subject; both have to match."""

    issuer: str
    subject: str

    def matches(self, issuer: str, subject: str) -> bool:
        """Tell whether both patterns are found."""
        issued = regexp.compiled(self.issuer).search(issuer)
        return bool(issued and regexp.compiled(self.subject).search(subject))


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Either keys by their names in a Secret, any of which may sign, or identities.

    ``trusted_root`` is a ``trusted_root.json``; ``None`` is Sigstore's public instance.

    Raises:
        VerificationError: neither or both are given, or one of them cannot be used.

    """

    keys: Mapping[str, bytes]
    identities: tuple[Identity, ...] = ()
    trusted_root: bytes | None = None

    def __post_init__(self) -> None:
        if self.keys and self.identities:
            raise VerificationError("keys and identities cannot both be required")
        if not self.keys and not self.identities:
            raise VerificationError(
                "no signer is trusted: set keys in spec.verify.secretRef, or identities in "
                "spec.verify.matchOIDCIdentity"
            )
        if len(self.keys) > _MAX_KEYS or len(self.identities) > _MAX_IDENTITIES:
            raise VerificationError(f"more than {_MAX_KEYS} keys or identities are trusted")
        loaded(self)
        size = 0
        for identity in self.identities:
            size += _size("issuer", identity.issuer) + _size("subject", identity.subject)
            if size > regexp.MOST_INSTRUCTIONS:
                raise VerificationError(
                    "spec.verify.matchOIDCIdentity: its patterns compile to more than"
                    f" {regexp.MOST_INSTRUCTIONS} instructions: use fewer or simpler patterns"
                )
        if self.trusted_root is not None:
            trustedroot.read(self.trusted_root)

    @classmethod
    def from_secret(cls, data: Mapping[str, bytes]) -> "Policy":
        """Trust the ``*.pub`` keys in the data of a Secret.

        Raises:
            VerificationError: there is none, or one is not a public key.
        """
        keys = {name: key for name, key in data.items() if name.endswith(KEYS)}
        if not keys:
            raise VerificationError(f"the secret holds no public key: add one as *{KEYS}")
        return cls(keys=keys)

    @classmethod
    def keyless(
        cls, identities: Iterable[tuple[str, str]], root: Mapping[str, bytes] | None = None
    ) -> "Policy":
        """Trust pairs of issuer and subject; ``root`` is the data of the Secret with the root.

        Raises:
            VerificationError: there are no identities, a pattern is empty or no RE2, or the Secret
                holds no readable ``trusted_root.json``.

        """
        trusted = None
        if root is not None:
            trusted = root.get(TRUSTED_ROOT)
            if trusted is None:
                raise VerificationError(f"the secret of the trusted root has no '{TRUSTED_ROOT}'")
        return cls(
            keys={},
            identities=tuple(
                Identity(issuer=issuer, subject=subject) for issuer, subject in identities
            ),
            trusted_root=trusted,
        )

    @property
    def trust(self) -> str:
        """Return a hash that changes with every key and its name, every pattern and root."""
        # The public root changes by itself, seldom, and proofs are not kept for longer than hours.
        material = [
            "cosign",
            # A proof names the key as the Secret does, and is no other namespace's to name.
            sorted((name, sha256(key).hexdigest()) for name, key in self.keys.items()),
            [[identity.issuer, identity.subject] for identity in self.identities],
            "public" if self.trusted_root is None else sha256(self.trusted_root).hexdigest(),
        ]
        return sha256(json.dumps(material).encode()).hexdigest()


def loaded(policy: Policy) -> Mapping[str, PublicKey]:
    """Return a policy's keys.

    Raises:
        VerificationError: one is not a public key, or of a kind that does not count.

    """
    keys = {}
    for name, pem in sorted(policy.keys.items()):
        try:
            keys[name] = publickey.from_pem(pem)
        except ValueError as exc:
            raise VerificationError(f"'{name}' in the secret is not a public key: {exc}") from exc
    return keys


def unanchored(identity: Identity) -> bool:
    """Tell whether a longer issuer or subject than the one that is meant may match, too."""
    return not (_anchored(identity.issuer) and _anchored(identity.subject))


def _size(field: str, pattern: str) -> int:
    """Return how many instructions a pattern compiles to."""
    if not pattern:
        raise VerificationError(f"spec.verify.matchOIDCIdentity has an empty {field}")
    if len(pattern) > regexp.LONGEST:
        raise VerificationError(
            f"spec.verify.matchOIDCIdentity has an {field} of more than {regexp.LONGEST} characters"
        )
    try:
        return regexp.size(pattern)
    except ValueError as exc:
        raise VerificationError(f"spec.verify.matchOIDCIdentity: '{pattern}' is {exc}") from exc


def _anchored(pattern: str) -> bool:
    """Tell whether each alternative begins and ends with an anchor; False if unsure."""
    if _LINES.search(pattern):
        return False
    return all(
        len(branch) > 1 and branch[0] in {"^", r"\A"} and branch[-1] in {"$", r"\z"}
        for branch in _branches(_FLAGS.sub("", pattern))
    )


# With this flag `^` and `$` match at the ends of lines.
_LINES: Final = re.compile(r"\(\?[a-zA-Z]*m")
_FLAGS: Final = re.compile(r"^\(\?[isU]+\)")
_TOKEN: Final = re.compile(
    r"\\Q.*?(?:\\E|$) | \\. | \[\^?\]?(?:\\.|\[:\^?\w+:\]|[^\]\\])*\] | .",
    re.DOTALL | re.VERBOSE,
)


def _branches(pattern: str) -> list[list[str]]:
    """Split into tokens at each ``|`` outside groups and classes."""
    branches: list[list[str]] = [[]]
    depth = 0
    for part in _TOKEN.findall(pattern):
        depth += (part == "(") - (part == ")")
        if part == "|" and not depth:
            branches.append([])
        else:
            branches[-1].append(part)
    return branches
