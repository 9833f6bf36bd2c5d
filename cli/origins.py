"""What an object is made from: references to its sources, nearest first. Pure.

A HelmRelease with ``spec.chart`` is made from the HelmChart that its controller creates, and a
HelmChart from a source of its own.
"""

from collections.abc import Iterator
from typing import Final

from crds import HELM_CHART, HELM_RELEASE
from toolkit.objects import Json, ObjectKey, dig, key_of

_DERIVED: Final = frozenset({HELM_CHART.kind})
"""Sources that are made from others in turn."""


def references(obj: Json) -> tuple[tuple[str, ObjectKey], ...]:
    """Return kind and place of what an object is made from."""
    own = key_of(obj)
    if obj.get("kind") == HELM_RELEASE.kind:
        found = _chart(obj)
    else:
        single = dig(obj, "spec", "sourceRef")
        found = iter((*((single,) if single else ()), *dig(obj, "spec", "sourceRefs", default=())))
    return tuple(
        (
            str(each.get("kind")),
            ObjectKey(str(each.get("namespace") or own.namespace), str(each.get("name"))),
        )
        for each in found
    )


def derived(kind: str) -> bool:
    """Tell whether a source of this kind is made from another one."""
    return kind in _DERIVED


def _chart(obj: Json) -> Iterator[Json]:
    if reference := dig(obj, "spec", "chartRef"):
        yield reference
    if template := dig(obj, "spec", "chart", "spec"):
        own = key_of(obj)
        yield {
            "kind": HELM_CHART.kind,
            "namespace": dig(template, "sourceRef", "namespace"),
            "name": f"{own.namespace}-{own.name}",
        }
