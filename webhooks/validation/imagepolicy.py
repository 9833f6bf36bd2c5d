"""Rules for an ImagePolicy."""

from collections.abc import Iterator
from typing import Final

from crds import IMAGE_POLICY
from crds.image import ImagePolicy
from toolkit import regexp
from toolkit.policy import imagepolicies, tags
from toolkit.remote import semver
from webhooks.validation import patterns, schedule
from webhooks.validation.rule import Checks, Fault, Named, Rule, annotation, read, when

_ORDER: Final = ("semver", "alphabetical", "numerical")
_VERIFY: Final = annotation(imagepolicies.VERIFY)


def _choice(obj: ImagePolicy) -> Iterator[Fault]:
    none = not _given(obj)
    yield from when(none, "spec.policy", "it sets neither semver, alphabetical nor numerical")


def _given(obj: ImagePolicy) -> list[str]:
    return [name for name in _ORDER if getattr(obj.spec.policy, name) is not None]


def _overruled(obj: ImagePolicy) -> Iterator[Fault]:
    given = _given(obj)
    for name in given[1:]:
        yield Fault(f"spec.policy.{name}", f"it has no effect beside spec.policy.{given[0]}")


def _range(obj: ImagePolicy) -> Iterator[Fault]:
    if obj.spec.policy.semver is None:
        return
    field, text = "spec.policy.semver.range", obj.spec.policy.semver.range
    yield from when(not text, field, "it is empty")
    yield from read(field, text, semver.Range.parse)


def _pattern(obj: ImagePolicy) -> Iterator[Fault]:
    if obj.spec.filter_tags:
        yield from read("spec.filterTags.pattern", obj.spec.filter_tags.pattern, regexp.compiled)


def _extract(obj: ImagePolicy) -> Iterator[Fault]:
    given = obj.spec.filter_tags
    if given is None or not given.extract:
        return
    field = "spec.filterTags.extract"
    if not given.pattern:
        yield Fault(field, "it has no effect without spec.filterTags.pattern", given.extract)
        return
    try:
        missing = tags.missing_groups(given.pattern, given.extract)
    except ValueError:  # refused for it
        return
    for name in missing:
        yield Fault(field, f"the pattern has no group '{name}', so it stands for nothing")


def _demanded(obj: ImagePolicy) -> Iterator[Fault]:
    try:
        imagepolicies.named(obj.metadata.annotations)
    except ValueError as exc:
        yield Fault(_VERIFY, str(exc))


RULES: Final[tuple[Rule[ImagePolicy], ...]] = (
    Rule(
        name="image-policy-choice",
        fields=("spec.policy",),
        demands="it says how to choose",
        remedy="set one of semver, alphabetical and numerical",
        find=_choice,
    ),
    Rule(
        name="image-policy-unused",
        fields=("spec.policy.alphabetical", "spec.policy.numerical"),
        demands="no other field of spec.policy wins over it",
        remedy="remove all but one",
        find=_overruled,
        refuses=False,
    ),
    Rule(
        name="semver-range",
        fields=("spec.policy.semver.range",),
        demands="it is a range of versions",
        remedy="write it as '>=1.2.0 <2.0.0', '1.x' or '~1.4'",
        find=_range,
    ),
    Rule(
        name="tag-filter",
        fields=("spec.filterTags.pattern",),
        demands=patterns.DEMANDS,
        remedy=patterns.REMEDY,
        find=_pattern,
    ),
    Rule(
        name="tag-extract",
        fields=("spec.filterTags.extract",),
        demands="the groups that it names are in the pattern",
        remedy="write a group as (?P<ts>[0-9]+), and $ts for what it matched",
        find=_extract,
        refuses=False,
    ),
    Rule(
        name="verify-annotation",
        fields=(_VERIFY,),
        demands="it names ImageVerificationPolicies",
        remedy="write their names, separated by commas",
        find=_demanded,
    ),
    *schedule.rules("interval"),
)

CHECKS: Final = Checks(
    kind=IMAGE_POLICY,
    rules=RULES,
    names=(Named(path="spec.imageRepositoryRef", kind="ImageRepository"),),
    namespaces=("spec.imageRepositoryRef.namespace",),
)
