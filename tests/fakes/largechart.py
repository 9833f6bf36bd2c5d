"""A chart as large as those in the wild: 300 objects, 5 MB of definitions and templates.

Definitions repeat the same sentences, as those that embed pods do, so it packs as well as they do.
"""

import json
import random
from collections.abc import Callable
from typing import Any, Final

from tests.fakes import charts

NAME: Final = "platform"
OBJECTS: Final = 300
DEFINITIONS: Final = 8
_SENTENCES: Final = 40
_TEXT: Final = (
    "the field selects which objects are matched and how often they are read again when a label "
    "or an annotation changes default value zero means no limit see also more information in the "
    "documentation about resources requests limits volumes secrets and pods that run on a node"
)
_DEPLOYMENT: Final = """\
{{- if .Values.enabled }}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ .Release.Name }}-NUMBER
  labels: {part: "NUMBER", version: {{ .Chart.Version | quote }}}
spec:
  replicas: {{ .Values.replicas }}
  selector: {matchLabels: {part: "NUMBER"}}
  template:
    metadata: {labels: {part: "NUMBER"}}
    spec:
      containers:
      - name: main
        image: {{ .Values.image | quote }}
        resources: {{- toYaml .Values.resources | nindent 10 }}
{{- end }}
"""
_CONFIG_MAP: Final = """\
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .Release.Name }}-NUMBER
data:
  version: {{ .Chart.Version | quote }}
  settings.yaml: |
    {{- toYaml .Values.settings | nindent 4 }}
"""
_SERVICE: Final = """\
apiVersion: v1
kind: Service
metadata:
  name: {{ .Release.Name }}-NUMBER
spec:
  selector: {part: "NUMBER"}
  ports: [{port: 80}]
"""
_KINDS: Final = (_DEPLOYMENT, _CONFIG_MAP, _SERVICE)
_VALUES: Final = """\
enabled: true
replicas: 0
image: registry.example/app:1
resources: {requests: {cpu: 10m, memory: 16Mi}}
settings: {level: info, endpoints: [one, two, three]}
"""


def files(group: str, version: str) -> dict[str, str]:
    """Return the chart, with definitions of a group."""
    chance = random.Random(NAME)  # noqa: S311 - the same text each time
    sentences = [" ".join(chance.choices(_TEXT.split(), k=18)) for _ in range(_SENTENCES)]

    def prose(count: int) -> str:
        return ". ".join(chance.choices(sentences, k=count))

    templates = {
        f"templates/{number:03}.yaml": (
            f"{{{{- /*\n{prose(80)}\n*/ -}}}}\n"
            + _KINDS[number % len(_KINDS)].replace("NUMBER", str(number))
        )
        for number in range(OBJECTS)
    }
    definitions = {
        f"crds/{number}.yaml": json.dumps(_definition(prose, group, number), indent=1)
        for number in range(DEFINITIONS)
    }
    head = {"Chart.yaml": charts.chart_yaml(NAME, version), "values.yaml": _VALUES}
    return head | templates | definitions


def names(group: str) -> list[str]:
    """Return the names of the definitions."""
    return [f"things{number}.{group}" for number in range(DEFINITIONS)]


def _definition(prose: Callable[[int], str], group: str, number: int) -> dict[str, Any]:
    properties = {"spec": _schema(prose, levels=2)}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": properties}},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": names(group)[number]},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"kind": f"Thing{number}", "plural": f"things{number}"},
            "versions": [version],
        },
    }


def _schema(prose: Callable[[int], str], *, levels: int) -> dict[str, Any]:
    """Return the schema of an object with so many levels of objects below it."""
    inner = {
        f"field{n}": _schema(prose, levels=levels - 1)
        if levels
        else {"type": "string", "description": prose(3)}
        for n in range(9)
    }
    return {"type": "object", "description": prose(2), "properties": inner}
