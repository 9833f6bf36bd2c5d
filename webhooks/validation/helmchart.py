"""What is checked of a HelmChart."""

from collections.abc import Iterator
from typing import Final

from crds import HELM_CHART
from crds.source_helm import HelmChart
from toolkit.chart import version
from webhooks.validation import paths, refs, schedule, signing
from webhooks.validation.rule import Checks, Fault, Named, Rule, read, when

_REPOSITORY: Final = "HelmRepository"


def _version(obj: HelmChart) -> Iterator[Fault]:
    if obj.spec.source_ref.kind == _REPOSITORY:
        yield from read("spec.version", obj.spec.version, version.constraint)


def _chart(obj: HelmChart) -> Iterator[Fault]:
    chart = obj.spec.chart
    if not chart.strip("/"):
        yield from when(obj.spec.source_ref.kind == _REPOSITORY, "spec.chart", "it is empty")
        return
    out = paths.leads_out(chart.lstrip("/"))
    yield from when(out, "spec.chart", "it leads out of the source", chart)


def _values(obj: HelmChart) -> Iterator[Fault]:
    for number, file in enumerate(obj.spec.values_files):
        out = paths.leads_out(file.lstrip("/"))
        yield from when(out, f"spec.valuesFiles[{number}]", "it leads out of the source", file)


def _unused(obj: HelmChart) -> Iterator[Fault]:
    spec = obj.spec
    if spec.source_ref.kind == _REPOSITORY:
        unused = spec.reconcile_strategy == "Revision"
        why = "it has no effect with a HelmRepository"
        yield from when(unused, "spec.reconcileStrategy", why, spec.reconcile_strategy)
    else:
        why = f"it has no effect with a {spec.source_ref.kind}"
        yield from when(spec.version not in {"", "*"}, "spec.version", why, spec.version)
        yield from when(spec.verify, "spec.verify", f"{why}: verify the source itself")


RULES: Final[tuple[Rule[HelmChart], ...]] = (
    Rule(
        name="semver-range",
        fields=("spec.version",),
        demands="it is a version or a range of versions",
        remedy=refs.RANGE.remedy,
        find=_version,
    ),
    Rule(
        name="chart-path",
        fields=("spec.chart",),
        demands="it is the name of a chart, or a path in the source",
        remedy=paths.REMEDY,
        find=_chart,
    ),
    Rule(
        name="values-path",
        fields=("spec.valuesFiles[]",),
        demands="it is a file of the source",
        remedy=paths.REMEDY,
        find=_values,
    ),
    Rule(
        name="field-unused",
        fields=("spec.reconcileStrategy", "spec.version", "spec.verify"),
        demands="it is looked at for such a source",
        remedy="remove it",
        find=_unused,
        refuses=False,
    ),
    *signing.RULES,
    *schedule.rules("interval"),
)

CHECKS: Final = Checks(
    kind=HELM_CHART,
    rules=RULES,
    names=(
        Named(path="spec.sourceRef"),
        Named(path="spec.verify.secretRef", kind="Secret"),
        Named(path="spec.verify.trustedRootSecretRef", kind="Secret"),
    ),
)
