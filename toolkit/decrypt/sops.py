"""SOPS documents: decrypt a whole document, and verify its MAC over the leaves in file order.

The steps of ``open_document`` are numbered. The MAC covers the values and their order, but not the
keys, the structure or the metadata; each encrypted value is bound to its own key path. So some
changes cannot be detected, as in SOPS itself: a renamed key above an unencrypted value, an item
moved between two adjacent lists, text moved between two adjacent unencrypted values.

Functions block on cryptography for about a millisecond per document; call them in a thread if
documents are large. Nothing here reads keys except those of the given ring.
"""

import hashlib
import hmac
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import PurePosixPath
from typing import Final, Protocol

from toolkit.decrypt import metadata
from toolkit.decrypt.cipher import MARKER, Cipher, looks_encrypted
from toolkit.decrypt.errors import DecryptionError
from toolkit.decrypt.formats import envfile, inifile, jsonfile, yamlfile, yamltext
from toolkit.decrypt.keys import Recipient
from toolkit.decrypt.metadata import Layout, Metadata
from toolkit.decrypt.tree import Branch, Comment, Path, Scalar, Value, mac_bytes, mapped

MAX_SIZE: Final = 5 << 20
"""Bytes of one document."""


class Format(Enum):
    """The format of a document."""

    YAML = "yaml"
    JSON = "json"
    DOTENV = "dotenv"
    INI = "ini"
    BINARY = "binary"


class DataKeys(Protocol):
    """Opens data keys (``keyring.KeyRing``)."""

    def data_key(self, groups: Sequence[Sequence[Recipient]], threshold: int) -> bytes:
        """Return the data key of a document; raises ``DecryptionError``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """A decrypted document, its MAC verified, and the metadata that it came with.

    ``comment`` opens an encrypted comment below a path, and returns None if it is not of that path.
    """

    documents: list[Branch] = field(repr=False)
    metadata: Metadata
    comment: Callable[[str, Path], str | None] = field(repr=False)


def decrypt(data: bytes, form: Format, keys: DataKeys, *, output: Format | None = None) -> bytes:
    """Return the decrypted document without its metadata, in the format ``output`` or unchanged.

    If ``output`` is ``BINARY`` and the document does not wrap a binary file, it stays in its own
    format.

    Raises:
        DecryptionError: it is not a document of this format, there is no key for it, or it was
            changed.
    """
    opened = open_document(data, form, keys)
    plain = opened.documents
    written = form if output is Format.BINARY and not jsonfile.is_envelope(plain) else output
    if form is Format.YAML and (written or form) is form:
        kept = yamltext.rewrite(data, plain, opened.comment)
        if kept is not None:
            return kept
    return _FORMATS[written or form].dump(plain)


def open_document(data: bytes, form: Format, keys: DataKeys) -> Opened:
    """Return the decrypted document as a tree, without its metadata.

    Raises:
        DecryptionError: it is not a document of this format, there is no key for it, or it was
            changed.
    """
    # 1. Bound the cost of a hostile document before it is parsed.
    if len(data) > MAX_SIZE:
        raise DecryptionError(f"the document has more than {MAX_SIZE >> 20} MiB")

    # 2. Parse, and take the metadata out.
    documents = _FORMATS[form].load(data)
    block = metadata.extract(documents, _FORMATS[form].layout)

    # 3. Recover the data key. A wrong one is noticed at the first value, or at the MAC.
    walk = _Walk(Cipher(keys.data_key(block.groups, block.threshold)), block)

    # 4. Decrypt every leaf in place, hashing plaintexts in file order over all documents.
    plain = [walk.branch(document, ()) for document in documents]

    # 5. Compare with the MAC of the author, which is bound to the time of the last change.
    walk.require_mac()
    return Opened(documents=plain, metadata=block, comment=walk.comment)


def metadata_of(data: bytes, form: Format) -> Metadata:
    """Return the metadata of a document, of which nothing is verified.

    Raises:
        DecryptionError: no document of this format, or one without metadata.
    """
    if len(data) > MAX_SIZE:
        raise DecryptionError(f"the document has more than {MAX_SIZE >> 20} MiB")
    return metadata.extract(_FORMATS[form].load(data), _FORMATS[form].layout)


def is_encrypted(data: bytes) -> bool:
    """Tell whether ``data`` is a SOPS document of any format; a look, not a verification."""
    return detect(data) is not None


def detect(data: bytes) -> Format | None:
    """Return the format of a SOPS document by its metadata; binary ones look like JSON."""
    if MARKER.encode() not in data:
        return None
    return next(
        (form for form, marks in _MARKS.items() if all(mark.search(data) for mark in marks)), None
    )


def format_of(path: str) -> Format:
    """Return the format of a file of this name, as SOPS and Flux take it."""
    if path.endswith(_DOCKER_CONFIG):
        return Format.JSON
    return _SUFFIXES.get(PurePosixPath(path).suffix, Format.BINARY)


@dataclass(frozen=True, slots=True, kw_only=True)
class _FileFormat:
    load: Callable[[bytes], list[Branch]]
    dump: Callable[[list[Branch]], bytes]
    layout: Layout


_FORMATS: Final = {
    Format.YAML: _FileFormat(load=yamlfile.load, dump=yamlfile.dump, layout=Layout.NESTED),
    Format.JSON: _FileFormat(load=jsonfile.load, dump=jsonfile.dump, layout=Layout.NESTED),
    Format.DOTENV: _FileFormat(load=envfile.load, dump=envfile.dump, layout=Layout.PREFIX),
    Format.INI: _FileFormat(load=inifile.load, dump=inifile.dump, layout=Layout.SECTION),
    # A JSON envelope around the bytes of the file.
    Format.BINARY: _FileFormat(load=jsonfile.load, dump=jsonfile.dump_binary, layout=Layout.NESTED),
}
_DOCKER_CONFIG: Final = ".dockerconfigjson"
_SUFFIXES: Final = {
    ".yaml": Format.YAML,
    ".yml": Format.YAML,
    ".json": Format.JSON,
    ".env": Format.DOTENV,
    ".ini": Format.INI,
}
_MARKS: Final = {
    # Patterns that must all match. None of them reads a byte many times.
    Format.JSON: (
        re.compile(rb"\A\s*\{"),
        re.compile(rb'"mac"[ \t]*:[ \t]*"ENC\[AES256_GCM,'),
    ),
    Format.DOTENV: (re.compile(rb"^sops_mac=ENC\[AES256_GCM,", re.MULTILINE),),
    Format.INI: (
        re.compile(rb"^\[sops\]", re.MULTILINE),
        re.compile(rb"^mac[ \t]*=[ \t]*ENC\[AES256_GCM,", re.MULTILINE),
    ),
    Format.YAML: (
        re.compile(rb"^sops:", re.MULTILINE),
        re.compile(rb"^[ \t]+mac:[ \t]*['\"]?ENC\[AES256_GCM,", re.MULTILINE),
    ),
}

_MAC_ONLY_ENCRYPTED: Final = hashlib.sha256(b"sops").digest()
"""Start of a MAC over encrypted leaves only: the flag cannot be flipped unnoticed."""


class _Walk:
    """Decrypts the leaves in file order, and computes the MAC on the way."""

    def __init__(self, cipher: Cipher, block: Metadata) -> None:
        self._cipher = cipher
        self._block = block
        self._hash = hashlib.sha512(_MAC_ONLY_ENCRYPTED if block.mac_only_encrypted else b"")

    def branch(self, branch: Branch, path: tuple[str, ...]) -> Branch:
        items: list[tuple[str | Comment, Value]] = []
        for key, value in branch.items:
            if isinstance(key, Comment):
                items.append((self._comment(key, path), None))
            else:
                items.append((key, self._value(value, (*path, key))))
        return Branch(items)

    def comment(self, text: str, path: Path) -> str | None:
        """Return the text of an encrypted comment; None if it is not of this path."""
        try:
            return self._comment(Comment(text), path).text
        except DecryptionError:
            return None

    def require_mac(self) -> None:
        written = self._cipher.open(
            self._block.mac, bound_to=self._block.last_modified, place="the MAC"
        )
        computed = self._hash.hexdigest().upper()
        if not hmac.compare_digest(mac_bytes(written), computed.encode()):
            raise DecryptionError(
                "the MAC does not match: values were changed, added, removed or reordered"
            )

    def _value(self, value: Value, path: Path) -> Value:
        return mapped(value, path, branch=self.branch, leaf=self._leaf)

    def _leaf(self, value: Scalar, path: tuple[str, ...]) -> Scalar:
        encrypted = self._block.selector.encrypted(path)
        if encrypted is None:
            encrypted = isinstance(value, str) and looks_encrypted(value)
        plain = self._open(value, path) if encrypted else value
        if (encrypted or not self._block.mac_only_encrypted) and not isinstance(plain, Comment):
            self._hash.update(mac_bytes(plain))
        return plain

    def _open(self, value: Scalar, path: tuple[str, ...]) -> Scalar:
        if value == "":
            return ""  # SOPS leaves empty text as it is.
        place = f"the value at '{'.'.join(path)[:_SHOWN]}'"
        if not isinstance(value, str):
            raise DecryptionError(f"{place} is not encrypted")
        return self._cipher.open(value, bound_to=":".join(path) + ":", place=place)

    def _comment(self, comment: Comment, path: tuple[str, ...]) -> Comment:
        """Decrypt an encrypted comment; the MAC does not cover comments."""
        if not looks_encrypted(comment.text):
            return comment
        bound_to = ":".join(path) + ":"
        plain = self._cipher.open(comment.text, bound_to=bound_to, place="a comment")
        return Comment(str(getattr(plain, "text", plain)))


_SHOWN: Final = 200
