"""Rules for a Kustomization; expressions, patches and images have separate modules."""

from collections.abc import Iterator
from typing import Final

from crds import KUSTOMIZATION
from crds import meta as fields
from crds.kustomize import Kustomization, KustomizationSpec
from crds.kustomize_parts import IgnoreRule
from toolkit.errors import PenstockError
from toolkit.policy import counts
from toolkit.render import substitute
from webhooks.validation import (
    circles,
    decrypting,
    dependencies,
    expressions,
    ignored,
    naming,
    patches,
    paths,
    schedule,
)
from webhooks.validation.rule import Checks, Fault, Named, Rule, few, when


def _path(obj: Kustomization) -> Iterator[Fault]:
    path = obj.spec.path
    above = paths.leads_out(path.lstrip("/"))
    yield from when(above, "spec.path", "it points above the root directory", path)


def _namespace(obj: Kustomization) -> Iterator[Fault]:
    text = obj.spec.target_namespace
    # ${…} is substituted after the build
    if text and "$" not in text and (why := naming.namespace_name(text)):
        yield Fault("spec.targetNamespace", why, text)


def _variables(obj: Kustomization) -> Iterator[Fault]:
    for name in obj.spec.post_build.substitute if obj.spec.post_build else ():
        try:
            substitute.require_name(name)
        except PenstockError:
            yield Fault("spec.postBuild.substitute", "no variable can have this name", name)


def _unused(obj: Kustomization) -> Iterator[Fault]:
    spec = obj.spec
    both = spec.wait and spec.health_checks
    yield from when(both, "spec.healthChecks", "it has no effect beside spec.wait")
    unasked = spec.health_check_exprs and not (spec.wait or spec.health_checks)
    why = "it has no effect without spec.wait or spec.healthChecks"
    yield from when(unasked, "spec.healthCheckExprs", why)


def _timeout(obj: Kustomization) -> Iterator[Fault]:
    text = obj.spec.timeout
    try:
        short = 0 < fields.parse_duration(text) < 30 if text else False
    except ValueError:
        return
    yield from when(short, "spec.timeout", "it counts as 30 s", text)


def _deletion(obj: Kustomization) -> Iterator[Fault]:
    spec = obj.spec
    deletes = spec.deletion_policy in {"Delete", "WaitForTermination"} and not spec.prune
    why = "objects that spec.prune=false keeps are deleted with this object"
    yield from when(deletes, "spec.deletionPolicy", why, spec.deletion_policy)


def _validation(obj: Kustomization) -> Iterator[Fault]:
    given = obj.spec.validation is not None
    yield from when(given, "spec.validation", "it is deprecated and has no effect")


def _substituted(obj: Kustomization) -> Iterator[Fault]:
    given = obj.spec.post_build.substitute_from if obj.spec.post_build else ()
    return few("spec.postBuild.substituteFrom", given, counts.SUBSTITUTIONS)


def _building(obj: Kustomization) -> Iterator[tuple[str, KustomizationSpec]]:
    yield "spec", obj.spec


def _ignoring(obj: Kustomization) -> list[IgnoreRule]:
    return obj.spec.ignore


RULES: Final[tuple[Rule[Kustomization], ...]] = (
    Rule(
        name="path-above-root",
        fields=("spec.path",),
        demands="it stays below the root of the build tree",
        remedy=paths.REMEDY,
        find=_path,
        refuses=False,
    ),
    Rule(
        name="target-namespace",
        fields=("spec.targetNamespace",),
        demands="it is a name that a namespace can have",
        remedy="write at most 63 lower case letters, digits and '-'",
        find=_namespace,
    ),
    *dependencies.rules(KUSTOMIZATION.kind),
    *expressions.RULES,
    *patches.rules("spec", _building),
    patches.COMPONENTS,
    Rule(
        name="variable-name",
        fields=("spec.postBuild.substitute",),
        demands="keys are names of variables",
        remedy="write letters, digits and '_', and begin with no digit",
        find=_variables,
    ),
    Rule(
        name="substitute-from-many",
        fields=("spec.postBuild.substituteFrom",),
        demands=f"it has at most {counts.SUBSTITUTIONS} entries",
        remedy="join ConfigMaps, or Secrets",
        find=_substituted,
    ),
    naming.COMMON_METADATA,
    *ignored.rules("spec.ignore[]", _ignoring),
    Rule(
        name="field-unused",
        fields=("spec.healthChecks", "spec.healthCheckExprs"),
        demands="it is looked at",
        remedy="remove it, or set spec.wait as you mean it",
        find=_unused,
        refuses=False,
    ),
    Rule(
        name="timeout-short",
        fields=("spec.timeout",),
        demands="it is 30 s or more",
        remedy="write 30s or more",
        find=_timeout,
        refuses=False,
    ),
    Rule(
        name="deletes-all",
        fields=("spec.deletionPolicy", "spec.prune"),
        demands="objects that are never pruned are not deleted with the Kustomization either",
        remedy="use deletionPolicy Orphan, or set spec.prune",
        find=_deletion,
        refuses=False,
    ),
    decrypting.KEYS,
    Rule(
        name="deprecated-validation",
        fields=("spec.validation",),
        demands="it is not deprecated",
        remedy="remove it: every apply is validated by the API server",
        find=_validation,
        refuses=False,
    ),
    *schedule.of_builds("interval", "timeout", "retryInterval"),
)

CHECKS: Final = Checks(
    kind=KUSTOMIZATION,
    circle=circles.rule("spec.dependsOn[]"),
    rules=RULES,
    names=(
        Named(path="spec.sourceRef"),
        Named(path="spec.sourceRefs[]"),
        Named(path="spec.dependsOn[]", kind="Kustomization"),
        Named(path="spec.serviceAccountName", kind="ServiceAccount"),
        *decrypting.NAMES,
        Named(path="spec.kubeConfig.secretRef", kind="Secret"),
        Named(path="spec.kubeConfig.configMapRef", kind="ConfigMap"),
        Named(path="spec.postBuild.substituteFrom[]"),
    ),
    namespaces=(
        "spec.sourceRef.namespace",
        "spec.sourceRefs[].namespace",
        "spec.dependsOn[].namespace",
    ),
    judged=(expressions.JUDGED,),
)
