"""The values of the chart: a table from which defaults, schema and reference are generated.

Defaults of a process come from the base, so that they are in one place.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import yaml

from cli.chart import builds, holes, templates
from toolkit.objects import Json, dig

_TEXT: Final[Json] = {"type": "string"}
_SWITCH: Final[Json] = {"type": "boolean"}
_OBJECT: Final[Json] = {"type": "object"}
_TEXTS: Final[Json] = {"type": "object", "additionalProperties": _TEXT}


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """A value: its path, its default, its purpose, and its JSON schema."""

    path: str
    default: Any
    about: str
    schema: Json


IMAGE: Final = (
    Value(
        path="image.repository",
        default="penstock",
        about="Where the image is, without a tag.",
        schema={"type": "string", "minLength": 1},
    ),
    Value(
        path="image.tag",
        default="",
        about="Tag of the image; the version of the chart's application if empty.",
        schema=_TEXT,
    ),
    Value(
        path="image.digest",
        default="",
        about="Digest of the image, as sha256:<64 digits>; wins over the tag.",
        schema={"type": "string", "pattern": "^(sha256:[0-9a-f]{64})?$"},
    ),
    Value(
        path="image.pullPolicy",
        default="IfNotPresent",
        about="When nodes pull the image: Always, IfNotPresent or Never.",
        schema={"enum": ["Always", "IfNotPresent", "Never"]},
    ),
    Value(
        path="image.pullSecrets",
        default=[],
        about="Secrets of the release's namespace to pull the image with, as [{name: registry}].",
        schema={
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"name": _TEXT},
                "required": ["name"],
                "additionalProperties": False,
            },
        },
    ),
)
DEFINITIONS: Final = (
    Value(
        path="crds.install",
        default=True,
        about="Install and upgrade the definitions (CRDs) with the release.",
        schema=_SWITCH,
    ),
    Value(
        path="crds.keep",
        default=True,
        about="Keep the definitions, and so all objects of their kinds, when the release is "
        "uninstalled.",
        schema=_SWITCH,
    ),
)
ABOUT: Final[Mapping[str, str]] = {
    # component: its purpose, as in the table of components in docs/install.md
    "network-policies": "NetworkPolicies: what may reach and leave the pods.",
    "sharding": "Controllers for the objects with the label sharding.fluxcd.io/key: shard1.",
    "ha": "Two replicas of each controller, spread over nodes, with disruption budgets.",
    "monitoring": "ServiceMonitor, alerts and dashboards; needs the Prometheus operator.",
    "persistent-events": "A volume for events that are still to be sent.",
    "cert-manager": "Certificates by cert-manager, which must be installed.",
    "decryption": "The webhook finds keys of documents that are encrypted with SOPS.",
    "workload-identity": "Sources, Providers and documents sign in at clouds as ServiceAccounts.",
    "by-namespace": "Controllers read Secrets and act as accounts only in namespaces that bind "
    "them.",
    "warn-cross-namespace-refs": "Warn of references that no ReferenceGrant allows, instead of "
    "refusing them.",
    "lockdown": "The rules for clusters that tenants share.",
}


def rows(base: Sequence[Json]) -> tuple[Value, ...]:
    """Return all values; ``base`` are the objects that the defaults of processes are taken from."""
    switches = [
        Value(
            path=templates.switch(name).removeprefix("$.Values."),
            default=name == builds.INCLUDED,
            about=ABOUT[name],
            schema=_SWITCH,
        )
        for name in builds.COMPONENTS
    ]
    pods = {
        each["metadata"]["name"]: dig(each, "spec", "template", "spec")
        for each in base
        if each["kind"] == "Deployment"
    }
    processes = [
        value
        for name, section in holes.PROCESSES.items()
        for value in _process(name, section, pods[name])
    ]
    return (*IMAGE, *DEFINITIONS, *switches, *processes)


def _process(name: str, section: str, pod: Json) -> Iterator[Value]:
    def value(key: str, default: Any, about: str, schema: Json) -> Value:
        return Value(path=f"{section}.{key}", default=default, about=about, schema=schema)

    (container,) = pod["containers"]
    yield value(
        "replicas",
        None,
        f"Replicas of {name}; what the components say if null.",
        {"type": ["integer", "null"], "minimum": 0},
    )
    yield value(
        "extraArgs",
        [],
        "Flags that are added, as [--log-level=debug]; of two equal ones the last counts.",
        {"type": "array", "items": _TEXT},
    )
    yield value("resources", container["resources"], "Resources of the container.", _OBJECT)
    yield value("nodeSelector", pod["nodeSelector"], "Labels that its nodes have.", _TEXTS)
    yield value(
        "tolerations",
        [],
        "Taints that its pods tolerate.",
        {"type": "array", "items": _OBJECT},
    )
    yield value("affinity", {}, "Affinity of its pods, instead of the components'.", _OBJECT)
    yield value(
        "priorityClassName",
        pod["priorityClassName"],
        "PriorityClass of its pods.",
        _TEXT,
    )
    yield value("podAnnotations", {}, "Annotations that are added to its pods.", _TEXTS)
    yield value("podLabels", {}, "Labels that are added to its pods.", _TEXTS)
    yield value(
        "serviceAccount.annotations",
        {},
        "Annotations of its ServiceAccount, as cloud providers want them.",
        _TEXTS,
    )


def defaults(values: Sequence[Value]) -> str:
    """Return values.yaml."""
    lines = ["# Generated by `make generate` from deploy/ and cli/chart; do not edit."]
    above: list[str] = []
    for value in values:
        *sections, key = value.path.split(".")
        if sections[:1] != above[:1]:
            lines.append("")
        for depth, section in enumerate(sections):
            if sections[: depth + 1] != above[: depth + 1]:
                lines.append(f"{'  ' * depth}{section}:")
        above = sections
        space = "  " * len(sections)
        text = yaml.safe_dump({key: value.default}, sort_keys=False).splitlines()
        lines += [f"{space}# {value.about}", *(f"{space}{line}" for line in text)]
    return "\n".join(lines) + "\n"


def schema(values: Sequence[Value]) -> str:
    """Return values.schema.json, which refuses unknown values."""
    root: Json = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Values of the chart penstock",
        **_section(),
    }
    # Helm gives it to every chart that is a part of another one.
    root["properties"]["global"] = _OBJECT
    for value in values:
        *sections, key = value.path.split(".")
        at = root
        for section in sections:
            at = at["properties"].setdefault(section, _section())
        at["properties"][key] = {"description": value.about, **value.schema}
    return json.dumps(root, indent=2) + "\n"


def _section() -> Json:
    return {"type": "object", "additionalProperties": False, "properties": {}}


def page(values: Sequence[Value]) -> str:
    """Return the table of the documentation; processes have the same values and share rows."""
    sections = list(holes.PROCESSES.values())
    lines = [
        "# Values of the Helm chart",
        "",
        "<!-- Generated from cli/chart by `make generate`; do not edit. -->",
        "",
        "[install.md](install.md#install-with-helm) says how to install it.",
        f"`PROCESS` is one of {', '.join(f'`{name}`' for name in sections)}.",
        "",
        "| value | default | what it is |",
        "|---|---|---|",
    ]
    for value in values:
        section, _, rest = value.path.partition(".")
        if section in sections[1:]:
            continue
        own, shown = section == sections[0], f"`{json.dumps(value.default)}`"
        path = f"PROCESS.{rest}" if own else value.path
        if own and value.default and isinstance(value.default, dict):
            shown = "see `values.yaml`"
        about = value.about.replace("source-controller", "the process")
        lines.append(f"| `{path}` | {shown} | {about.replace('|', chr(92) + '|')} |")
    return "\n".join(lines) + "\n"
