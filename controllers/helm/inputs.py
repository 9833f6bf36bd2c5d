"""The values of a release: the objects in ``valuesFrom``, and their versions.

The fingerprint of a reconciliation contains the resourceVersion of each object read here. So a
reconciliation can find that nothing changed without composing the values. A HelmRelease without
``valuesFrom`` costs no request.
"""

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from msgspec import UNSET

from crds.helm import HelmRelease
from toolkit.chart import document
from toolkit.errors import TransientError
from toolkit.kube.errors import NotFoundError
from toolkit.kube.secrets import CONFIG_MAP, SECRET, Secrets
from toolkit.objects import ObjectRef
from toolkit.release import digest, values
from toolkit.release.values import ValuesError

_MISSING = "missing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """The content of the objects in ``valuesFrom``, and their versions.

    The key of ``fetched`` is kind and name of an object; the value is None if it does not exist.
    """

    fetched: Mapping[tuple[str, str], Mapping[str, bytes] | None] = field(repr=False)
    versions: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Values:
    """The composed values of a release, and their digest.

    ``secrets`` are texts that no message may show. ``missing`` has a message for each optional
    reference that was not found.
    """

    values: Mapping[str, Any] = field(repr=False)
    digest: str
    secrets: tuple[str, ...] = field(repr=False, default=())
    missing: tuple[str, ...] = ()


def references(obj: HelmRelease) -> Iterator[ObjectRef]:
    """Yield the ConfigMaps and Secrets that the spec names; their changes are watched."""
    namespace = obj.metadata.namespace
    for each in obj.spec.values_from:
        gvk = SECRET if each.kind == "Secret" else CONFIG_MAP
        yield ObjectRef(gvk, namespace, each.name)
    if obj.spec.decryption and obj.spec.decryption.secret_ref:
        yield ObjectRef(SECRET, namespace, obj.spec.decryption.secret_ref.name)
    if obj.spec.kube_config and obj.spec.kube_config.secret_ref:
        yield ObjectRef(SECRET, namespace, obj.spec.kube_config.secret_ref.name)


async def gather(obj: HelmRelease, secrets: Secrets) -> Inputs:
    """Read the objects in ``valuesFrom``, each of them once.

    Number and size are bounded, so that one HelmRelease cannot use up the memory of the process.

    Raises:
        ValuesError: ``valuesFrom`` has too many entries, or their documents are too large.
        TransientError: an object cannot be read. A missing object is not an error here.
    """
    values.require_few(obj.spec.values_from)
    fetched: dict[tuple[str, str], Mapping[str, bytes] | None] = {}
    versions: list[str] = []
    uses = Counter((each.kind, each.name, each.values_key) for each in obj.spec.values_from)
    left = values.MOST_READ
    for kind, name in {(each.kind, each.name): None for each in obj.spec.values_from}:
        gvk = SECRET if kind == "Secret" else CONFIG_MAP
        try:
            data = await secrets.data(
                gvk, obj.metadata.namespace, name, reason=ValuesError.default_reason
            )
        except TransientError as error:
            if not isinstance(error.__cause__, NotFoundError):
                raise
            fetched[kind, name] = None
            versions.append(f"{kind}/{name}@{_MISSING}")
        else:
            named = {key: text for key, text in data.values.items() if uses[kind, name, key]}
            left -= sum(len(text) * uses[kind, name, key] for key, text in named.items())
            if left < 0:
                raise ValuesError(
                    f"the documents of spec.valuesFrom have more than {values.MOST_READ} bytes"
                    " together: refer to each document once, and move files in them to separate"
                    " ConfigMaps"
                )
            fetched[kind, name] = named
            versions.append(data.version)
    return Inputs(fetched=fetched, versions=tuple(versions))


async def compose(obj: HelmRelease, inputs: Inputs) -> Values:
    """Return the values of the release.

    Raises:
        ValuesError: a required reference is missing, or a document or path is invalid.
    """
    # A document may have a mebibyte, and parsing it in Python would block the event loop.
    return await asyncio.to_thread(_composed, obj, inputs)


def _composed(obj: HelmRelease, inputs: Inputs) -> Values:
    inline = None if obj.spec.values is UNSET else obj.spec.values
    composed = values.compose(
        obj.spec.values_from,
        inline,
        inputs.fetched,
        document.load_mapping,
        namespace=obj.metadata.namespace,
    )
    return Values(
        values=composed.values,
        digest=digest.of_values(composed.values),
        secrets=_hidden(inputs),
        missing=composed.missing,
    )


def _hidden(inputs: Inputs) -> tuple[str, ...]:
    """Return the texts to mask: each document of a Secret, and each scalar in it."""
    found: set[str] = set()
    for (kind, _), data in inputs.fetched.items():
        for content in (data or {}).values() if kind == "Secret" else ():
            text = content.decode(errors="replace")
            found.add(text.strip())
            found.update(_leaves(content))
    return tuple(sorted(found - {""}))


def _leaves(content: bytes) -> Iterator[str]:
    try:
        pending: list[Any] = [document.load(content)]
    except document.DocumentError:
        return
    while pending:
        value = pending.pop()
        if isinstance(value, dict):
            pending += value.values()
        elif isinstance(value, list):
            pending += value
        elif isinstance(value, str):
            yield value
        elif isinstance(value, int | float) and not isinstance(value, bool):
            yield str(value)
