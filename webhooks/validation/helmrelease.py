"""Rules for a HelmRelease; charts, patches and expressions have separate modules."""

from collections.abc import Iterator
from typing import Any, Final

from crds import HELM_RELEASE
from crds import meta as fields
from crds.helm import HelmRelease
from crds.helm_parts import ChartSpec, DriftIgnoreRule, Kustomize
from toolkit.release import names, setting, values
from webhooks.validation import (
    circles,
    decrypting,
    dependencies,
    expressions,
    helmchart,
    ignored,
    naming,
    patches,
    schedule,
)
from webhooks.validation.rule import Checks, Fault, Named, Rule, read, when

_ACTIONS: Final = ("install", "upgrade", "test", "rollback", "uninstall")
_INTERVALS: Final = (
    *("spec.install.strategy.retryInterval", "spec.upgrade.strategy.retryInterval"),
    "spec.chart.spec.interval",
)


def _name(obj: HelmRelease) -> Iterator[Fault]:
    chosen, target = obj.spec.release_name, obj.spec.target_namespace
    if not chosen and (not obj.metadata.name or (target and naming.namespace_name(target))):
        return
    name = names.release_name(obj.metadata.name, chosen=chosen, target_namespace=target)
    if not names.fits(name):
        made = "" if chosen else f"the name '{name}' that is made for it cannot be used"
        yield Fault("spec.releaseName", made or "no release can have this name", chosen)


def _values(obj: HelmRelease) -> Iterator[Fault]:
    wrong = isinstance(obj.spec.values, (str, int, float, list))
    yield from when(wrong, "spec.values", "it is not an object")


def _target_path(obj: HelmRelease) -> Iterator[Fault]:
    for number, each in enumerate(obj.spec.values_from):
        field = f"spec.valuesFrom[{number}]"
        yield from read(f"{field}.targetPath", each.target_path, setting.require_path)


def _references(obj: HelmRelease) -> Iterator[Fault]:
    try:
        values.require_few(obj.spec.values_from)
    except values.ValuesError as exc:
        yield Fault("spec.valuesFrom", str(exc))


def _literal(obj: HelmRelease) -> Iterator[Fault]:
    for number, each in enumerate(obj.spec.values_from):
        alone = each.literal and not each.target_path
        why = "it has no effect without targetPath"
        yield from when(alone, f"spec.valuesFrom[{number}].literal", why)


def _remediation(obj: HelmRelease) -> Iterator[Fault]:
    for action in ("install", "upgrade"):
        said = getattr(obj.spec, action)
        retries = said and said.strategy and said.strategy.name == "RetryOnFailure"
        why = "it has no effect with the strategy RetryOnFailure"
        unused = retries and said.remediation
        yield from when(unused, f"spec.{action}.remediation", why)


def _history(obj: HelmRelease) -> Iterator[Fault]:
    spec = obj.spec
    most = spec.history_limit
    yield from when(most < 0, "spec.maxHistory", "it is negative, which is not a limit", str(most))
    upgrade = spec.upgrade
    remediation = upgrade.remediation if upgrade else None
    rolls_back = remediation and remediation.retries and remediation.strategy == "rollback"
    why = "one record is the failed release, so there is none to roll back to"
    yield from when(most == 1 and rolls_back, "spec.maxHistory", why)


def _unused(obj: HelmRelease) -> Iterator[Fault]:
    spec = obj.spec
    untested = spec.test and spec.test.filters and not spec.test.enable
    yield from when(untested, "spec.test.filters", "it has no effect without spec.test.enable")
    creates = spec.install and spec.install.create_namespace and not spec.target_namespace
    why = "the namespace of this object exists"
    yield from when(creates, "spec.install.createNamespace", why)
    drift = spec.drift_detection
    undetected = drift and drift.ignore and drift.mode == "disabled"
    why = "it has no effect in the mode disabled"
    yield from when(undetected, "spec.driftDetection.ignore", why)


def _deprecated(obj: HelmRelease) -> Iterator[Fault]:
    spec = obj.spec
    skips = spec.install and spec.install.skip_crds
    yield from when(skips, "spec.install.skipCRDs", "it is deprecated: use crds")
    restarts = spec.rollback and spec.rollback.recreate
    why = "it is deprecated and has no effect"
    yield from when(restarts, "spec.rollback.recreate", why)
    file = spec.chart and spec.chart.spec.values_file
    why = "it is deprecated: use valuesFiles"
    yield from when(file, "spec.chart.spec.valuesFile", why)


def _metadata(obj: HelmRelease) -> Iterator[Fault]:
    given = obj.spec.chart.metadata if obj.spec.chart else None
    if given:
        yield from naming.labels("spec.chart.metadata.labels", given.labels)
        yield from naming.annotations("spec.chart.metadata.annotations", given.annotations)


def _timeouts(obj: HelmRelease) -> Iterator[tuple[str, str]]:
    for action in _ACTIONS:
        said: Any = getattr(obj.spec, action)
        if said:
            yield f"spec.{action}.timeout", said.timeout


def _durations(obj: HelmRelease) -> Iterator[tuple[str, str]]:
    yield from _timeouts(obj)
    yield from _intervals(obj)


def _intervals(obj: HelmRelease) -> Iterator[tuple[str, str]]:
    for action in ("install", "upgrade"):
        said = getattr(obj.spec, action)
        if said and said.strategy:
            yield f"spec.{action}.strategy.retryInterval", said.strategy.retry_interval
    if obj.spec.chart:
        yield "spec.chart.spec.interval", obj.spec.chart.spec.interval


def _long(obj: HelmRelease) -> Iterator[Fault]:
    for field, text in _durations(obj):
        yield from when(schedule.too_long(text), field, schedule.TOO_LONG)


def _short(obj: HelmRelease) -> Iterator[Fault]:
    for field, text in _intervals(obj):
        yield from schedule.short(field, text)


def _brief(obj: HelmRelease) -> Iterator[Fault]:
    for field, text in _timeouts(obj):
        yield from schedule.brief(field, text)


def _zero(obj: HelmRelease) -> Iterator[Fault]:
    for field, text in _timeouts(obj):
        none = text and fields.parse_duration(text) == 0
        yield from when(none, field, "nothing is done in no time")


def _chart(obj: HelmRelease) -> ChartSpec | None:
    return obj.spec.chart.spec if obj.spec.chart else None


def _rendering(obj: HelmRelease) -> Iterator[tuple[str, Kustomize]]:
    for number, each in enumerate(obj.spec.post_renderers):
        if each.kustomize:
            yield f"spec.postRenderers[{number}].kustomize", each.kustomize


def _ignoring(obj: HelmRelease) -> list[DriftIgnoreRule]:
    return obj.spec.drift_detection.ignore if obj.spec.drift_detection else []


RULES: Final[tuple[Rule[HelmRelease], ...]] = (
    Rule(
        name="release-name",
        fields=("spec.releaseName",),
        demands="it is a name that Helm takes",
        remedy="write at most 53 lower case letters, digits, '-' and '.'",
        find=_name,
    ),
    Rule(
        name="values",
        fields=("spec.values",),
        demands="it is an object",
        remedy="write its keys below it",
        find=_values,
    ),
    Rule(
        name="target-path",
        fields=("spec.valuesFrom[].targetPath",),
        demands="it is a path as `helm --set` takes it",
        remedy="write for example image.tag or hosts[0].name, and '\\.' for a dot in a name",
        find=_target_path,
    ),
    Rule(
        name="values-count",
        fields=("spec.valuesFrom",),
        demands=f"it has at most {values.MOST_REFERENCES} references",
        remedy="join ConfigMaps or Secrets",
        find=_references,
    ),
    Rule(
        name="literal-unused",
        fields=("spec.valuesFrom[].literal",),
        demands="it is looked at",
        remedy="remove it, or write targetPath",
        find=_literal,
        refuses=False,
    ),
    *helmchart.rules("spec.chart.spec", _chart),
    Rule(
        name="chart-metadata",
        fields=("spec.chart.metadata.labels", "spec.chart.metadata.annotations"),
        demands="they are labels and annotations that objects can have",
        remedy=naming.COMMON_METADATA.remedy,
        find=_metadata,
    ),
    *dependencies.rules(HELM_RELEASE.kind),
    *expressions.RULES,
    *patches.rules("spec.postRenderers[].kustomize", _rendering),
    naming.COMMON_METADATA,
    decrypting.KEYS,
    decrypting.AT_ADMISSION,
    *ignored.rules("spec.driftDetection.ignore[]", _ignoring),
    Rule(
        name="remediation-unused",
        fields=("spec.install.remediation", "spec.upgrade.remediation"),
        demands="it is looked at",
        remedy="remove it, or the strategy",
        find=_remediation,
        refuses=False,
    ),
    Rule(
        name="max-history",
        fields=("spec.maxHistory",),
        demands="it is 0 for no limit, or more than the failed release",
        remedy="write 0, or 2 or more",
        find=_history,
        refuses=False,
    ),
    Rule(
        name="option-unused",
        fields=(
            *("spec.test.filters", "spec.install.createNamespace"),
            "spec.driftDetection.ignore",
        ),
        demands="it is looked at",
        remedy="remove it, or the field that makes it ineffective",
        find=_unused,
        refuses=False,
    ),
    Rule(
        name="option-deprecated",
        fields=(
            *("spec.install.skipCRDs", "spec.rollback.recreate"),
            "spec.chart.spec.valuesFile",
        ),
        demands="it is not deprecated",
        remedy="remove it, or use its replacement",
        find=_deprecated,
        refuses=False,
    ),
    Rule(
        name="action-duration-range",
        fields=(*(f"spec.{action}.timeout" for action in _ACTIONS), *_INTERVALS),
        demands="it is a duration that Go programs can hold",
        remedy="write at most 2562047h",
        find=_long,
    ),
    Rule(
        name="action-timeout-zero",
        fields=tuple(f"spec.{action}.timeout" for action in _ACTIONS),
        demands="it is more than nothing",
        remedy="leave it out, or write some seconds",
        find=_zero,
    ),
    Rule(
        name="action-interval-short",
        fields=_INTERVALS,
        demands="it is 10 s or more",
        remedy="write a minute or more",
        find=_short,
        refuses=False,
    ),
    Rule(
        name="action-timeout-short",
        fields=tuple(f"spec.{action}.timeout" for action in _ACTIONS),
        demands="it is 100 ms or more",
        remedy="leave it out, or write some seconds",
        find=_brief,
        refuses=False,
    ),
    *schedule.of_actions("interval", "timeout"),
)

CHECKS: Final = Checks(
    kind=HELM_RELEASE,
    circle=circles.rule("spec.dependsOn[]"),
    rules=RULES,
    names=(
        Named(path="spec.chart.spec.sourceRef"),
        Named(path="spec.chart.spec.verify.secretRef", kind="Secret"),
        Named(path="spec.chartRef"),
        Named(path="spec.dependsOn[]", kind="HelmRelease"),
        Named(path="spec.valuesFrom[]", data_key=("valuesKey", "values.yaml")),
        Named(path="spec.serviceAccountName", kind="ServiceAccount"),
        *decrypting.NAMES,
        Named(path="spec.kubeConfig.secretRef", kind="Secret"),
        Named(path="spec.kubeConfig.configMapRef", kind="ConfigMap"),
    ),
    namespaces=(
        *("spec.targetNamespace", "spec.storageNamespace"),
        *("spec.chart.spec.sourceRef.namespace", "spec.chartRef.namespace"),
        "spec.dependsOn[].namespace",
    ),
    judged=(expressions.JUDGED,),
)
