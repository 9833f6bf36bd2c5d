"""The flags for Kustomizations and HelmReleases: ``flux create kustomization|helmrelease``."""

from pathlib import Path
from typing import Final

import click

from cli import age, errors
from cli.creating import flags, objects
from cli.creating.flags import Flag, Values
from cli.creating.objects import Row
from crds import HELM_RELEASE, KUSTOMIZATION
from crds.helm import GROUP as HELM_GROUP
from toolkit.objects import Json

_HEALTH_KINDS: Final = ("HelmRelease", "Deployment", "DaemonSet", "StatefulSet")
_API_VERSIONS: Final = {
    "HelmRelease": f"{HELM_GROUP}/v2",
    "Deployment": "apps/v1",
    "DaemonSet": "apps/v1",
    "StatefulSet": "apps/v1",
}
_SOURCES: Final = ("OCIRepository", "GitRepository", "Bucket", "ExternalArtifact")
_CHART_SOURCES: Final = ("HelmRepository", "GitRepository", "Bucket")
_CHART_REFS: Final = ("OCIRepository", "HelmChart", "ExternalArtifact")


def _dependencies(values: tuple[str, ...]) -> list[Json]:
    """Return the references of ``[NAMESPACE/]NAME``."""
    found: list[Json] = []
    for word in flags.words(values):
        namespace, _, name = word.rpartition("/")
        found.append({"name": name, **({"namespace": namespace} if namespace else {})})
    return found


def _kube_config(name: str) -> Json:
    return {"secretRef": {"name": name}}


_SHARED: Final = (
    flags.INTERVAL,
    Flag(
        name="depends-on",
        at="dependsOn",
        several=True,
        shape=_dependencies,
        help="[NAMESPACE/]NAME of an object that must be ready first.",
    ),
    Flag(
        name="service-account",
        at="serviceAccountName",
        help="ServiceAccount that applies the objects.",
    ),
    Flag(name="target-namespace", at="targetNamespace", help="Namespace to apply to."),
    Flag(
        name="kubeconfig-secret-ref",
        at="kubeConfig",
        shape=_kube_config,
        help="Secret with the kubeconfig of another cluster.",
    ),
)


def _kustomization(values: Values, spec: Json) -> None:
    path = values["path"]
    if not path.startswith("./") or ".." in Path(path).parts:
        raise errors.UsageError(f"--path: {path!r} must begin with ./ and stay in the source")
    spec.setdefault("prune", False)
    spec["sourceRef"] = objects.reference(
        values["source"], _SOURCES, flag="source", default="GitRepository"
    )
    if values.get("decryption_secret") and not values.get("decryption_provider"):
        raise errors.UsageError("--decryption-secret needs --decryption-provider=sops")
    checks = flags.words(values["health_check"])
    if checks and not values["wait"]:
        spec["healthChecks"] = [_health_check(word) for word in checks]
    if checks or values["wait"]:
        spec["timeout"] = flags.duration(values["health_check_timeout"])


def _health_check(text: str) -> Json:
    found = objects.reference(text, _HEALTH_KINDS, flag="health-check")
    if "namespace" not in found:
        raise errors.UsageError(f"--health-check: {text!r} must be KIND/NAME.NAMESPACE")
    return {"apiVersion": _API_VERSIONS[found["kind"]], **found}


def _helm_release(values: Values, spec: Json) -> None:
    if bool(values.get("chart")) == bool(values.get("chart_ref")):
        raise errors.UsageError("name the chart with either --chart and --source, or --chart-ref")
    if values.get("chart_ref"):
        spec["chartRef"] = objects.reference(values["chart_ref"], _CHART_REFS, flag="chart-ref")
    else:
        spec["chart"] = {"spec": _chart(values)}
    if values.get("crds"):
        flags.put(spec, "install.crds", "Create")
        flags.put(spec, "upgrade.crds", values["crds"])
    if values["values"]:
        spec["values"] = _merged(flags.words(values["values"]))
    if values["values_from"]:
        words = flags.words(values["values_from"])
        kinds = ("Secret", "ConfigMap")
        spec["valuesFrom"] = [
            objects.reference(word, kinds, flag="values-from", local=True) for word in words
        ]


def _chart(values: Values) -> Json:
    if not values.get("source"):
        raise errors.UsageError("--chart needs --source, such as HelmRepository/podinfo")
    chart: Json = {
        "chart": values["chart"],
        "sourceRef": objects.reference(values["source"], _CHART_SOURCES, flag="source"),
        "reconcileStrategy": values["reconcile_strategy"],
    }
    if values.get("chart_version"):
        chart["version"] = values["chart_version"]
    if values.get("chart_interval"):
        chart["interval"] = flags.duration(values["chart_interval"])
    return chart


def _merged(names: list[str]) -> Json:
    """Return the values of several files, those of later ones winning."""
    merged: Json = {}
    for name in names:
        merged = _laid_over(merged, _document(name))
    return merged


def _laid_over(below: Json, above: Json) -> Json:
    merged = dict(below)
    for key, value in above.items():
        old = merged.get(key)
        both = isinstance(old, dict) and isinstance(value, dict)
        merged[key] = _laid_over(old, value) if both else value  # type: ignore[arg-type]  # both
    return merged


def _document(name: str) -> Json:
    # Only values need a reader of YAML; the file is the user's own.
    import yaml  # noqa: PLC0415

    try:
        document = yaml.safe_load(Path(name).read_text())
    except OSError as exc:
        raise errors.UsageError(f"--values: cannot read {name}: {exc.strerror}") from exc
    except (UnicodeError, yaml.YAMLError) as exc:
        raise errors.UsageError(f"--values: {name} cannot be read as YAML: {exc}") from exc
    if not isinstance(document, dict):
        raise errors.UsageError(f"--values: {name} must hold a mapping of values")
    return document


KUSTOMIZATION_ROW: Final = Row(
    kind=KUSTOMIZATION,
    example="""penstock create kustomization podinfo --source=GitRepository/podinfo.flux-system \\
  --path=./kustomize --prune --wait --interval=10m""",
    flags=(
        Flag(
            name="source", required=True, help="[KIND/]NAME[.NAMESPACE] of the source of the files."
        ),
        Flag(
            name="path", at="path", default="./", help="Directory of the source, beginning with ./."
        ),
        Flag(
            name="prune",
            at="prune",
            type=bool,
            help="Delete objects that are no longer in the build.",
        ),
        Flag(
            name="wait",
            at="wait",
            type=bool,
            help="Become ready only when all applied objects are ready.",
        ),
        *_SHARED,
        Flag(
            name="health-check",
            several=True,
            help="KIND/NAME.NAMESPACE of an object that must be healthy.",
        ),
        Flag(
            name="health-check-timeout",
            type=age.DURATION,
            default="2m",
            help="How long objects may take to become healthy.",
        ),
        Flag(
            name="decryption-provider",
            at="decryption.provider",
            type=click.Choice(("sops",)),
            help="Provider that decrypts files: sops.",
        ),
        Flag(
            name="decryption-secret",
            at="decryption.secretRef",
            shape=flags.named,
            help="Secret with the keys.",
        ),
        Flag(
            name="retry-interval",
            at="retryInterval",
            type=age.DURATION,
            shape=flags.duration,
            help="When to try again after a failure.",
        ),
    ),
    finish=_kustomization,
)
HELM_RELEASE_ROW: Final = Row(
    kind=HELM_RELEASE,
    example="""penstock create helmrelease podinfo --source=HelmRepository/podinfo \\
  --chart=podinfo --chart-version='>4.0.0' --values=./values.yaml --interval=10m""",
    flags=(
        Flag(name="source", help="KIND/NAME[.NAMESPACE] of the source of the chart."),
        Flag(name="chart", help="Name of the chart, or path to it."),
        Flag(name="chart-version", help="Version of the chart, or a range of versions."),
        Flag(name="chart-ref", help="KIND/NAME[.NAMESPACE] of a chart, instead of --chart."),
        Flag(
            name="chart-interval",
            type=age.DURATION,
            help="How often to look for new versions.",
        ),
        Flag(
            name="reconcile-strategy",
            type=click.Choice(("ChartVersion", "Revision")),
            default="ChartVersion",
            help="What causes a new release: ChartVersion or Revision.",
        ),
        *_SHARED,
        Flag(name="release-name", at="releaseName", help="Name of the release."),
        Flag(
            name="create-target-namespace",
            at="install.createNamespace",
            type=bool,
            help="Create the target namespace if it does not exist.",
        ),
        Flag(
            name="storage-namespace",
            at="storageNamespace",
            help="Namespace of the Secrets in which Helm stores releases.",
        ),
        Flag(
            name="crds",
            type=click.Choice(("Skip", "Create", "CreateReplace")),
            help="How an upgrade handles CustomResourceDefinitions of the chart.",
        ),
        Flag(name="values", several=True, help="Files with values; later files take precedence."),
        Flag(
            name="values-from", several=True, help="Secret/NAME or ConfigMap/NAME with values.yaml."
        ),
    ),
    finish=_helm_release,
)
