"""What is checked of an ArtifactGenerator, and of an ExternalArtifact, which names its maker."""

from collections.abc import Iterator
from typing import Final

from crds import ARTIFACT_GENERATOR, EXTERNAL_ARTIFACT
from crds.extensions import ArtifactGenerator
from crds.source_external import ExternalArtifact
from toolkit.artifact.composition import validation
from webhooks.validation import naming
from webhooks.validation.rule import Checks, Fault, Named, Rule


def _problems(obj: ArtifactGenerator) -> Iterator[Fault]:
    for problem in validation.problems(obj.spec):
        yield Fault(problem.field, problem.why, problem.value)


RULES: Final[tuple[Rule[ArtifactGenerator], ...]] = (
    Rule(
        name="artifact-composition",
        fields=("spec.sources[]", "spec.pathPattern", "spec.artifacts[]"),
        demands="aliases and names occur once and are defined, globs and paths can be read",
        remedy="see docs/artifact-generators.md",
        find=_problems,
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
