"""The secret keys of one decryption Secret, and how they decrypt the data key of a document.

Pure: nothing here calls the engine or key services. If a ring may use them (``asking``), it reports
the recipients whose answers it needs (``UnaskedError``), and decides again with their answers
(``told``). Otherwise it refuses a document that is encrypted only for them, and names the service.

An unusable key does not hide others: it is skipped, and reported if no other key fits.
"""

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final, Self

from toolkit.decrypt import KEYS, shamir
from toolkit.decrypt.errors import DecryptionError, UnreachableError
from toolkit.decrypt.keys import TITLES, Groups, Opener, Recipient, Refusal, UnaskedError
from toolkit.skipped import Skipped, told

DATA_KEY: Final = 32
"""Bytes, for AES-256. A share has one more."""

MAX_RECIPIENTS: Final = 200
"""Entries in one ``sops`` block that are tried; each costs an asymmetric operation a key."""

MAX_ENCRYPTED: Final = 8 << 10
"""Limit of one encrypted data key in characters. An OpenPGP message may be compressed: a user with
the public key could write a small one that decompresses to a very large one.
"""


Answers = Mapping[Recipient, bytes | Refusal]
"""Answers of the engine and key services about data keys, by recipient."""

_NO_ANSWERS: Final[Answers] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class KeyRing:
    """Decrypts data keys. Its repr shows only the number of keys."""

    openers: Mapping[str, Sequence[Opener]] = field(default_factory=dict)
    """By the list of the block."""
    left: Mapping[str, Mapping[str, bytes]] = field(default_factory=dict)
    """Keys that only the engine can use: by the list of the block, then by entry of the Secret."""
    skipped: tuple[Skipped, ...] = ()
    services: frozenset[str] = frozenset()
    answers: Answers = field(default_factory=lambda: _NO_ANSWERS)

    @classmethod
    def from_secret(cls, data: Mapping[str, bytes]) -> Self:
        """Load ``*.agekey`` and ``*.asc``; other entries of the Secret are ignored."""
        openers: dict[str, list[Opener]] = {kind.name: [] for kind in KEYS}
        left: dict[str, dict[str, bytes]] = {kind.name: {} for kind in KEYS}
        skipped: list[Skipped] = []
        for kind in KEYS:
            for name in sorted(name for name in data if name.endswith(kind.suffix)):
                loaded = kind.load(data[name])
                if loaded.opener is not None:
                    openers[kind.name].append(loaded.opener)
                if loaded.left:
                    left[kind.name][name] = loaded.left
                skipped += [Skipped(entry=name, finding=finding) for finding in loaded.findings]
        return cls(openers=openers, left=left, skipped=tuple(skipped))

    def asking(self, services: Collection[str]) -> Self:
        """Return the ring with the engine and these services (lists of the block) behind it."""
        return replace(self, services=frozenset(services) | {*filter(self.left.get, self.left)})

    def told(self, answers: Answers, skipped: Iterable[Skipped] = ()) -> Self:
        """Return the ring with more answers, and keys that turned out to be of no use."""
        every = tuple(dict.fromkeys((*self.skipped, *skipped)))
        return replace(self, answers={**self.answers, **answers}, skipped=every)

    def data_key(self, groups: Groups, threshold: int) -> bytes:
        """Return the data key of a document, combined from shares if it has key groups.

        Raises:
            DecryptionError: too few of the groups can be decrypted.
            UnaskedError: the keys here are not enough, and other recipients have not been asked.
        """
        if sum(len(group) for group in groups) > MAX_RECIPIENTS:
            raise DecryptionError(f"the document has more than {MAX_RECIPIENTS} recipients")
        until = time.thread_time() + _SECONDS
        opened = [self._open(group, until) for group in groups]
        parts = [part for part in opened if part is not None and len(part) <= DATA_KEY + 1]
        needed = max(threshold, 2) if len(groups) > 1 else 1
        if len(parts) < needed:
            closed = [group for group, part in zip(groups, opened, strict=True) if part is None]
            raise self._lacking(groups, closed, opened=len(parts), needed=needed)
        key = shamir.combine(parts) if len(groups) > 1 else parts[0]
        if len(key) != DATA_KEY:
            raise DecryptionError(f"the data key does not have {DATA_KEY} bytes")
        return key

    def __bool__(self) -> bool:
        return any(self.openers.values()) or any(self.left.values())

    def __repr__(self) -> str:
        sizes = {
            kind.name: len(self.openers.get(kind.name, ())) + len(self.left.get(kind.name, ()))
            for kind in KEYS
        }
        counts = ", ".join(f"{name}={size}" for name, size in sizes.items())
        return f"KeyRing({counts})"

    def _lacking(
        self, groups: Groups, closed: Groups, *, opened: int, needed: int
    ) -> UnaskedError | DecryptionError:
        """Return a question if its answer can help, otherwise the error."""
        unasked = [[item for item in group if self._may_ask(item)] for group in closed]
        unasked = [group for group in unasked if group]
        if opened + len(unasked) >= needed and unasked:
            return UnaskedError(unasked, needed=needed - opened)
        said = [self.answers.get(item) for group in closed for item in group]
        refusals = list(
            dict.fromkeys(item for item in said if isinstance(item, Refusal) and item.message)
        )
        if not refusals:
            message = _explain(groups, opened=opened, needed=needed)
            return DecryptionError(f"{message}{told(self.skipped)}")
        shares = _shares(opened=opened, needed=needed)
        message = (
            "; ".join(item.message for item in refusals[:_SHOWN]) + shares + told(self.skipped)
        )
        passing = any(item.passing for item in refusals)
        return UnreachableError(message) if passing else DecryptionError(message)

    def _may_ask(self, recipient: Recipient) -> bool:
        asked = recipient in self.answers
        short = len(recipient.encrypted) <= MAX_ENCRYPTED
        return recipient.kind in self.services and short and not asked

    def _open(self, group: Sequence[Recipient], until: float) -> bytes | None:
        # 1. The keys that are here.
        for kind in KEYS:
            for recipient in group:
                if recipient.kind != kind.name or len(recipient.encrypted) > MAX_ENCRYPTED:
                    continue
                for opener in self.openers.get(kind.name, ()):
                    if time.thread_time() > until:
                        raise DecryptionError(
                            "to try all keys of the Secret on all recipients of the document takes"
                            " too long: remove keys that the document does not need"
                        )
                    if (key := opener.open(recipient.encrypted)) is not None:
                        return key
        # 2. What the engine and services opened because these did not suffice.
        said = (self.answers.get(recipient) for recipient in group)
        return next((key for key in said if isinstance(key, bytes)), None)


_OURS: Final = frozenset(kind.name for kind in KEYS)
_SHOWN: Final = 5
_SECONDS: Final = 2.0
"""CPU time for one document; a key and a recipient take a tenth of a millisecond."""


def _explain(groups: Iterable[Sequence[Recipient]], *, opened: int, needed: int) -> str:
    """Return for whom the data key is encrypted, for messages; recipients are public."""
    recipients = [recipient for group in groups for recipient in group]
    ours = [item for item in recipients if item.kind in _OURS]
    services = [item for item in recipients if item.kind not in _OURS]
    shares = _shares(opened=opened, needed=needed)
    if services and not ours:
        names = ", ".join(item.shown for item in services[:_SHOWN])
        return (
            f"the data key is encrypted for {names}, which is not available; "
            f"add an age or OpenPGP recipient{shares}"
        )
    names = ", ".join(f"{TITLES[item.kind]} {item.name}" for item in ours[:_SHOWN])
    return f"no key opens the data key, which is encrypted for {names or 'nobody'}{shares}"


def _shares(*, opened: int, needed: int) -> str:
    return f" ({opened} of {needed} key groups opened)" if needed > 1 else ""
