"""SOPS documents inside Kubernetes objects, after the build.

A Secret may have whole documents as values, base64-encoded byte for byte (secretGenerator makes
them). These are decrypted here, and their MAC is verified. An object that is itself a SOPS document
cannot be decrypted: the build has lost the order that the MAC covers. It must be decrypted as a
file before the build.
"""

import base64
import binascii
from collections.abc import Iterator, Mapping
from typing import Any, Final

from toolkit import objects
from toolkit.decrypt import sops
from toolkit.decrypt.cipher import MARKER
from toolkit.decrypt.errors import DecryptionError
from toolkit.decrypt.sops import DataKeys
from toolkit.objects import Json

OPT_OUT: Final = "kustomize.toolkit.fluxcd.io/decrypt"
"""Annotation; ``disabled`` leaves the object's ciphertext alone."""

MAX_NESTING: Final = 3
"""Maximal nesting of decrypted documents; deeper ones stay encrypted."""


def decrypt_object(obj: Json, keys: DataKeys) -> Json:
    """Return ``obj`` with the SOPS documents among a Secret's values decrypted.

    The argument is not changed, and is itself returned where there is nothing to decrypt.

    Raises:
        DecryptionError: a document cannot be decrypted; names the key; the caller names the object.
    """
    if obj.get("kind") != "Secret" or opted_out(obj):
        return obj
    opened = {name: _open(name, raw, keys) for name, raw in documents(obj)}
    if not opened:
        return obj
    data = {**(obj.get("data") or {})}
    strings = {**(obj.get("stringData") or {})}
    for name, plain in opened.items():
        strings.pop(name, None)
        data[name] = base64.b64encode(plain).decode()
    result = {**obj, "data": data}
    if "stringData" in obj:
        result["stringData"] = strings
    return result


def find_ciphertext(obj: Json) -> str | None:
    """Return where ``obj`` holds SOPS ciphertext, for a message; ``None`` if nowhere.

    Looks for the metadata block, for encrypted values, and for whole documents in a Secret.
    """
    if opted_out(obj):
        return None
    if isinstance(block := obj.get("sops"), Mapping) and "mac" in block:
        return "sops"
    for path, text in _strings(obj):
        if text.startswith(MARKER):
            return path
    return next((f"data.{name}" for name, _ in ciphertexts(obj)), None)


def documents(obj: Json) -> Iterator[tuple[str, bytes]]:
    """Yield the Secret's values that are SOPS documents; ``stringData`` comes last and wins."""
    return ((name, raw) for name, raw in _values(obj) if sops.is_encrypted(raw))


def ciphertexts(obj: Json) -> Iterator[tuple[str, bytes]]:
    """Yield the Secret's values that are SOPS documents, or single values as SOPS encrypts them."""
    for name, raw in _values(obj) if obj.get("kind") == "Secret" else ():
        if raw.startswith(MARKER.encode()) or sops.is_encrypted(raw):
            yield name, raw


def opted_out(obj: Json) -> bool:
    """Tell whether the object asks to be left as it is."""
    state = objects.dig(obj, "metadata", "annotations", OPT_OUT, default="")
    return str(state).lower() == "disabled"


def _open(name: str, raw: bytes, keys: DataKeys) -> bytes:
    try:
        for _ in range(MAX_NESTING):
            if (form := sops.detect(raw)) is None:
                break
            raw = sops.decrypt(raw, form, keys, output=sops.format_of(name))
    except DecryptionError as exc:
        # Keep the type: a temporary error stays temporary.
        raise type(exc)(f"the value of '{name}': {exc}") from exc
    return raw


def _values(obj: Json) -> Iterator[tuple[str, bytes]]:
    for name, value in _entries(obj, "data"):
        try:
            # kustomize breaks long values into lines
            yield name, base64.b64decode("".join(value.split()), validate=True)
        except (binascii.Error, AttributeError, ValueError):
            continue  # The API server refuses it with a better message.
    for name, value in _entries(obj, "stringData"):
        if isinstance(value, str):
            yield name, value.encode("utf-8", "replace")


def _entries(obj: Json, part: str) -> Iterator[tuple[str, Any]]:
    """Yield the entries of a mapping; the API server refuses anything else."""
    values = obj.get(part)
    yield from values.items() if isinstance(values, Mapping) else ()


def _strings(obj: Json) -> Iterator[tuple[str, str]]:
    """Yield path and text of every string, without recursion: objects may be deep."""
    stack: list[tuple[str, Any]] = [("", obj)]
    while stack:
        path, value = stack.pop()
        if isinstance(value, str):
            yield path, value
        elif isinstance(value, Mapping):
            stack.extend((f"{path}.{key}".lstrip("."), child) for key, child in value.items())
        elif isinstance(value, list):
            stack.extend((f"{path}[{index}]", child) for index, child in enumerate(value))
