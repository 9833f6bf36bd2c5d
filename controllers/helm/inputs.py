"""The values of a release: what ``valuesFrom`` names, and its versions.

Everything read here carries its resourceVersion into the fingerprint of the pass, so an interval
pass can tell without composing anything that nothing changed. A HelmRelease without ``valuesFrom``
costs no request.
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
    """The content of what ``valuesFrom`` names, and the versions of those objects."""

    fetched: Mapping[tuple[str, str], Mapping[str, bytes] | None] = field(repr=False)
    versions: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Values:
    """What a release is made with; ``secrets`` are texts that no message may show."""

    values: Mapping[str, Any] = field(repr=False)
    digest: str
    secrets: tuple[str, ...] = field(repr=False, default=())
    missing: tuple[str, ...] = ()


def references(obj: HelmRelease) -> Iterator[ObjectRef]:
    """Yield every ConfigMap and Secret that the spec names, for watching."""
    namespace = obj.metadata.namespace
    for each in obj.spec.values_from:
        gvk = SECRET if each.kind == "Secret" else CONFIG_MAP
        yield ObjectRef(gvk, namespace, each.name)
    if obj.spec.decryption and obj.spec.decryption.secret_ref:
        yield ObjectRef(SECRET, namespace, obj.spec.decryption.secret_ref.name)
    if obj.spec.kube_config and obj.spec.kube_config.secret_ref:
        yield ObjectRef(SECRET, namespace, obj.spec.kube_config.secret_ref.name)


async def gather(obj: HelmRelease, secrets: Secrets) -> Inputs:
    """Read what ``valuesFrom`` names; each object once.

    What is read is bounded, so that no HelmRelease takes the memory of this process from others.

    Raises:
        ValuesError: there is more to read than is read for one release.
        TransientError: one cannot be read, for another reason than that it does not exist.
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
                    f"what spec.valuesFrom refers to has more than {values.MOST_READ} bytes:"
                    " refer to each document once, and move files that it holds into ConfigMaps"
                    " of their own"
                )
            fetched[kind, name] = named
            versions.append(data.version)
    return Inputs(fetched=fetched, versions=tuple(versions))


async def compose(obj: HelmRelease, inputs: Inputs) -> Values:
    """Return the values of the release.

    Raises:
        ValuesError: they cannot be composed.
    """
    # Documents may have a mebibyte each, and are read in Python.
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
    """Return the content of Secrets, whole and leaf by leaf."""
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
