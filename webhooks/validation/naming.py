"""Names that objects, namespaces and labels can have (``k8s.io/apimachinery`` validation)."""

import re
from collections.abc import Iterator, Mapping
from typing import Final, Protocol

from toolkit import dnsnames
from webhooks.validation.rule import Fault, Rule, WithSpec

_QUALIFIED: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")


def object_name(text: str) -> str:
    """Return why a text is no valid object name (RFC 1123 subdomain); empty if it is."""
    if dnsnames.is_subdomain(text):
        return ""
    return "no object can have this name" if text else "the name is empty"


def namespace_name(text: str) -> str:
    """Return why a text is no valid namespace name (RFC 1123 label); empty if it is."""
    return "" if dnsnames.is_label(text) else "no namespace can have this name"


def label_key(text: str) -> str:
    """Return why a text is no valid key of a label or annotation; empty if it is."""
    prefix, slash, name = text.rpartition("/")
    valid = (not slash or not object_name(prefix)) and len(name) <= 63
    return (
        "" if valid and _QUALIFIED.fullmatch(name) else "it is not a key of a label or annotation"
    )


def label_value(text: str) -> str:
    """Return why a text is no valid label value; empty if it is."""
    fits = len(text) <= 63 and (not text or _QUALIFIED.fullmatch(text))
    return "" if fits else "it is not a value of a label"


def labels(field: str, given: Mapping[str, str]) -> Iterator[Fault]:
    """Yield what of these cannot be labels."""
    for key, value in given.items():
        if why := label_key(key):
            yield Fault(field, why, key)
        elif why := label_value(value):
            yield Fault(f"{field}[{key}]", why, value)


def annotations(field: str, given: Mapping[str, str]) -> Iterator[Fault]:
    """Yield what of these cannot be annotations."""
    for key in given:
        if why := label_key(key):
            yield Fault(field, why, key)


class _Common(Protocol):
    @property
    def labels(self) -> Mapping[str, str]: ...
    @property
    def annotations(self) -> Mapping[str, str]: ...


class _Labelling(Protocol):
    @property
    def common_metadata(self) -> _Common | None: ...


def _common(obj: WithSpec[_Labelling]) -> Iterator[Fault]:
    common = obj.spec.common_metadata
    if common:
        yield from labels("spec.commonMetadata.labels", common.labels)
        yield from annotations("spec.commonMetadata.annotations", common.annotations)


COMMON_METADATA: Final[Rule[WithSpec[_Labelling]]] = Rule(
    name="common-metadata",
    fields=("spec.commonMetadata.labels", "spec.commonMetadata.annotations"),
    demands="they are labels and annotations that objects can have",
    remedy="a key is [<domain>/]<name>, a label's value at most 63 letters, digits, '-_.'",
    find=_common,
)
