"""The sources of an object: references, nearest first. Pure.

The source of an ImagePolicy is an ImageRepository. That of a HelmRelease with ``spec.chart`` is the
HelmChart that its controller creates, and a HelmChart has a source of its own.
"""

from collections.abc import Iterator
from typing import Any, Final

from cli import status
from crds import HELM_CHART, HELM_RELEASE, IMAGE_POLICY, IMAGE_REPOSITORY
from crds.helm import chart_name
from crds.kind import Kind
from toolkit.objects import Json, ObjectKey, dig, key_of

_DERIVED: Final = frozenset({HELM_CHART.kind})
"""Sources that are made from others in turn."""


def references(obj: Json) -> tuple[tuple[str, ObjectKey], ...]:
    """Return kind and key of the sources of an object."""
    own = key_of(obj)
    if obj.get("kind") == HELM_RELEASE.kind:
        found = _chart(obj)
    elif obj.get("kind") == IMAGE_POLICY.kind:
        named = dig(obj, "spec", "imageRepositoryRef", default={})
        found = iter(({"kind": IMAGE_REPOSITORY.kind, **named},))
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


def made_from_others(kind: Kind[Any]) -> bool:
    """Tell whether objects of a kind have sources."""
    return kind is not IMAGE_REPOSITORY and (not status.is_source(kind) or derived(kind.kind))


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
            "name": chart_name(
                namespace=own.namespace,
                name=own.name,
                told=dig(obj, "status", "helmChart", default=""),
            ),
        }
