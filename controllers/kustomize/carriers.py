"""Which encrypted files of a build may stay encrypted until admission.

Before the build, a file that is one encrypted Secret is replaced by its carrier, so that kustomize
can change its name, namespace and labels. Other encrypted files stay unchanged. If such a file
becomes a whole value of a Secret (``secretGenerator``), it is decrypted at admission too. After the
build, the objects are checked. Ciphertext in any other place, or a patch of the data in a carrier,
requires the plaintext. Then the build is repeated with decrypted files, as if there were no
webhook.

Pure functions over bytes and objects.
"""

import base64
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from toolkit import untrusted
from toolkit.decrypt import envelope, objects
from toolkit.decrypt.errors import DecryptionError
from toolkit.objects import Json, dig

_SUBSTITUTE: str = "kustomize.toolkit.fluxcd.io/substitute"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sorted:
    """The result of a build with encrypted files.

    ``objects`` have the mark for decryption at admission if they need it. ``left`` are the paths of
    the files that must be decrypted before the build.
    """

    objects: tuple[Json, ...]
    left: frozenset[str]


def carry(files: Mapping[str, bytes], *, substitutes: bool) -> dict[str, bytes]:
    """Return carriers, by path, for those files that can have one; they replace the files.

    ``substitutes`` tells that variables are substituted after the build. A file with variables in
    ``stringData`` then gets no carrier, because substitution needs the plaintext.
    """
    found = {}
    for path, raw in files.items():
        try:
            made = envelope.make(raw)
        except DecryptionError:
            continue
        if not (substitutes and _has_variables(raw, made)):
            found[path] = json.dumps(made).encode()
    return found


def sort(
    built: Iterable[Json], raw: Mapping[str, bytes], carried: Mapping[str, bytes]
) -> Sorted | None:
    """Check where the encrypted files are in the built objects.

    ``raw`` are the encrypted files without a carrier, by path. None means that all files must be
    decrypted before the build.
    """
    documents = {base64.b64encode(raw_of(file)).decode() for file in carried.values()}
    values: set[bytes] = set()
    marked: list[Json] = []
    for obj in built:
        if obj.get("kind") == "Secret" and envelope.opted_in(obj):
            if not _untouched(obj, documents):
                return None
        elif obj.get("kind") == "Secret" and not objects.opted_out(obj):
            found = {content for _, content in objects.documents(obj)}
            values |= found
            if found:
                marked.append(envelope.mark(obj))
                continue
        marked.append(obj)
    left = frozenset(path for path, content in raw.items() if content not in values)
    if not left and any(not opted(obj) and objects.find_ciphertext(obj) for obj in marked):
        return None
    return Sorted(objects=tuple(marked), left=left)


def opted(obj: Json) -> bool:
    """Tell whether the object is a Secret that is decrypted at admission."""
    return obj.get("kind") == "Secret" and envelope.opted_in(obj) and envelope.carries(obj)


def raw_of(carrier: bytes) -> bytes:
    """Return the document in a carrier that ``carry`` made."""
    return base64.b64decode(
        untrusted.load_json(carrier, dict[str, Any], size=len(carrier))["data"][envelope.CARRIER]
    )


def _untouched(secret: Json, documents: set[str]) -> bool:
    """Tell whether a carrier holds one of the documents, and no patch has added other data."""
    data = secret.get("data") or {}
    if set(data) != {envelope.CARRIER} or secret.get("stringData"):
        return False
    # kustomize breaks long values into lines.
    return "".join(str(data[envelope.CARRIER]).split()) in documents


def _has_variables(raw: bytes, carrier: Json) -> bool:
    disabled = dig(carrier, "metadata", "annotations", _SUBSTITUTE, default="")
    return str(disabled).lower() != "disabled" and b"stringData" in raw
