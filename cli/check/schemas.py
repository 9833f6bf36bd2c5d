"""Charts whose values.schema.json refers to other hosts.

Penstock asks no other host for a schema: what such a schema demands of the values is not validated,
and the release is installed. Users learn this before they move. Nothing is fetched here either, so
only charts in the repository are read. A chart of another repository is named as not checked.

References are resolved as the engine does it (``engine/internal/helm/schemas.go``).
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import urljoin, urlsplit, urlunsplit

from cli.check.judge import Finding
from cli.check.subjects import Subject
from crds import HELM_CHART, HELM_RELEASE
from toolkit.chart import document
from toolkit.objects import Json, dig

RULE: Final = "remote-schema"
REMEDY: Final = "put what it refers to below $defs if the values must be validated by it"
_HERE: Final = "file:///values.schema.json"
_FILE: Final = "values.schema.json"
_LARGEST: Final = 4 << 20
_MOST_CHARTS: Final = 100
_REFERENCES: Final = frozenset({"$ref", "$dynamicRef", "$recursiveRef"})
_DATA: Final = frozenset({"const", "default", "enum", "examples"})
"""Keywords whose content is no schema."""
_NAMED: Final = frozenset(
    {
        *("$defs", "definitions", "dependencies", "dependentSchemas"),
        *("patternProperties", "properties"),
    }
)
"""Keywords whose content is schemas by a name, which may be that of a keyword."""
_KNOWN: Final = ("http://json-schema.org/", "https://json-schema.org/")
"""Dialects of JSON Schema, which are read from no host."""


@dataclass(frozen=True, slots=True)
class Found:
    """Warnings about charts in the repository, and the objects whose charts are elsewhere."""

    findings: list[Finding] = field(default_factory=list)
    elsewhere: list[Subject] = field(default_factory=list)


def read(directory: Path, found: Iterable[Subject]) -> Found:
    """Read the charts of HelmReleases and HelmCharts as far as they are in a directory."""
    read = Found()
    for subject in found:
        template = _template(subject.obj)
        if template is None:
            continue
        place = _place(directory, template)
        if place is None:
            read.elsewhere.append(subject)
            continue
        for message in told(_charts(directory, place)):
            read.findings.append(_finding(subject, message))
    return read


def told(schemas: Iterable[tuple[str, Any]]) -> Iterator[str]:
    """Yield what is not validated, for each chart by its name and schema."""
    for name, schema in schemas:
        hosts = remote(schema)
        if hosts:
            listed = ", ".join(f"'{each}'" for each in hosts)
            yield (
                f"{_FILE} of chart '{name}' refers to {listed}: Penstock asks no other host for a"
                " schema, so what it demands of the values is not validated"
            )


def remote(schema: Any) -> tuple[str, ...]:
    """Return the documents on web servers that a schema refers to, without what may be secret."""
    own, asked = {_HERE}, set[str]()
    waiting = [(schema, _HERE)]
    while waiting:  # a recursion would fail in a schema that is nested deep enough
        waiting += _looked(*waiting.pop(), own, asked)
    outside = {each for each in asked - own if not each.startswith(_KNOWN)}
    return tuple(sorted({_shown(each) for each in outside if each.startswith(("http:", "https:"))}))


def _looked(node: Any, base: str, own: set[str], asked: set[str]) -> list[tuple[Any, str]]:
    """Note the document that a schema is, and those that it refers to; return what is below it."""
    if isinstance(node, list):
        return [(each, base) for each in node]
    if not isinstance(node, dict):
        return []
    for keyword in ("id", "$id"):
        base = _resolved(base, node.get(keyword))
    own.add(_document(base))
    if isinstance(node.get("$schema"), str):
        asked.add(_document(node["$schema"]))
    for keyword in _REFERENCES.intersection(node):
        asked.add(_document(_resolved(base, node[keyword])))
    return [(each, base) for keyword in node for each in _below(keyword, node[keyword])]


def _below(keyword: str, value: Any) -> Iterable[Any]:
    """Return the schemas that a keyword contains."""
    if keyword in _DATA:
        return ()
    return value.values() if keyword in _NAMED and isinstance(value, dict) else (value,)


def _resolved(base: str, reference: Any) -> str:
    """Return a reference against a base; the base where it is none."""
    try:
        return urljoin(base, reference) if isinstance(reference, str) else base
    except ValueError:
        return base


def _document(address: str) -> str:
    return address.partition("#")[0]


def _shown(address: str) -> str:
    try:
        parts = urlsplit(address)
    except ValueError:
        return "an address that cannot be read"
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit((parts.scheme, host, parts.path, "", ""))


def _template(obj: Json) -> Json | None:
    """Return name and source of the chart of an object; None if it has none of its own."""
    kinds = {HELM_RELEASE.kind: ("spec", "chart", "spec"), HELM_CHART.kind: ("spec",)}
    found = dig(obj, *kinds.get(str(obj.get("kind")), ("spec", "none")))
    if isinstance(found, dict) and isinstance(found.get("chart"), str):
        return found
    return {"chart": "", "sourceRef": {}} if dig(obj, "spec", "chartRef") else None


def _place(directory: Path, template: Json) -> Path | None:
    """Return the directory of a chart that is in the repository; None if it is not."""
    if dig(template, "sourceRef", "kind") != "GitRepository":
        return None
    return _within(directory, directory / template["chart"].lstrip("/"))


def _within(directory: Path, path: Path) -> Path | None:
    root, place = directory.resolve(), path.resolve()
    there = place.is_relative_to(root) and (place / "Chart.yaml").is_file()
    return place if there else None


def _charts(directory: Path, place: Path) -> Iterator[tuple[str, Any]]:
    """Yield names and schemas of a chart, and of its dependencies as far as they are there."""
    waiting, known = [place], {place}
    while waiting and len(known) <= _MOST_CHARTS:
        current = waiting.pop()
        about = _load(current / "Chart.yaml")
        about = about if isinstance(about, dict) else {}
        schema = _load(current / _FILE)
        if schema is not None:
            yield str(about.get("name") or current.name), schema
        below = [each.parent for each in current.glob("charts/*/Chart.yaml")]
        for each in about.get("dependencies") or ():
            address = each.get("repository") if isinstance(each, dict) else None
            if isinstance(address, str) and address.startswith("file://"):
                below.append(current / address.removeprefix("file://"))
        for path in below:
            inside = _within(directory, path)
            if inside is not None and inside not in known:
                known.add(inside)
                waiting.append(inside)


def _load(path: Path) -> Any:
    """Return the content of a file; None if it is not there or cannot be read.

    The check of the chart itself is not the subject here: Helm tells what is wrong with it.
    """
    try:
        with path.open("rb") as file:
            content = file.read(_LARGEST + 1)
        if len(content) > _LARGEST:
            return None
        return json.loads(content) if path.name == _FILE else document.load(content)
    except (OSError, ValueError, RecursionError):
        return None


def _finding(subject: Subject, message: str) -> Finding:
    of_release = subject.obj.get("kind") == HELM_RELEASE.kind
    return Finding(
        subject=subject,
        field="spec.chart.spec.chart" if of_release else "spec.chart",
        rule=RULE,
        message=message,
        remedy=REMEDY,
        refused=False,
    )
