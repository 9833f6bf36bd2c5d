"""Specs of HelmReleases: right ones, and for each rule a wrong one, as in ``tests.fakes.specs``."""

from typing import Any, Final

Json = dict[str, Any]

_KIND: Final = "HelmRelease"
_REPOSITORY: Final = {"kind": "HelmRepository", "name": "charts"}
_GIT: Final = {"kind": "GitRepository", "name": "apps"}
_SECRET: Final = {"kind": "Secret", "name": "s"}


def _chart(**spec: Any) -> Json:
    return {"chart": {"spec": {"chart": "podinfo", "sourceRef": _REPOSITORY, **spec}}}


def _kustomize(**changes: Any) -> Json:
    return {"postRenderers": [{}, {"kustomize": changes}]}


def _path(path: str) -> Json:
    return {"valuesFrom": [_SECRET, {**_SECRET, "targetPath": path}]}


RIGHT: Final[Json] = {"interval": "10m", **_chart(version="6.x")}

ALSO_RIGHT: Final[tuple[tuple[str, Json], ...]] = (
    (_KIND, {"releaseName": "a.b-c", "targetNamespace": "prod", "storageNamespace": "prod"}),
    (_KIND, {"targetNamespace": "n" * 63}),
    (_KIND, _chart(chart="./charts/app", sourceRef=_GIT)),
    (_KIND, {"values": {"image": {"tag": "v1"}}}),
    (_KIND, {"values": None}),
    (_KIND, {"decryption": {"provider": "sops", "secretRef": {"name": "keys"}}}),
    (_KIND, _path("image.tag")),
    (_KIND, _path("hosts[0].name")),
    (_KIND, _path("list[0][1]")),
    (_KIND, _path(r"annotations.example\.com/name")),
    (_KIND, {"dependsOn": [{"kind": "Kustomization", "name": "self"}, {"name": "self2"}]}),
    (_KIND, {"upgrade": {"remediation": {"retries": -1, "strategy": "uninstall"}}}),
    (_KIND, {"maxHistory": 0, "timeout": "30m", "interval": "1m"}),
    (_KIND, {"maxHistory": 1, "upgrade": {"remediation": {"retries": 1, "strategy": "uninstall"}}}),
    (_KIND, {"install": {"strategy": {"name": "RetryOnFailure", "retryInterval": "1m"}}}),
    (_KIND, {"test": {"enable": True, "filters": [{"name": "smoke"}]}}),
    (
        _KIND,
        {"driftDetection": {"mode": "warn", "ignore": [{"paths": ["/spec/replicas"]}]}},
    ),
    (
        _KIND,
        _kustomize(patches=[{"patch": "kind: X\nmetadata: {name: x}\n"}], images=[{"name": "a"}]),
    ),
)

_KEYS: Final = {"provider": "sops", "secretRef": {"name": "keys"}}

REFUSED: Final = (
    (
        _KIND,
        {"decryption": _KEYS, "kubeConfig": {"secretRef": {"name": "far"}}},
        "decryption-elsewhere",
        "spec.decryption",
        "another cluster decrypts nothing",
    ),
    (_KIND, {"releaseName": "Shop"}, "release-name", "spec.releaseName", "'Shop': no release"),
    (_KIND, {"releaseName": "-a"}, "release-name", "spec.releaseName", "no release can have"),
    (_KIND, {"values": ["s3cret"]}, "values", "spec.values", "it is not an object"),
    (_KIND, _path("a[70000]"), "target-path", "spec.valuesFrom[1].targetPath", "between 0 and"),
    (_KIND, _path("a."), "target-path", "spec.valuesFrom[1].targetPath", "ends in a dot"),
    (_KIND, _path("a[1]b"), "target-path", "spec.valuesFrom[1].targetPath", "after the index"),
    (_KIND, _path("a\\"), "target-path", "spec.valuesFrom[1].targetPath", "has no value"),
    (
        _KIND,
        {"targetNamespace": "My_Apps"},
        "namespace-name",
        "spec.targetNamespace",
        "no namespace can have this name",
    ),
    (
        _KIND,
        {"valuesFrom": [{"kind": "Secret", "name": "A"}]},
        "object-name",
        "spec.valuesFrom[0].name",
        "no object can have this name",
    ),
    (
        _KIND,
        _chart(version="latest"),
        "semver-range",
        "spec.chart.spec.version",
        "'latest'",
    ),
    (
        _KIND,
        _chart(chart="../x", sourceRef=_GIT),
        "chart-path",
        "spec.chart.spec.chart",
        "it points outside the source",
    ),
    (
        _KIND,
        _chart(valuesFiles=["../x"]),
        "values-path",
        "spec.chart.spec.valuesFiles[0]",
        "it points outside the source",
    ),
    (
        _KIND,
        {"chart": {**RIGHT["chart"], "metadata": {"labels": {"a": "b c"}}}},
        "chart-metadata",
        "spec.chart.metadata.labels[a]",
        "it is not a value of a label",
    ),
    (
        _KIND,
        {"dependsOn": [{"kind": "HelmRelease", "name": "self"}]},
        "depends-on-itself",
        "spec.dependsOn[0]",
        "this object itself",
    ),
    (
        _KIND,
        {"dependsOn": [{"name": "x", "readyExpr": "nothing()"}]},
        "cel-expression",
        "spec.dependsOn[0].readyExpr",
        "nothing",
    ),
    (
        _KIND,
        {"healthCheckExprs": [{"apiVersion": "v1", "current": "has("}]},
        "cel-expression",
        "spec.healthCheckExprs[0].current",
        "'has('",
    ),
    (
        _KIND,
        _kustomize(patches=[{"patch": "- op: remove"}]),
        "patch-text",
        "spec.postRenderers[1].kustomize.patches[0].patch",
        "which objects",
    ),
    (
        _KIND,
        _kustomize(patches=[{"patch": "kind: X", "target": {"name": "("}}]),
        "patch-target",
        "spec.postRenderers[1].kustomize.patches[0].target.name",
        "not a regular expression",
    ),
    (
        _KIND,
        {"commonMetadata": {"labels": {"a": "b c"}}},
        "common-metadata",
        "spec.commonMetadata.labels[a]",
        "it is not a value of a label",
    ),
    (
        _KIND,
        {"valuesFrom": [{"kind": "ConfigMap", "name": "c"}] * 257},
        "values-count",
        "spec.valuesFrom",
        "257 references, more than 256",
    ),
    (
        "HelmRelease",
        {"driftDetection": {"mode": "enabled", "ignore": [{"paths": ["spec"]}]}},
        "ignore-pointer",
        "spec.driftDetection.ignore[0].paths[0]",
        "'spec'",
    ),
    (
        _KIND,
        {"upgrade": {"strategy": {"name": "RetryOnFailure", "retryInterval": "9999999h"}}},
        "action-duration-range",
        "spec.upgrade.strategy.retryInterval",
        "longer than 292 years",
    ),
    (
        _KIND,
        {"install": {"timeout": "0s"}},
        "action-timeout-zero",
        "spec.install.timeout",
        "nothing is done in no time",
    ),
    (_KIND, {"timeout": "0s"}, "timeout-zero", "spec.timeout", "nothing is done in no time"),
)

WARNED: Final = (
    (
        _KIND,
        {"upgrade": {"strategy": {"name": "RetryOnFailure", "retryInterval": "1ms"}}},
        "action-interval-short",
        "spec.upgrade.strategy.retryInterval",
        "counts as 1 s",
    ),
    (
        _KIND,
        {"upgrade": {"timeout": "1ms"}},
        "action-timeout-short",
        "spec.upgrade.timeout",
        "counts as 100 ms",
    ),
    (
        _KIND,
        {"decryption": {"provider": "sops"}},
        "decryption-keys",
        "spec.decryption",
        "names no keys",
    ),
    (
        _KIND,
        {"valuesFrom": [{**_SECRET, "literal": True}]},
        "literal-unused",
        "spec.valuesFrom[0].literal",
        "without targetPath",
    ),
    (
        _KIND,
        _chart(reconcileStrategy="Revision"),
        "field-unused",
        "spec.chart.spec.reconcileStrategy",
        "no effect with a HelmRepository",
    ),
    (
        _KIND,
        {"dependsOn": [{"name": "x"}, {"name": "x"}]},
        "depends-on-twice",
        "spec.dependsOn[1]",
        "it occurs twice",
    ),
    (
        _KIND,
        {"install": {"strategy": {"name": "RetryOnFailure"}, "remediation": {"retries": 1}}},
        "remediation-unused",
        "spec.install.remediation",
        "RetryOnFailure",
    ),
    (_KIND, {"maxHistory": -1}, "max-history", "spec.maxHistory", "'-1': it is negative"),
    (
        _KIND,
        {"maxHistory": 1, "upgrade": {"remediation": {"retries": 1}}},
        "max-history",
        "spec.maxHistory",
        "none to roll back to",
    ),
    (
        _KIND,
        {"test": {"filters": [{"name": "smoke"}]}},
        "option-unused",
        "spec.test.filters",
        "without spec.test.enable",
    ),
    (
        _KIND,
        {"install": {"createNamespace": True}},
        "option-unused",
        "spec.install.createNamespace",
        "exists",
    ),
    (
        _KIND,
        {"driftDetection": {"ignore": [{"paths": ["/spec/replicas"]}]}},
        "option-unused",
        "spec.driftDetection.ignore",
        "mode disabled",
    ),
    (
        _KIND,
        {"install": {"skipCRDs": True}},
        "option-deprecated",
        "spec.install.skipCRDs",
        "use crds",
    ),
    (
        _KIND,
        {"rollback": {"recreate": True}},
        "option-deprecated",
        "spec.rollback.recreate",
        "no effect",
    ),
    (
        _KIND,
        _chart(valuesFile="values.yaml"),
        "option-deprecated",
        "spec.chart.spec.valuesFile",
        "use valuesFiles",
    ),
    (
        _KIND,
        _kustomize(images=[{"name": "a", "digest": "x"}]),
        "image-name",
        "spec.postRenderers[1].kustomize.images[0].digest",
        "no registry can have it",
    ),
    (
        _KIND,
        _kustomize(patchesStrategicMerge=[{"kind": "X"}]),
        "deprecated-patches",
        "spec.postRenderers[1].kustomize.patchesStrategicMerge",
        "deprecated",
    ),
)
