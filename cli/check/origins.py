"""The manifest in the repository of which a build has made an object.

kustomize writes the file of each object into an annotation if it is asked to. Objects of one kind
and name in several files, which overlays give different namespaces, can be told apart only so.
"""

import posixpath
from collections.abc import Iterable
from typing import Any, Final

from cli.check.subjects import Place, Subject
from toolkit.chart import document
from toolkit.objects import Json, gvk_of, key_of

_OPTION: Final = "originAnnotations"
_ANNOTATION: Final = "config.kubernetes.io/origin"


class Origins:
    """Finds manifests by file, kind and name."""

    def __init__(self, written: Iterable[Subject]) -> None:
        self._by_file: dict[str, list[Subject]] = {}
        self._by_name: dict[tuple[str, str, str], list[Subject]] = {}
        for each in written:
            self._by_file.setdefault(each.place.file, []).append(each)
            self._by_name.setdefault(_named(each.obj), []).append(each)

    def place(self, obj: Json, path: str) -> Place:
        """Return where an object of the build of ``path`` is written; empty if nowhere."""
        file = _file(obj, path)
        found = self._by_file.get(file, []) if file else self._by_name.get(_named(obj), [])
        candidates = [each for each in found if gvk_of(each.obj).group_kind == _named(obj)[:2]]
        if not candidates:
            return Place()
        return min(candidates, key=lambda each: _distance(each, obj, path)).place


def asked(plan: Json) -> Json:
    """Return the transformations of a build that also tells the origin of each object."""
    metadata = plan.get("buildMetadata") or []
    return {**plan, "buildMetadata": sorted({*metadata, _OPTION})}


def without(obj: Json, plan: Json) -> Json:
    """Return an object of that build as a build with ``plan`` alone would have it."""
    annotations = obj["metadata"].get("annotations") or {}
    if _ANNOTATION not in annotations or _OPTION in (plan.get("buildMetadata") or ()):
        return obj
    kept = {key: value for key, value in annotations.items() if key != _ANNOTATION}
    metadata = {key: value for key, value in obj["metadata"].items() if key != "annotations"}
    return {**obj, "metadata": metadata | ({"annotations": kept} if kept else {})}


def _file(obj: Json, path: str) -> str:
    """Return the file, relative to the repository; empty if the build does not tell."""
    text = (obj["metadata"].get("annotations") or {}).get(_ANNOTATION, "")
    try:
        origin: Any = document.load(text.encode())
    except document.DocumentError:
        return ""
    named = origin.get("path") if isinstance(origin, dict) else None
    return posixpath.normpath(posixpath.join("/", path, str(named))).lstrip("/") if named else ""


def _distance(written: Subject, obj: Json, path: str) -> tuple[bool, ...]:
    """Order candidates: of the same name, in the same namespace, then below the path."""
    name, built = key_of(written.obj), key_of(obj)
    below = not path or written.place.file.startswith(f"{path}/")
    # A build may add a prefix and a suffix.
    return name.name != built.name, name.name not in built.name, name != built, not below


def _named(obj: Json) -> tuple[str, str, str]:
    return (*gvk_of(obj).group_kind, key_of(obj).name)
