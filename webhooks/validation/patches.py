"""Patches, images and other changes that a Kustomization makes to its build.

What kustomize would refuse in every build is refused here. Texts are parsed as YAML only as far as
they are small; nothing of them is told, because a patch may hold what is secret.
"""

from collections.abc import Iterator
from typing import Final

from yaml.events import DocumentStartEvent, MappingStartEvent, SequenceStartEvent

from crds.kustomize import Kustomization
from crds.kustomize_parts import Selector
from toolkit import untrusted
from toolkit.apply import selector
from toolkit.remote.oci import oci
from webhooks.validation import patterns
from webhooks.validation.remembered import remembered
from webhooks.validation.rule import Fault, Rule, read, when

_MOST: Final = 128 << 10
"""Characters of all patches together that are parsed."""
_BOUNDS: Final = untrusted.Bounds(size=4 * _MOST, depth=100, nodes=_MOST)
_MOST_TARGETS: Final = 200


def _patches(obj: Kustomization) -> Iterator[Fault]:
    left = _MOST
    for number, patch in enumerate(obj.spec.patches):
        left -= len(patch.patch)
        if left < 0:
            return
        field = f"spec.patches[{number}].patch"
        problem, operations = parsed(patch.patch)
        if problem:
            yield Fault(field, problem)
        elif operations:
            why = "a list of operations does not say which objects it is for"
            yield from when(patch.target in {None, Selector()}, field, why)


@remembered(answers=256)
def parsed(text: str) -> tuple[str, bool]:
    """Return what is wrong with a patch, and whether it is a list of operations."""
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


def _targets(obj: Kustomization) -> Iterator[tuple[str, Selector | None]]:
    spec = obj.spec
    for field, targets in (
        ("patches", [patch.target for patch in spec.patches]),
        ("patchesJson6902", [patch.target for patch in spec.patches_json6902]),
    ):
        for number, target in enumerate(targets[:_MOST_TARGETS]):
            yield f"spec.{field}[{number}].target", target


def _selectors(obj: Kustomization) -> Iterator[Fault]:
    for field, target in _targets(obj):
        if target is None:
            continue
        for name in ("group", "version", "kind", "namespace", "name"):
            text = getattr(target, name)
            if text and (why := patterns.problem(f"^(?:{text})$")):
                yield Fault(f"{field}.{name}", why, text)
        yield from read(f"{field}.labelSelector", target.label_selector, _select)
        yield from read(f"{field}.annotationSelector", target.annotation_selector, _select)


def _select(labels: str) -> None:
    selector.Selector(label_selector=labels).check()


def _empty(obj: Kustomization) -> Iterator[Fault]:
    for number, patch in enumerate(obj.spec.patches_json6902):
        field = f"spec.patchesJson6902[{number}].target"
        yield from when(patch.target == Selector(), field, "it is empty")


def _components(obj: Kustomization) -> Iterator[Fault]:
    for number, path in enumerate(obj.spec.components):
        remote = path.startswith(("/", "git@")) or "://" in path
        field = f"spec.components[{number}]"
        yield from when(remote, field, "it is no relative path within the source", path)


def _images(obj: Kustomization) -> Iterator[Fault]:
    for number, image in enumerate(obj.spec.images):
        field = f"spec.images[{number}]"
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


RULES: Final[tuple[Rule[Kustomization], ...]] = (
    Rule(
        name="patch-text",
        fields=("spec.patches[].patch", "spec.patches[].target"),
        demands="it is an object in YAML, or a list of operations with a target",
        remedy="write YAML or JSON; operations need a target",
        find=_patches,
    ),
    Rule(
        name="patch-target",
        fields=("spec.patches[].target", "spec.patchesJson6902[].target"),
        demands="its names are regular expressions (RE2), its selectors label selectors",
        remedy="write a name, a pattern such as web-.*, or a selector such as app=web,tier!=db",
        find=_selectors,
    ),
    Rule(
        name="patch-target-empty",
        fields=("spec.patchesJson6902[].target",),
        demands="it selects something",
        remedy="set kind and name",
        find=_empty,
    ),
    Rule(
        name="component-path",
        fields=("spec.components[]",),
        demands="it is a directory of the source",
        remedy="write it relative to spec.path",
        find=_components,
    ),
    Rule(
        name="image-name",
        fields=("spec.images[].name", "spec.images[].newTag", "spec.images[].digest"),
        demands="it is what a registry can have",
        remedy="a tag has at most 128 letters, digits, '.', '_', '-'; a digest is sha256:<hex>",
        find=_images,
        refuses=False,
    ),
)
