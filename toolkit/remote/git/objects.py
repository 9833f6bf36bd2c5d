"""Commits and tags as bytes: their fields, and the bytes that signatures cover.

Signatures are extracted here, not by a parser of a library: the verified bytes must be exactly
those that Git signed (commit.c, ``parse_buffer_signed_by_header``; gpg-interface.c,
``parse_signed_buffer``).
"""

from dataclasses import dataclass
from typing import Final

from toolkit.remote.git.errors import GitError

_SIGNATURES: Final = (
    b"-----BEGIN PGP SIGNATURE-----",
    b"-----BEGIN PGP MESSAGE-----",
    b"-----BEGIN SSH SIGNATURE-----",
    b"-----BEGIN SIGNED MESSAGE-----",
)
_SHOWN: Final = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Signed:
    """An armoured signature and the bytes that it covers."""

    payload: bytes
    signature: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """The parts of a commit that are used here; ``signature`` is ``None`` if it has none."""

    tree: bytes
    subject: str
    author: str
    signature: Signed | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tag:
    """An annotated tag: the object it names, which may be a tag again, and its own name."""

    target: bytes
    target_type: str
    name: str
    signature: Signed | None


def parse_commit(raw: bytes) -> Commit:
    """Take a commit apart.

    Raises:
        GitError: it has no tree.

    """
    headers, message = _headers(raw)
    if len(headers.get(b"tree", b"")) != 40:
        raise GitError("the server sent a commit that names no tree")
    return Commit(
        tree=headers[b"tree"],
        subject=_shown(message.lstrip(b"\n").partition(b"\n")[0]),
        author=_shown(headers.get(b"author", b"").partition(b">")[0] + b">"),
        signature=_commit_signature(raw),
    )


def parse_tag(raw: bytes) -> Tag:
    """Parse an annotated tag.

    Raises:
        GitError: the tag has no target.
    """
    headers, _ = _headers(raw)
    if len(headers.get(b"object", b"")) != 40 or b"tag" not in headers:
        raise GitError("the server sent a tag that names no object")
    return Tag(
        target=headers[b"object"],
        target_type=_shown(headers.get(b"type", b"")),
        name=_shown(headers[b"tag"]),
        signature=_tag_signature(raw),
    )


def _headers(raw: bytes) -> tuple[dict[bytes, bytes], bytes]:
    """Return the first value of each header, and the message."""
    head, _, message = raw.partition(b"\n\n")
    headers: dict[bytes, bytes] = {}
    for line in head.split(b"\n"):
        key, _, value = line.partition(b" ")
        headers.setdefault(key, value)
    return headers, message


def _commit_signature(raw: bytes) -> Signed | None:
    """Cut ``gpgsig`` and ``gpgsig-sha256`` out of the header, and keep what ``gpgsig`` held."""
    head, separator, message = raw.partition(b"\n\n")
    kept: list[bytes] = []
    signature: list[bytes] = []
    found = 0
    inside = b""
    for line in head.split(b"\n"):
        if not line.startswith(b" "):
            key, _, line_value = line.partition(b" ")
            inside = key if key in {b"gpgsig", b"gpgsig-sha256"} else b""
            found += key == b"gpgsig"
        else:
            line_value = line[1:]
        if inside == b"gpgsig":
            signature.append(line_value)
        elif not inside:
            kept.append(line)
    # Two signatures leave open which of them is meant: such a commit counts as unsigned.
    if found != 1:
        return None
    payload = b"\n".join(kept) + separator + message
    return Signed(payload=payload, signature=b"\n".join(signature) + b"\n")


def _tag_signature(raw: bytes) -> Signed | None:
    """Split off the signature, which is the end of a tag's message."""
    start = -1
    position = 0
    for line in raw.split(b"\n"):
        if line.startswith(_SIGNATURES):
            start = position  # The last one counts: an earlier one is text that was signed.
        position += len(line) + 1
    if start < 0:
        return None
    return Signed(payload=raw[:start], signature=raw[start:])


def _shown(text: bytes) -> str:
    return text[:_SHOWN].decode("utf-8", "replace").strip()
