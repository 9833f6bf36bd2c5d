"""``known_hosts``: which keys a host may show (sshd(8), SSH_KNOWN_HOSTS FILE FORMAT).

Hosts are looked up by name, as ``ssh`` does: first with the port, then without it where no line
names the port. What is revoked for one of a host's names or for its address is revoked for all of
them: a line that trusts the key with the port does not outweigh one that revokes it without.

A line that cannot be used is skipped and reported. One that revokes a key and cannot be read fails
the file, because to skip it would trust the key.
"""

import base64
import hmac
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from toolkit.remote.ssh import publickeys
from toolkit.remote.ssh.publickeys import PublicKey

NAME: Final = "known_hosts"

_MAX_SKIPPED: Final = 3
_HASHED: Final = "|"
_HASH_PARTS: Final = 4
_HMAC_SHA1: Final = "1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """The keys of a host: its own, those that certify it, and those that are refused."""

    keys: tuple[PublicKey, ...]
    authorities: tuple[PublicKey, ...]
    revoked: tuple[PublicKey, ...]


class _Use(Enum):
    KEY = ""
    AUTHORITY = publickeys.AUTHORITY
    REVOKED = publickeys.REVOKED


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry:
    use: _Use
    hosts: str
    key: PublicKey

    def names(self, host: str) -> bool:
        if self.hosts.startswith(_HASHED):
            salt, digest = _hash(self.hosts)
            return hmac.compare_digest(hmac.digest(salt, host.encode(), "sha1"), digest)
        return publickeys.in_list(host, self.hosts.lower())


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownHosts:
    """The lines that can be used; ``skipped`` names the others, each with its reason."""

    entries: tuple[_Entry, ...]
    skipped: tuple[str, ...]

    def match(self, host: str, address: str, port: int | None) -> Known:
        """Return the keys of a host; ``port`` is ``None`` for 22."""
        host = host.lower()
        plain = [name for name in (host, address) if name]
        exact = [f"[{name}]:{port}" for name in plain] if port else []
        found = list(self._named(exact[0] if exact else host))
        if exact and all(entry.use is _Use.REVOKED for entry in found):
            found = list(self._named(host))
        revoked = {
            entry.key
            for name in (*plain, *exact)
            for entry in self._named(name)
            if entry.use is _Use.REVOKED
        }
        return Known(
            keys=tuple(entry.key for entry in found if entry.use is _Use.KEY),
            authorities=tuple(entry.key for entry in found if entry.use is _Use.AUTHORITY),
            revoked=tuple(revoked),
        )

    def _named(self, name: str) -> Iterator[_Entry]:
        return (entry for entry in self.entries if entry.names(name))


def read(content: bytes) -> KnownHosts:
    """Read a file.

    Raises:
        ValueError: no line of it can be used, a line that revokes a key cannot be read, or there
            are too many lines.

    """
    entries: list[_Entry] = []
    skipped: list[str] = []
    for number, text in _lines(content):
        try:
            entries.append(_entry(text))
        except ValueError as exc:
            problem = f"'{NAME}' line {number} {exc}"
            if text.lower().startswith(publickeys.REVOKED):
                raise ValueError(f"{problem}, and revokes a key") from exc
            skipped.append(problem)
    if all(entry.use is _Use.REVOKED for entry in entries):
        raise ValueError("; ".join([f"no line of '{NAME}' can be used", *skipped[:_MAX_SKIPPED]]))
    return KnownHosts(entries=tuple(entries), skipped=tuple(skipped))


def _lines(content: bytes) -> Sequence[tuple[int, str]]:
    try:
        return publickeys.lines(content)
    except ValueError as exc:
        raise ValueError(f"'{NAME}' {exc}") from exc


def _entry(text: str) -> _Entry:
    marked = text.startswith("@")
    line = publickeys.parse(text, before=2 if marked else 1)
    if len(line.before) != (2 if marked else 1):
        raise ValueError("names no host")
    *markers, hosts = line.before
    if hosts.startswith(_HASHED):
        _hash(hosts)
    return _Entry(use=_use(markers[0] if markers else ""), hosts=hosts, key=line.key)


def _use(marker: str) -> _Use:
    # OpenSSH accepts a marker in lower case only; here a revocation in capitals counts too.
    if marker.lower() == publickeys.REVOKED:
        return _Use.REVOKED
    if marker in ("", publickeys.AUTHORITY):
        return _Use(marker)
    raise ValueError("has an unknown marker")


def _hash(hosts: str) -> tuple[bytes, bytes]:
    parts = hosts.split(_HASHED)
    if len(parts) != _HASH_PARTS or parts[1] != _HMAC_SHA1:
        raise ValueError("has a host name that is hashed in an unknown way")
    try:
        salt, digest = (base64.b64decode(part, validate=True) for part in parts[2:])
    except ValueError as exc:
        raise ValueError("has a host name whose hash is damaged") from exc
    return salt, digest
