"""The ``sops`` block: recipients of the data key, rules for encrypted leaves, and the MAC.

Nothing in the block is authenticated but the MAC itself and ``lastmodified``: anyone who can write
the file can change recipients, selectors and flags. The walk over the leaves must be safe for any
content of the block (``sops.Metadata``, ``stores.ExtractMetadata``).
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from toolkit.decrypt import scalars
from toolkit.decrypt.errors import DecryptionError
from toolkit.decrypt.keys import Recipient
from toolkit.decrypt.tree import Branch, Comment, Timestamp, Value, require_branch

KEY: Final = "sops"


class Layout(Enum):
    """The form in which a format stores the block."""

    NESTED = "nested"
    """A mapping below the key ``sops`` (YAML, JSON, binary)."""
    SECTION = "section"
    """The same, its values flattened, newlines written as ``\\n`` (INI)."""
    PREFIX = "prefix"
    """Flattened, each key with the prefix ``sops_`` (dotenv)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Metadata:
    """One block."""

    mac: str
    last_modified: str
    """RFC 3339 in whole seconds, as Go prints it: the MAC is bound to it."""
    groups: tuple[tuple[Recipient, ...], ...]
    threshold: int
    mac_only_encrypted: bool
    selector: "Selector"


@dataclass(frozen=True, slots=True, kw_only=True)
class Selector:
    """Which leaves the document's author meant to encrypt."""

    encrypted_suffix: str = ""
    unencrypted_suffix: str = ""
    by_appearance: bool = False

    def encrypted(self, path: Sequence[str]) -> bool | None:
        """Say whether the leaf at ``path`` is encrypted; ``None``: see whether it looks so.

        Suffixes are applied. For regular expressions over keys and comments a leaf is taken as
        encrypted if it is written like one: they would be an attacker's program for our regex
        engine, and as the block is not authenticated they protect nothing that the MAC does not.
        """
        if self.by_appearance:
            return None
        if self.encrypted_suffix:
            return any(key.endswith(self.encrypted_suffix) for key in path)
        return not any(key.endswith(self.unencrypted_suffix) for key in path)


def extract(documents: list[Branch], layout: Layout) -> Metadata:
    """Remove the block from ``documents`` and return it.

    Every document of a YAML stream has a copy; the first one counts.

    Raises:
        DecryptionError: there is no block, or it is incomplete.
    """
    blocks = [_remove(document, layout) for document in documents]
    if not blocks or not blocks[0].items:
        raise DecryptionError("there is no sops metadata in the document")
    block = blocks[0] if layout is Layout.NESTED else _unflatten(blocks[0])
    return _metadata(_plain(block))


_SUFFIX_RULES: Final = ("encrypted_suffix", "unencrypted_suffix")
_REGEX_RULES: Final = (
    "encrypted_regex",
    "unencrypted_regex",
    "encrypted_comment_regex",
    "unencrypted_comment_regex",
)
_NAMES: Final[Mapping[str, tuple[str, ...]]] = {
    # List of the block, and the fields that name one of its entries.
    "kms": ("arn",),
    "gcp_kms": ("resource_id",),
    "hckms": ("key_id",),
    "azure_kv": ("vault_url", "name"),
    "hc_vault": ("vault_address", "engine_path", "key_name"),
    "pgp": ("fp",),
    "age": ("recipient",),
}
_MORE: Final[Mapping[str, tuple[str, ...]]] = {
    # Further fields for a key service. A profile (aws_profile) exists only on the author's machine.
    "kms": ("role",),
    "azure_kv": ("version",),
}
_MAX_FIELD: Final = 2048
_MAX_CONTEXT: Final = 64
_TRUE: Final = ("1", "t", "T", "true", "TRUE", "True")


def _metadata(block: Mapping[str, Any]) -> Metadata:
    rules = [name for name in (*_SUFFIX_RULES, *_REGEX_RULES) if block.get(name)]
    if len(rules) > 1:
        raise DecryptionError(f"the sops metadata has more than one of {', '.join(rules)}")
    groups = [_group(block)]
    if not groups[0]:
        groups = [_group(item) for item in _mappings(block.get("key_groups"))]
    if not any(groups):
        raise DecryptionError("the sops metadata lists no recipients")
    return Metadata(
        mac=_text(block.get("mac")),
        last_modified=_last_modified(block.get("lastmodified")),
        groups=tuple(groups),
        threshold=_count(block.get("shamir_threshold")),
        mac_only_encrypted=_text(block.get("mac_only_encrypted")) in _TRUE,
        selector=_selector(block, rules),
    )


def _selector(block: Mapping[str, Any], rules: Sequence[str]) -> Selector:
    match rules:
        case ["encrypted_suffix"]:
            return Selector(encrypted_suffix=_text(block["encrypted_suffix"]))
        case ["unencrypted_suffix"]:
            return Selector(unencrypted_suffix=_text(block["unencrypted_suffix"]))
        case []:
            return Selector(unencrypted_suffix="_unencrypted")
        case _:
            return Selector(by_appearance=True)


def _group(block: Mapping[str, Any]) -> tuple[Recipient, ...]:
    return tuple(
        Recipient(
            kind=kind,
            name="/".join(_text(item.get(field))[:200] for field in fields),
            encrypted=_text(item.get("enc")),
            fields=tuple(
                (field, text)
                for field in (*fields, *_MORE.get(kind, ()))
                if (text := _text(item.get(field))[:_MAX_FIELD])
            ),
            context=_context(item.get("context")) if kind == "kms" else (),
        )
        for kind, fields in _NAMES.items()
        for item in _mappings(block.get(kind))
    )


def _context(value: Any) -> tuple[tuple[str, str], ...]:
    """Return an encryption context, sorted, because its order has no meaning."""
    items = sorted(value.items()) if isinstance(value, Mapping) else []
    if len(items) > _MAX_CONTEXT or not all(isinstance(text, str) for _, text in items):
        raise DecryptionError("an encryption context in the sops metadata is malformed")
    return tuple((key, text[:_MAX_FIELD]) for key, text in items)


def _mappings(value: Any) -> list[Mapping[str, Any]]:
    items = value if isinstance(value, list) else []
    if not all(isinstance(item, Mapping) for item in items):
        raise DecryptionError("a list of recipients in the sops metadata is malformed")
    return items


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, str | int | float) else ""


def _count(value: Any) -> int:
    text = _text(value) or "0"
    if not (text.isascii() and text.isdigit() and len(text) < 4):
        raise DecryptionError("the shamir threshold in the sops metadata is not a small number")
    return int(text)


_SECONDS = re.compile(r"\.\d+")


def _last_modified(value: Any) -> str:
    moment = scalars.timestamp(value) if isinstance(value, str) else value
    if not isinstance(moment, Timestamp):
        raise DecryptionError("the sops metadata has no lastmodified time")
    return _SECONDS.sub("", moment.text)


def _remove(document: Branch, layout: Layout) -> Branch:
    if layout is Layout.PREFIX:
        prefix = f"{KEY}_"
        taken = [
            (key.removeprefix(prefix), value)
            for key, value in document.entries()
            if key.startswith(prefix)
        ]
        document.items = [item for item in document.items if not _starts_with(item[0], prefix)]
        return Branch([*taken])
    block = document.get(KEY)
    document.items = [item for item in document.items if item[0] != KEY]
    if block is None:
        return Branch([])
    block = require_branch(block, "the sops metadata")
    if layout is Layout.SECTION:
        return Branch([(key, _unescape(value)) for key, value in block.items])
    return block


def _starts_with(key: str | Comment, prefix: str) -> bool:
    return isinstance(key, str) and key.startswith(prefix)


def _unescape(value: Value) -> Value:
    return value.replace("\\n", "\n") if isinstance(value, str) else value


_STEP = re.compile(r"__(map|list)_")
_STEPS: Final = 8
"""Deepest nesting in a block is key_groups, number, list, number, field."""


def _unflatten(block: Branch) -> Branch:
    """Rebuild ``age__list_0__map_enc`` and its like (``stores/flatten.go``)."""
    root: dict[str, Any] = {}
    for key, value in block.entries():
        node = root
        *steps, last = _STEP.split(key, maxsplit=_STEPS)[::2]
        for step in steps:
            node = node.setdefault(step, {})
            if not isinstance(node, dict):
                raise DecryptionError("the flattened sops metadata contradicts itself")
        if last in node:
            raise DecryptionError("the flattened sops metadata has a key twice")
        node[last] = value
    return Branch([(key, _listed(value)) for key, value in root.items()])


def _listed(node: Any) -> Value:
    """Turn mappings whose keys are 0, 1, 2… into lists."""
    if not isinstance(node, dict):
        return node  # type: ignore[no-any-return]  # a leaf, as the file format gave it
    if set(node) == {str(index) for index in range(len(node))}:
        return [_listed(node[str(index)]) for index in range(len(node))]
    return Branch([(key, _listed(value)) for key, value in node.items()])


def _plain(value: Value) -> Any:
    if isinstance(value, Branch):
        return {key: _plain(child) for key, child in value.entries()}
    return [_plain(item) for item in value] if isinstance(value, list) else value
