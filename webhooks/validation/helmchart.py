"""Rules for a HelmChart, and for the chart template of a HelmRelease."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final, TypeAlias, TypeVar

from crds import HELM_CHART
from crds.helm_parts import ChartSpec
from crds.source_helm import HelmChart, HelmChartSpec
from toolkit.chart import version
from webhooks.validation import paths, refs, schedule, signing
from webhooks.validation.rule import Checks, Fault, Named, Rule, read, when

T = TypeVar("T")

_REPOSITORY: Final = "HelmRepository"
_Spec: TypeAlias = HelmChartSpec | ChartSpec
Found: TypeAlias = Iterator[Fault]
_Find: TypeAlias = Callable[[_Spec], Found]


def _spec(obj: HelmChart) -> HelmChartSpec:
    return obj.spec


def _version(spec: _Spec) -> Found:
    if spec.source_ref.kind == _REPOSITORY:
        yield from read("version", spec.version, version.constraint)


def _chart(spec: _Spec) -> Found:
    chart = spec.chart
    if not chart.strip("/"):
        yield from when(spec.source_ref.kind == _REPOSITORY, "chart", "it is empty")
        return
    out = paths.leads_out(chart.lstrip("/"))
    yield from when(out, "chart", "it points outside the source", chart)


def _values(spec: _Spec) -> Found:
    for number, file in enumerate(spec.values_files):
        out = paths.leads_out(file.lstrip("/"))
        yield from when(out, f"valuesFiles[{number}]", "it points outside the source", file)


def _unused(spec: _Spec) -> Found:
    if spec.source_ref.kind == _REPOSITORY:
        unused = spec.reconcile_strategy == "Revision"
        why = "it has no effect with a HelmRepository"
        yield from when(unused, "reconcileStrategy", why, spec.reconcile_strategy)
    else:
        why = f"it has no effect with a {spec.source_ref.kind}"
        yield from when(spec.version not in {"", "*"}, "version", why, spec.version)
        yield from when(spec.verify, "verify", f"{why}: verify the source itself")


def rules(path: str, chosen: Callable[[T], _Spec | None]) -> tuple[Rule[T], ...]:
    """Return the rules for a kind with a chart at ``path``."""

    def rule(name: str, fields: str, demands: str, remedy: str, find: _Find) -> Rule[T]:
        def found(obj: T) -> Found:
            spec = chosen(obj)
            for fault in find(spec) if spec else ():
                yield replace(fault, field=f"{path}.{fault.field}")

        return Rule(
            name=name,
            fields=tuple(f"{path}.{field}" for field in fields.split()),
            demands=demands,
            remedy=remedy,
            find=found,
            refuses=name != "field-unused",
        )

    return (
        rule(
            "semver-range",
            "version",
            "it is a version or a range of versions",
            refs.RANGE.remedy,
            _version,
        ),
        rule(
            "chart-path",
            "chart",
            "it is the name of a chart, or a path in the source",
            paths.REMEDY,
            _chart,
        ),
        rule("values-path", "valuesFiles[]", "it is a file of the source", paths.REMEDY, _values),
        rule(
            "field-unused",
            "reconcileStrategy version verify",
            "it is looked at for such a source",
            "remove it",
            _unused,
        ),
    )


RULES: Final[tuple[Rule[HelmChart], ...]] = (
    *rules("spec", _spec),
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
