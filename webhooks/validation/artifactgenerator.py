"""Rules for an ArtifactGenerator, and for an ExternalArtifact, which names its generator."""

from collections.abc import Iterator
from typing import Final

from crds import ARTIFACT_GENERATOR, EXTERNAL_ARTIFACT
from crds.extensions import ArtifactGenerator
from crds.source_external import ExternalArtifact
from toolkit.artifact.composition import validation
from toolkit.artifact.composition.globs import PatternError
from toolkit.artifact.composition.pathpattern import PathPattern
from webhooks.validation import naming
from webhooks.validation.rule import Checks, Fault, Named, Rule, when


def _problems(obj: ArtifactGenerator) -> Iterator[Fault]:
    for problem in validation.problems(obj.spec):
        yield Fault(problem.field, problem.why, problem.value)


def _idle(obj: ArtifactGenerator) -> Iterator[Fault]:
    text = obj.spec.path_pattern
    if not text:
        return
    try:
        why = PathPattern.parse(text).idle
    except PatternError:  # refused for it
        return
    yield from when(why, "spec.pathPattern", why, text)


RULES: Final[tuple[Rule[ArtifactGenerator], ...]] = (
    Rule(
        name="artifact-composition",
        fields=("spec.sources[]", "spec.pathPattern", "spec.artifacts[]"),
        demands="aliases and names occur once and are defined, globs and paths can be read",
        remedy="see docs/artifact-generators.md",
        find=_problems,
    ),
    Rule(
        name="path-pattern-idle",
        fields=("spec.pathPattern",),
        demands="directories can match it",
        remedy="write a name, `*` or `{capture}` for each directory",
        find=_idle,
        refuses=False,
    ),
    naming.COMMON_METADATA,
)

CHECKS: Final = Checks(
    kind=ARTIFACT_GENERATOR,
    rules=RULES,
    names=(Named(path="spec.sources[]"),),
    namespaces=("spec.sources[].namespace",),
)
EXTERNAL: Final[Checks[ExternalArtifact]] = Checks(
    kind=EXTERNAL_ARTIFACT,
    rules=(),
    names=(Named(path="spec.sourceRef"),),
    namespaces=("spec.sourceRef.namespace",),
)
