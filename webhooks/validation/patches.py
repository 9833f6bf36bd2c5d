"""Rules for patches, images and other kustomize changes, of a build or a rendered chart.

Changes that kustomize would refuse in every build are refused here. Only small texts are parsed as
YAML. Messages contain nothing of them, because a patch may contain secrets.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Final, Protocol, TypeVar

from yaml.events import DocumentStartEvent, MappingStartEvent, SequenceStartEvent

from crds.kustomize import Kustomization
from crds.kustomize_parts import Image, Json6902Patch, Patch, Selector
from toolkit import regexp, untrusted
from toolkit.apply import selector
from toolkit.remote.oci import oci
from webhooks.validation import patterns
from webhooks.validation.remembered import remembered
from webhooks.validation.rule import Fault, Rule, read, when

T = TypeVar("T")

_MOST: Final = 128 << 10
"""Characters of all patches together that are parsed."""
_BOUNDS: Final = untrusted.Bounds(size=4 * _MOST, depth=100, nodes=_MOST)
_MOST_TARGETS: Final = 200


class _Changes(Protocol):
    @property
    def patches(self) -> Sequence[Patch]: ...
    @property
    def patches_strategic_merge(self) -> Sequence[object]: ...
    @property
    def patches_json6902(self) -> Sequence[Json6902Patch]: ...
    @property
    def images(self) -> Sequence[Image]: ...


Placed = Callable[[T], Iterator[tuple[str, _Changes]]]
"""Yields all changes of an object, each with its path."""


def _patches(found: Iterator[tuple[str, _Changes]]) -> Iterator[Fault]:
    left = _MOST
    for field, patch in (
        (f"{place}.patches[{number}].patch", patch)
        for place, changes in found
        for number, patch in enumerate(changes.patches)
    ):
        left -= len(patch.patch)
        if left < 0:
            return
        problem, operations = parsed(patch.patch)
        if problem:
            yield Fault(field, problem)
        elif operations:
            why = "a list of operations does not say which objects it is for"
            yield from when(patch.target in {None, Selector()}, field, why)


@remembered(answers=256)
def parsed(text: str) -> tuple[str, bool]:
    """Return the fault of a patch, and whether it is a list of operations."""
    roots = []
    try:
        begins = False
        for event in untrusted.events(text.encode(errors="replace"), _BOUNDS, aliases=True):
            if begins:
                roots.append(type(event))
            begins = isinstance(event, DocumentStartEvent)
    except untrusted.ExceededError:
        return "", False  # A worker that builds it may take the time.
    except untrusted.UntrustedError as exc:
        return str(exc), False
    if not roots:
        return "it is empty", False
    if any(root not in {MappingStartEvent, SequenceStartEvent} for root in roots):
        return "it is neither an object nor a list of operations", False
    return "", SequenceStartEvent in roots


def _targets(found: Iterator[tuple[str, _Changes]]) -> Iterator[tuple[str, Selector | None]]:
    for place, changes in found:
        for field, targets in (
            ("patches", [patch.target for patch in changes.patches]),
            ("patchesJson6902", [patch.target for patch in changes.patches_json6902]),
        ):
            for number, target in enumerate(targets[:_MOST_TARGETS]):
                yield f"{place}.{field}[{number}].target", target


def _selectors(found: Iterator[tuple[str, _Changes]]) -> Iterator[Fault]:
    size = 0
    for field, target in islice(_targets(found), 2 * _MOST_TARGETS):
        if target is None:
            continue
        for name in ("group", "version", "kind", "namespace", "name"):
            text = getattr(target, name)
            if text and (why := patterns.problem(f"^(?:{text})$")):
                yield Fault(f"{field}.{name}", why, text)
            elif text:
                size += regexp.size(f"^(?:{text})$")
        if size > regexp.MOST_INSTRUCTIONS:
            yield Fault(field, patterns.TOO_LARGE)
            return
        yield from read(f"{field}.labelSelector", target.label_selector, _select)
        yield from read(f"{field}.annotationSelector", target.annotation_selector, _select)


def _select(labels: str) -> None:
    selector.Selector(label_selector=labels).check()


def _empty(found: Iterator[tuple[str, _Changes]]) -> Iterator[Fault]:
    for place, changes in found:
        for number, patch in enumerate(changes.patches_json6902):
            field = f"{place}.patchesJson6902[{number}].target"
            yield from when(patch.target == Selector(), field, "it is empty")


def _components(obj: Kustomization) -> Iterator[Fault]:
    for number, path in enumerate(obj.spec.components):
        remote = path.startswith(("/", "git@")) or "://" in path
        field = f"spec.components[{number}]"
        yield from when(remote, field, "it is not a relative path within the source", path)


def _images(found: Iterator[tuple[str, _Changes]]) -> Iterator[Fault]:
    for field, image in (
        (f"{place}.images[{number}]", image)
        for place, changes in found
        for number, image in enumerate(changes.images)
    ):
        yield from when(not image.name, f"{field}.name", "it is empty, so nothing is replaced")
        for name, text, valid in (
            ("newTag", image.new_tag, oci.is_tag),
            ("digest", image.digest, oci.is_digest),
        ):
            # ${…} is substituted after the build
            wrong = text and "$" not in text and not valid(text)
            yield from when(wrong, f"{field}.{name}", "no registry can have it", text)
        both = image.new_tag and image.digest
        yield from when(both, f"{field}.newTag", "it has no effect beside digest", image.new_tag)


def _deprecated(found: Iterator[tuple[str, _Changes]]) -> Iterator[Fault]:
    for place, changes in found:
        merged = changes.patches_strategic_merge
        yield from when(merged, f"{place}.patchesStrategicMerge", "it is deprecated")
        given = changes.patches_json6902
        yield from when(given, f"{place}.patchesJson6902", "it is deprecated")


COMPONENTS: Final[Rule[Kustomization]] = Rule(
    name="component-path",
    fields=("spec.components[]",),
    demands="it is a directory of the source",
    remedy="write it relative to spec.path",
    find=_components,
)


def rules(path: str, placed: Placed[T]) -> tuple[Rule[T], ...]:
    """Return the rules for a kind with changes at ``path``."""
    return (
        Rule(
            name="patch-text",
            fields=(f"{path}.patches[].patch", f"{path}.patches[].target"),
            demands="it is an object in YAML, or a list of operations with a target",
            remedy="write YAML or JSON; operations need a target",
            find=lambda obj: _patches(placed(obj)),
        ),
        Rule(
            name="patch-target",
            fields=(f"{path}.patches[].target", f"{path}.patchesJson6902[].target"),
            demands="its names are regular expressions (RE2), its selectors label selectors",
            remedy="write a name, a pattern such as web-.*, or a selector such as app=web,tier!=db",
            find=lambda obj: _selectors(placed(obj)),
        ),
        Rule(
            name="patch-target-empty",
            fields=(f"{path}.patchesJson6902[].target",),
            demands="it selects something",
            remedy="set kind and name",
            find=lambda obj: _empty(placed(obj)),
        ),
        Rule(
            name="image-name",
            fields=(
                *(f"{path}.images[].name", f"{path}.images[].newTag"),
                f"{path}.images[].digest",
            ),
            demands="it is what a registry can have",
            remedy="a tag has at most 128 letters, digits, '.', '_', '-'; a digest is sha256:<hex>",
            find=lambda obj: _images(placed(obj)),
            refuses=False,
        ),
        Rule(
            name="deprecated-patches",
            fields=(f"{path}.patchesStrategicMerge", f"{path}.patchesJson6902"),
            demands="it is not deprecated",
            remedy=f"use {path}.patches",
            find=lambda obj: _deprecated(placed(obj)),
            refuses=False,
        ),
    )
