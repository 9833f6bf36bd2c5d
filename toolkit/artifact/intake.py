"""Receive an uploaded body: write it to a file, hash it, and enforce size and speed.

Headers are only used to refuse an upload early.
"""

import asyncio
import base64
import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

import aiohttp

from toolkit.artifact.archive import Packed
from toolkit.artifact.digest import ALGORITHMS
from toolkit.errors import PenstockError


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """The minimal speed of a sender: a grace time, plus the time for its bytes at the rate."""

    grace_seconds: float = 30.0
    bytes_per_second: int = 64 << 10


class TooLargeError(PenstockError):
    """The body is longer than allowed."""


class TooSlowError(PenstockError):
    """The sender dawdles."""


class DigestMismatchError(PenstockError):
    """The digest of the body differs from the header, or the header is invalid."""


async def receive(
    content: aiohttp.StreamReader, into: Path, *, limit: int, claims: "Claims", pace: Pace
) -> Packed:
    """Write the body to the new file ``into``; return its digest and size.

    Raises:
        TooLargeError: the body is longer than ``limit`` bytes.
        TooSlowError: the sender is slower than ``pace``.
        DigestMismatchError: the digest is not the claimed one.
        OSError: the disk failed or is full, or the connection broke.
    """
    hashes = {name: hashlib.new(name) for name in {"sha256", *claims.digests}}
    size, pending = 0, bytearray()
    started = asyncio.get_running_loop().time()
    with await asyncio.to_thread(into.open, "xb") as file:

        def keep(block: bytes) -> None:
            for hasher in hashes.values():
                hasher.update(block)
            file.write(block)

        while chunk := await _next(content, started, size, pace):
            size += len(chunk)
            if size > limit:
                raise too_large(limit)
            pending += chunk
            if len(pending) >= _CHUNK:
                await asyncio.to_thread(keep, bytes(pending))
                pending.clear()
        await asyncio.to_thread(_finish, keep, bytes(pending), file)
    for name, wanted in claims.digests.items():
        if hashes[name].hexdigest() != wanted:
            raise DigestMismatchError(
                f"the body has digest {name}:{hashes[name].hexdigest()} instead of {name}:{wanted}"
            )
    return Packed(digest=f"sha256:{hashes['sha256'].hexdigest()}", size=size)


@dataclass(frozen=True, slots=True)
class Claims:
    """The claims of a sender about its body: hex digests by algorithm."""

    digests: Mapping[str, str]

    @classmethod
    def of(cls, headers: Mapping[str, str]) -> "Claims":
        """Read ``X-Artifact-Digest: sha256:<hex>`` and ``Digest: sha-256=<base64>`` (RFC 3230).

        Raises:
            DigestMismatchError: one is malformed.
        """
        digests = {}
        if own := headers.get("X-Artifact-Digest", ""):
            name, _, value = own.partition(":")
            if name not in ALGORITHMS or not _is_hex(value, name):
                raise DigestMismatchError("X-Artifact-Digest is not of the form 'sha256:<hex>'")
            digests[name] = value
        for instance in headers.get("Digest", "").split(","):
            label, _, encoded = instance.strip().partition("=")
            # RFC 3230 allows a server to ignore algorithms.
            if name := _RFC3230.get(label.lower(), ""):
                value = _from_base64(encoded)
                if not _is_hex(value, name) or digests.setdefault(name, value) != value:
                    raise DigestMismatchError(f"Digest is not of the form '{label}=<base64>'")
        return cls(digests)


def too_large(limit: int) -> TooLargeError:
    """Return the error that names the limit."""
    return TooLargeError(f"the artifact is larger than {limit >> 20} MiB")


_CHUNK: Final = 1 << 20
_RFC3230: Final[Mapping[str, str]] = {"sha-256": "sha256", "sha-512": "sha512"}


async def _next(content: aiohttp.StreamReader, started: float, size: int, pace: Pace) -> bytes:
    """Return the next bytes, or nothing at the end."""
    deadline = started + pace.grace_seconds + size / pace.bytes_per_second
    try:
        async with asyncio.timeout_at(deadline):
            return await content.readany()
    except TimeoutError:
        raise TooSlowError(
            f"after {size} bytes the upload became too slow; send at least "
            f"{pace.bytes_per_second >> 10} KiB a second"
        ) from None


def _finish(keep: Callable[[bytes], None], rest: bytes, file: IO[bytes]) -> None:
    keep(rest)
    file.flush()


def _is_hex(value: str, algorithm: str) -> bool:
    length = hashlib.new(algorithm).digest_size * 2
    return re.fullmatch(r"[0-9a-f]*", value) is not None and len(value) == length


def _from_base64(encoded: str) -> str:
    try:
        return base64.b64decode(encoded, validate=True).hex()
    except ValueError:
        return ""
