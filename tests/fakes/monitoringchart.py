"""A chart with all that charts in the wild have.

It has a kind of its own and an object of it, a hook, a test, a subchart, a library chart, a schema,
notes and a lookup. It takes the values that a published guide gives to ``kube-prometheus-stack``.
"""

import json
from typing import Final

from tests.fakes import charts

NAME: Final = "kube-prometheus-stack"
GROUP: Final = "monitoring.example.com"
_DEPENDENCIES: Final = """\
dependencies:
- {name: common, version: 1.0.0}
- {name: grafana, version: 2.0.0, condition: grafana.enabled}
"""
_VALUES: Final = """\
alertmanager: {config: {global: {slack_api_url: ""}}}
grafana: {enabled: true}
prometheus: {prometheusSpec: {retention: 10d, storageSpec: {}}}
"""
_SCHEMA: Final = {
    "properties": {
        "prometheus": {
            "properties": {
                "prometheusSpec": {
                    "properties": {"retention": {"type": "string", "pattern": "^[0-9]+[dh]$"}}
                }
            }
        }
    }
}
_KIND: Final = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": f"prometheuses.{GROUP}"},
    "spec": {
        "group": GROUP,
        "scope": "Namespaced",
        "names": {"kind": "Prometheus", "plural": "prometheuses", "singular": "prometheus"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "x-kubernetes-preserve-unknown-fields": True,
                            }
                        },
                    }
                },
            }
        ],
    },
}
_LABELS: Final = """\
{{- define "common.labels" -}}
{app: {{ .Release.Name }}, part-of: {{ .Chart.Name }}}
{{- end }}
"""
_DEPLOYMENT: Final = """\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ .Release.Name }}-NAME
  labels: {{ include "common.labels" . }}
spec:
  selector: {matchLabels: {app: {{ .Release.Name }}-NAME}}
  template:
    metadata: {labels: {app: {{ .Release.Name }}-NAME}}
    spec:
      containers: [{name: main, image: "registry.example/NAME:1"}]
"""
_PROMETHEUS: Final = f"""\
apiVersion: {GROUP}/v1
kind: Prometheus
metadata:
  name: {{{{ .Release.Name }}}}
spec: {{{{ toJson .Values.prometheus.prometheusSpec }}}}
"""
_ALERTS: Final = """\
{{- $before := lookup "v1" "Secret" .Release.Namespace "alertmanager" }}
apiVersion: v1
kind: Secret
metadata:
  name: alertmanager
  annotations: {found: {{ not (not $before) | quote }}}
stringData:
  url: {{ required "where alerts go" .Values.alertmanager.config.global.slack_api_url }}
"""
_HOOK: Final = """\
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .Release.Name }}-admission
  annotations: {helm.sh/hook: "pre-install,pre-upgrade"}
data: {revision: {{ .Release.Revision | quote }}}
"""
_TEST: Final = """\
apiVersion: v1
kind: Pod
metadata:
  name: {{ .Release.Name }}-test
  annotations: {helm.sh/hook: test}
spec:
  restartPolicy: Never
  containers: [{name: main, image: "registry.example/test:1"}]
"""


def files(version: str) -> dict[str, str]:
    """Return the files of the chart."""
    own = {
        "Chart.yaml": charts.chart_yaml(NAME, version, _DEPENDENCIES),
        "values.yaml": _VALUES,
        "values.schema.json": json.dumps(_SCHEMA),
        "crds/prometheus.yaml": json.dumps(_KIND),
        "templates/NOTES.txt": "Kept for {{ .Values.prometheus.prometheusSpec.retention }}.\n",
        "templates/alertmanager.yaml": _ALERTS,
        "templates/hook.yaml": _HOOK,
        "templates/operator.yaml": _DEPLOYMENT.replace("NAME", "operator"),
        "templates/prometheus.yaml": _PROMETHEUS,
        "templates/tests/test.yaml": _TEST,
    }
    library = {
        "Chart.yaml": charts.chart_yaml("common", "1.0.0", "type: library\n"),
        "templates/_labels.tpl": _LABELS,
    }
    subchart = {
        "Chart.yaml": charts.chart_yaml("grafana", "2.0.0"),
        "templates/grafana.yaml": _DEPLOYMENT.replace("NAME", "grafana"),
    }
    return {
        **own,
        **{f"charts/common/{name}": text for name, text in library.items()},
        **{f"charts/grafana/{name}": text for name, text in subchart.items()},
    }
