"""Encrypted Secrets in requests to the API server: the carrier, and its decryption.

The API server drops the ``sops`` block and refuses ciphertext that is not base64. So an encrypted
manifest is sent as a whole: a *carrier* is a Secret with plain metadata, the label ``LABEL``, and
the manifest, byte for byte, under the data key ``CARRIER``. At admission its data are replaced by
exactly the decrypted data of the manifest. A Secret with the label may instead have SOPS documents
as values, as secretGenerator makes them; these are decrypted in place.

Pure functions over JSON. The caller decides which keys are used, and who may use them. The output
depends only on the input, so that applying a carrier again changes nothing. Messages name fields,
never values.
"""

import base64
import binascii
import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from toolkit.decrypt import objects, sops
from toolkit.decrypt.cipher import MARKER
from toolkit.decrypt.errors import DecryptionError
from toolkit.decrypt.formats import jsonfile, yamlfile
from toolkit.decrypt.metadata import KEY, Metadata
from toolkit.decrypt.sops import DataKeys, Format
from toolkit.decrypt.tree import Branch, Scalar, Timestamp, Value, bytes_of
from toolkit.objects import Json, dig

GROUP: Final = "sops.penstock.dev"

LABEL: Final = f"{GROUP}/decrypt"
"""Label that opts a Secret in; its value is ``ENABLED``."""
ENABLED: Final = "true"

CARRIER: Final = "penstock.sops.yaml"
"""Data key that holds the encrypted manifest."""

KEYS_LABEL: Final = f"{GROUP}/keys"
"""Label of Secrets that hold keys for their namespace; its value is ``ENABLED``."""

KEYS_FROM: Final = f"{GROUP}/keys-from"
"""Annotation that names the one Secret with the keys, in the same namespace."""

DOCUMENT: Final = f"{GROUP}/document"
"""Annotation, set at admission: digest of the encrypted document."""

RECIPIENTS: Final = f"{GROUP}/recipients"
"""Annotation, set at admission: the recipients, as ``kind:name``, comma-separated."""

WEBHOOK: Final = "decryption.admission.penstock.dev"
"""Name of the mutating webhook that opens carriers, where there is one."""

MAX_DOCUMENT: Final = 2 << 20
"""Bytes of ciphertext in one Secret. A Secret of 1 MiB, base64 within base64, needs 1.8 MiB."""


class NoCarrierError(DecryptionError):
    """The file cannot be decrypted at admission, but perhaps before the build."""


class UnboundError(DecryptionError):
    """A document was not made for the Secret that it is meant to fill."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """The decrypted content of a Secret: base64 by data key, and annotations that describe it."""

    data: Mapping[str, str] = field(repr=False)
    annotations: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sealed:
    """The facts about an encrypted Secret that need no keys.

    ``names`` are the data keys of encrypted values. ``annotations`` are those that the Secret will
    have after decryption.
    """

    names: frozenset[str]
    annotations: Mapping[str, str]


def opted_in(secret: Json | None) -> bool:
    """Tell whether the Secret asks to be decrypted at admission."""
    return bool(dig(secret or {}, "metadata", "labels", LABEL) == ENABLED)


def carries(secret: Json) -> bool:
    """Tell whether the Secret holds a document; a look, not a verification."""
    data = secret.get("data")
    carrier = isinstance(data, Mapping) and CARRIER in data
    return carrier or any(True for _ in objects.documents(secret))


def make(document: bytes) -> Json:
    """Return the carrier of an encrypted Secret manifest, YAML or JSON.

    Raises:
        NoCarrierError: no single Secret with plain metadata, or too large.
        DecryptionError: the file cannot be read.
    """
    if len(document) > MAX_DOCUMENT:
        raise NoCarrierError(f"the document has more than {MAX_DOCUMENT >> 20} MiB")
    manifest = _only_secret(_load(document))
    unknown = [key for key, _ in manifest.entries() if key not in _FIELDS]
    plain = {key: _plain(value) for key, value in manifest.entries() if key in _KEPT}
    metadata = plain.get("metadata")
    if unknown or not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str):
        raise NoCarrierError("it is not a Secret manifest with a name and only the usual fields")
    if any(MARKER in text for text in _texts(plain)):
        raise NoCarrierError("not only its data are encrypted")
    encoded = base64.b64encode(document).decode()
    return mark({**plain, "data": {CARRIER: encoded}})


def mark(secret: Json) -> Json:
    """Return the Secret with the label that opts it in.

    Raises:
        NoCarrierError: its labels are not a mapping.
    """
    metadata = secret.get("metadata") or {}
    labels = metadata.get("labels") or {}
    if not isinstance(labels, dict):
        raise NoCarrierError("its labels are not a mapping")
    return {**secret, "metadata": {**metadata, "labels": {**labels, LABEL: ENABLED}}}


def open_carrier(secret: Json, keys: DataKeys, *, bound: bool) -> Opened:
    """Return the decrypted data of the manifest in a carrier; the rest of it is ignored.

    With ``bound``, the manifest must name the Secret that carries it, and its MAC must cover the
    name.

    Raises:
        UnboundError: it is the manifest of another Secret.
        DecryptionError: it is not the manifest of a Secret, there is no key for it, or it was
            changed.
    """
    # 1. Take the document byte for byte; the MAC covers the order of its values.
    document = _decoded(CARRIER, secret["data"][CARRIER])
    if len(document) > MAX_DOCUMENT:
        raise DecryptionError(f"data.{CARRIER} has more than {MAX_DOCUMENT >> 20} MiB")
    form = _form(document)

    # 2. Decrypt; the MAC is verified.
    opened = sops.open_document(document, form, keys)
    manifest = _only_secret(opened.documents)

    # 3. Require that it was made for exactly this Secret. The author of the file chooses which
    # values the MAC covers, so one that covers less than all of them proves nothing.
    if bound:
        if opened.metadata.mac_only_encrypted:
            raise UnboundError("mac_only_encrypted leaves the document's name unauthenticated")
        _require_name(manifest, secret)

    # 4. The data, and documents among them.
    data = dict(_data(manifest))
    whole = objects.decrypt_object({"apiVersion": "v1", "kind": "Secret", "data": data}, keys)
    notes = _annotations([(document, opened.metadata)])
    return Opened(data=whole["data"], annotations=notes)


def open_values(secret: Json, keys: DataKeys) -> Opened:
    """Return the data, with every value that is a SOPS document decrypted.

    Such documents name no Secret, so they are not bound to this one.

    Raises:
        DecryptionError: there is no key for a document, or it was changed.
    """
    found = list(objects.documents(secret))
    if sum(len(raw) for _, raw in found) > MAX_DOCUMENT:
        raise DecryptionError(f"the documents have more than {MAX_DOCUMENT >> 20} MiB")
    described = [(raw, _metadata(name, raw)) for name, raw in found]
    data = objects.decrypt_object(secret, keys)["data"]
    return Opened(data=data, annotations=_annotations(described))


def sealed(secret: Json) -> Sealed:
    """Return the facts about a Secret with documents that need no keys.

    Raises:
        DecryptionError: a document is invalid.
    """
    data = secret.get("data") or {}
    if CARRIER not in data:
        found = dict(objects.documents(secret))
        described = [(raw, _metadata(name, raw)) for name, raw in found.items()]
        return Sealed(names=frozenset(found), annotations=_annotations(described))
    document = _decoded(CARRIER, data[CARRIER])
    manifest = _only_secret(_load(document))
    names = {name for part in ("data", "stringData") for name, _ in _entries(manifest, part)}
    notes = _annotations([(document, _metadata(CARRIER, document))])
    return Sealed(names=frozenset(names), annotations=notes)


def filled(secret: Json, opened: Opened) -> Json:
    """Return the Secret as it is stored."""
    metadata = secret["metadata"]
    notes = {**(metadata.get("annotations") or {}), **opened.annotations}
    return {
        **secret,
        "metadata": {**metadata, "annotations": notes},
        "data": dict(opened.data),
    }


def stray(secret: Json, old: Json | None = None) -> str | None:
    """Return a data key whose value is ciphertext that will not be decrypted, or None.

    Values that ``old`` has too are ignored, so that existing objects can be labelled and deleted.
    """
    if objects.opted_out(secret):
        return None
    before = (old or {}).get("data") or {}
    data = secret.get("data") or {}
    fresh = {name: value for name, value in data.items() if before.get(name) != value}
    if opted_in(secret) and CARRIER in fresh:
        return CARRIER
    return next((name for name, _ in objects.ciphertexts({**secret, "data": fresh})), None)


def recipients(secret: Json) -> tuple[str, ...]:
    """Return the recipients of the stored Secret, as ``kind:name``."""
    text = dig(secret, "metadata", "annotations", RECIPIENTS, default="")
    return tuple(part for part in str(text).split(",") if part)


def same_recipient(recipient: str, wanted: str) -> bool:
    """Tell whether ``kind:name`` of the annotation is the recipient ``name`` or ``kind:name``."""
    name = _UNFIT.sub("_", wanted.strip())
    return name in (recipient, recipient.partition(":")[2])


def _annotations(documents: list[tuple[bytes, Metadata]]) -> dict[str, str]:
    """Return the annotations for the decrypted documents; they are not secret and deterministic."""
    digest = hashlib.sha256()
    names: set[str] = set()
    for document, metadata in documents:
        digest.update(hashlib.sha256(document).digest())
        names.update(
            f"{item.kind}:{_UNFIT.sub('_', item.name)}"
            for group in metadata.groups
            for item in group
        )
    return {DOCUMENT: f"sha256:{digest.hexdigest()}", RECIPIENTS: ",".join(sorted(names))}


_KEPT: Final = ("apiVersion", "kind", "metadata", "type", "immutable")
_FIELDS: Final = frozenset((*_KEPT, "data", "stringData", KEY))
_UNFIT: Final = re.compile(r"[^!-~]|,")


def _form(document: bytes) -> Format:
    form = sops.detect(document)
    if form not in (Format.YAML, Format.JSON):
        raise DecryptionError(f"data.{CARRIER} is not a SOPS document in YAML or JSON")
    return form


def _load(document: bytes) -> list[Branch]:
    form = sops.detect(document)
    if form is Format.YAML:
        return yamlfile.load(document)
    if form is Format.JSON:
        return jsonfile.load(document)
    raise NoCarrierError("it is not a SOPS document in YAML or JSON")


def _only_secret(documents: list[Branch]) -> Branch:
    if len(documents) != 1:
        raise NoCarrierError("it holds several documents; put each Secret into a file of its own")
    (manifest,) = documents
    if (manifest.get("apiVersion"), manifest.get("kind")) != ("v1", "Secret"):
        raise NoCarrierError("it is not the manifest of a Secret")
    return manifest


def _require_name(manifest: Branch, secret: Json) -> None:
    metadata = manifest.get("metadata")
    found = metadata if isinstance(metadata, Branch) else Branch([])
    for name in ("namespace", "name"):
        wanted = dig(secret, "metadata", name, default="")
        if not wanted or found.get(name) != wanted:
            raise UnboundError(
                f"metadata.{name} of the encrypted manifest is not that of the Secret;"
                " encrypt a manifest that has it"
            )


def _data(manifest: Branch) -> Iterator[tuple[str, str]]:
    """Yield the entries of ``data`` and ``stringData``, as the API server would store them."""
    for name, text in _entries(manifest, "data"):
        yield name, base64.b64encode(_decoded(name, text)).decode()
    for name, text in _entries(manifest, "stringData"):
        yield name, base64.b64encode(bytes_of(text)).decode()


def _entries(manifest: Branch, part: str) -> Iterator[tuple[str, str]]:
    values = manifest.get(part)
    if values is None:
        return
    if not isinstance(values, Branch):
        raise DecryptionError(f"{part} of the document is not a mapping")
    for name, value in values.entries():
        if not isinstance(value, str | None):
            raise DecryptionError(f"{part}.{name} of the document is not text; quote it")
        yield name, value or ""


def _decoded(name: str, text: Any) -> bytes:
    if not isinstance(text, str):
        raise DecryptionError(f"data.{name} is not text")
    try:
        return base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError):
        raise DecryptionError(f"data.{name} is not base64") from None


def _metadata(name: str, raw: bytes) -> Metadata:
    form = sops.detect(raw)
    if form is None:
        raise DecryptionError(f"the value of '{name}' is not a SOPS document")
    return sops.metadata_of(raw, form)


def _plain(value: Value) -> Any:
    match value:
        case Branch():
            return {key: _plain(child) for key, child in value.entries()}
        case list():
            return [_plain(item) for item in value]
        case _:
            return _scalar(value)


def _scalar(value: Scalar) -> Any:
    if isinstance(value, Timestamp):
        raise NoCarrierError("its metadata have a date; quote it")
    return value


def _texts(value: Any) -> Iterator[str]:
    match value:
        case dict():
            for key, child in value.items():
                yield key
                yield from _texts(child)
        case list():
            for child in value:
                yield from _texts(child)
        case str():
            yield value
