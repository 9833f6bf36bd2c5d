"""The secret keys of one decryption Secret, and how they recover a document's data key.

Cloud key services are not asked: a document that is encrypted for them alone is refused with the
service's name.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from toolkit.decrypt import KEYS, shamir
from toolkit.decrypt.errors import DecryptionError
from toolkit.decrypt.keys import Opener, Recipient

DATA_KEY: Final = 32
"""Bytes, for AES-256. A share has one more."""

MAX_RECIPIENTS: Final = 200
"""Entries in one ``sops`` block that are tried; each costs an asymmetric operation a key."""

MAX_ENCRYPTED: Final = 32 << 10
"""Characters of one encrypted data key. An OpenPGP message may hold compressed data: whoever knows
the public key could write a small one that opens to a very large one."""


class KeyRing:
    """Opens data keys. Prints as the number of its keys and shows nothing else."""

    __slots__ = ("_openers",)

    def __init__(self, openers: Mapping[str, Sequence[Opener]]) -> None:
        self._openers = openers

    @classmethod
    def from_secret(cls, data: Mapping[str, bytes]) -> "KeyRing":
        """Load ``*.agekey`` and ``*.asc``; other entries of the Secret are not ours.

        Raises:
            DecryptionError: one of them holds no usable key.
        """
        openers: dict[str, list[Opener]] = {kind.name: [] for kind in KEYS}
        for kind in KEYS:
            for name in sorted(name for name in data if name.endswith(kind.suffix)):
                try:
                    openers[kind.name].append(kind.load(data[name]))
                except DecryptionError as exc:
                    raise DecryptionError(f"cannot use the key '{name}': {exc}") from exc
        return cls(openers)

    def data_key(self, groups: Sequence[Sequence[Recipient]], threshold: int) -> bytes:
        """Return the data key of a document, put together from shares if it has key groups.

        Raises:
            DecryptionError: too few of the groups can be opened.
        """
        if sum(len(group) for group in groups) > MAX_RECIPIENTS:
            raise DecryptionError(f"the document has more than {MAX_RECIPIENTS} recipients")
        parts = [part for group in groups if (part := self._open(group)) is not None]
        parts = [part for part in parts if len(part) <= DATA_KEY + 1]
        needed = max(threshold, 2) if len(groups) > 1 else 1
        if len(parts) < needed:
            raise DecryptionError(_explain(groups, opened=len(parts), needed=needed))
        key = shamir.combine(parts) if len(groups) > 1 else parts[0]
        if len(key) != DATA_KEY:
            raise DecryptionError(f"the data key does not have {DATA_KEY} bytes")
        return key

    def __bool__(self) -> bool:
        return any(self._openers.values())

    def __repr__(self) -> str:
        counts = ", ".join(f"{name}={len(keys)}" for name, keys in self._openers.items())
        return f"KeyRing({counts})"

    def _open(self, group: Sequence[Recipient]) -> bytes | None:
        for kind in KEYS:
            for recipient in group:
                if recipient.kind != kind.name or len(recipient.encrypted) > MAX_ENCRYPTED:
                    continue
                for opener in self._openers.get(kind.name, ()):
                    if (key := opener.open(recipient.encrypted)) is not None:
                        return key
        return None


_SERVICES: Final = {
    "kms": "AWS KMS",
    "gcp_kms": "Google Cloud KMS",
    "azure_kv": "Azure Key Vault",
    "hc_vault": "HashiCorp Vault",
    "hckms": "Huawei Cloud KMS",
}
_TITLES: Final = {"age": "age", "pgp": "OpenPGP"}
_SHOWN: Final = 5


def _explain(groups: Iterable[Sequence[Recipient]], *, opened: int, needed: int) -> str:
    """Say for whom the data key is encrypted; recipients are public."""
    recipients = [recipient for group in groups for recipient in group]
    ours = [item for item in recipients if item.kind in _TITLES]
    services = [item for item in recipients if item.kind not in _TITLES]
    shares = f" ({opened} of {needed} key groups opened)" if needed > 1 else ""
    if services and not ours:
        names = ", ".join(
            f"{_SERVICES.get(item.kind, item.kind)} ({item.name})" for item in services[:_SHOWN]
        )
        return (
            f"the data key is encrypted for {names}, which is not available; "
            f"add an age or OpenPGP recipient{shares}"
        )
    names = ", ".join(f"{_TITLES[item.kind]} {item.name}" for item in ours[:_SHOWN])
    return f"no key opens the data key, which is encrypted for {names or 'nobody'}{shares}"
