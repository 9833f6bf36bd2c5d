"""The signer for ``push`` by its flags: none, a key, or an identity at Sigstore."""

import asyncio
import os
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Final

import click

from cli import errors
from cli.artifacts import keyless, signing
from cli.artifacts.keyless import Identity, Instance
from cli.artifacts.pushing import Sign

PASSWORD: Final = "COSIGN_PASSWORD"  # noqa: S105  # the variable's name


@dataclass(frozen=True, slots=True, kw_only=True)
class Signing:
    """The flags; ``token`` may be the name of a file with the token."""

    sign: bool
    key: Path | None
    token: str = field(repr=False)
    fulcio: str
    rekor: str
    rekor_version: int
    timestamps: str
    trusted_root: Path | None


def signer(said: Signing, *, seconds: float) -> Sign | None:
    """Return the function that signs a digest; None without flags for it.

    Raises:
        UsageError: the flags contradict each other, or the key cannot be read.
    """
    private = any((said.fulcio, said.rekor, said.timestamps, said.trusted_root))
    if said.key and private:
        raise errors.UsageError("--key signs without Sigstore: leave its URLs and its root out")
    if not said.sign and not said.key:
        if private:
            raise errors.UsageError("the flags of a private Sigstore need --sign")
        return None
    if said.key:
        key = signing.read_key(said.key, _password)

        async def with_key(digest: str) -> bytes:
            return signing.with_key(key, digest)

        return with_key
    identity = Identity(token=_token(said.token))
    instance = Instance(
        fulcio=said.fulcio,
        rekor=said.rekor,
        rekor_version=said.rekor_version,
        timestamps=said.timestamps,
        trusted_root=said.trusted_root,
    )

    async def with_identity(digest: str) -> bytes:
        return await asyncio.to_thread(
            _within, seconds, lambda: keyless.sign(digest, identity, instance)
        )

    return with_identity


def _token(text: str) -> str:
    """Return the token, also out of a file, as CI systems leave one."""
    if "." in text and text.count(".") == _DOTS and not text.startswith((".", "/")):
        return text
    if not text:
        return ""
    try:
        return Path(text).read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as exc:
        raise errors.UsageError(
            "--identity-token is neither a token nor a file that holds one"
        ) from exc


_DOTS: Final = 2
"""In a signed token (RFC 7515, compact form)."""


def _password() -> str:
    if PASSWORD in os.environ:
        return os.environ[PASSWORD]
    if not sys.stdin.isatty():
        raise errors.UsageError(f"--key: the key is encrypted: set {PASSWORD} to its password")
    return str(click.prompt("Password of the key", hide_input=True, err=True))


def _within(seconds: float, work: Callable[[], bytes]) -> bytes:
    """Run work without a deadline in a thread that does not keep the process alive."""
    done: SimpleQueue[tuple[bytes, Exception | None]] = SimpleQueue()

    def run() -> None:
        try:
            done.put((work(), None))
        except Exception as exc:  # noqa: BLE001  # raised again, where it is waited for
            done.put((b"", exc))

    threading.Thread(target=run, daemon=True).start()
    try:
        bundle, error = done.get(timeout=seconds)
    except Empty as exc:
        raise errors.DeadlineError(f"Sigstore has not signed within {seconds:g}s") from exc
    if error is not None:
        raise error
    return bundle
