"""Every duration in a spec has a floor and a ceiling; a new one needs a row."""

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

import crds
from controllers.helm.deciding import policies
from controllers.image import imagepolicy
from crds import meta, schema
from crds.kind import Kind

Seconds = Callable[[Any], float | None]
ROOT = Path(__file__).parents[3]


def interval(obj: Any) -> float:
    return float(obj.spec.interval_seconds)


def timeout(obj: Any) -> float:
    return float(obj.spec.timeout_seconds)


def action(name: str) -> Seconds:
    return lambda obj: policies.timeout_seconds(obj, name)


def retry(name: Any) -> Seconds:
    return lambda obj: policies.retry_after(obj, name)


SOURCE: Mapping[str, Seconds] = {"interval": interval, "timeout": timeout}
READ: Mapping[str, Mapping[str, Seconds | None]] = {
    # None: Penstock does not read the field; nothing may.
    "GitRepository": SOURCE,
    "OCIRepository": SOURCE,
    "Bucket": SOURCE,
    "HelmRepository": SOURCE,
    "HelmChart": {"interval": interval},
    "Kustomization": {
        **SOURCE,
        "retryInterval": lambda obj: obj.spec.retry_seconds,
    },
    "HelmRelease": {
        **SOURCE,
        "chart.spec.interval": None,  # the HelmChart's
        **{f"{name}.timeout": action(name) for name in ("install", "upgrade", "test")},
        **{f"{name}.timeout": action(name) for name in ("rollback", "uninstall")},
        **{f"{name}.strategy.retryInterval": retry(name) for name in ("install", "upgrade")},
    },
    "ImageRepository": SOURCE,
    "ImagePolicy": {"interval": lambda obj: imagepolicy._after(obj, None)},
    "ImageUpdateAutomation": {"interval": interval},
    "Receiver": {"interval": interval},
    "Provider": {"interval": None, "timeout": timeout},
}
NEEDED: Mapping[str, Any] = {
    # What the field needs beside it.
    "install.strategy.retryInterval": {"install": {"strategy": {"name": "RetryOnFailure"}}},
    "upgrade.strategy.retryInterval": {"upgrade": {"strategy": {"name": "RetryOnFailure"}}},
    "interval": {"digestReflectionPolicy": "Always"},
}
TEXTS = ("x", "https://x", "oci://x/y", "1m")
ROWS = [
    pytest.param(kind, path, read, id=f"{kind}-{path}")
    for kind, fields in READ.items()
    for path, read in fields.items()
    if read
]


def durations(node: Mapping[str, Any], path: str = "") -> Iterator[str]:
    if node.get("pattern") in {meta.DURATION, meta.SHORT_DURATION}:
        yield path
    for name, child in node.get("properties", {}).items():
        yield from durations(child, f"{path}.{name}" if path else name)
    if "items" in node:
        yield from durations(node["items"], f"{path}[]")


def with_duration(kind: Kind[Any], path: str, text: str) -> Any:
    """Return an object of which only this field, and what it needs, is written."""
    spec: dict[str, Any] = {"interval": "10m", **NEEDED.get(path, {})}
    *parents, last = path.split(".")
    at = spec
    for part in parents:
        at[part] = dict(at.get(part, {}))
        at = at[part]
    at[last] = text
    body = {"spec": _with_required(kind.model, spec)}
    return msgspec.convert(body, kind.model)


def _with_required(model: Any, spec: dict[str, Any]) -> dict[str, Any]:
    known = schema.annotated(model)["properties"]["spec"]
    samples = {"object": {"kind": "GitRepository", "name": "x"}, "array": [], "boolean": True}
    for name in known.get("required", []):
        field = known["properties"][name]
        text = next(each for each in TEXTS if re.search(_pattern(field), each))
        spec.setdefault(name, samples.get(field["type"], field.get("enum", [text])[0]))
    return spec


def _pattern(field: Mapping[str, Any]) -> str:
    return str(field.get("pattern", "") if field["type"] == "string" else "")


@pytest.mark.parametrize("kind", crds.KINDS, ids=lambda kind: kind.kind)
def test_every_duration_has_a_row(kind: Kind[Any]) -> None:
    found = set(durations(schema.annotated(kind.model)["properties"].get("spec", {})))

    assert found == set(READ.get(kind.kind, {}))


@pytest.mark.parametrize("text", ["0s", "0ms", "0.001ms", "0.0000000001m", "0.0m0ms"])
@pytest.mark.parametrize(("kind", "path", "read"), ROWS)
def test_no_duration_is_below_its_floor(kind: str, path: str, read: Seconds, text: str) -> None:
    (row,) = [each for each in crds.KINDS if each.kind == kind]
    least = meta.SHORTEST_TIMEOUT if path.endswith("timeout") else meta.SHORTEST_INTERVAL

    seconds = read(with_duration(row, path, text))

    assert seconds is not None
    assert seconds >= least


@pytest.mark.parametrize("text", ["9" * 400 + "m", "9" * 30 + "m", "2562048000m"])
@pytest.mark.parametrize(("kind", "path", "read"), ROWS)
def test_no_duration_is_endless(kind: str, path: str, read: Seconds, text: str) -> None:
    (row,) = [each for each in crds.KINDS if each.kind == kind]

    seconds = read(with_duration(row, path, text))

    assert seconds is not None
    assert seconds <= meta.LONGEST
    assert meta.format_duration(seconds)


def test_controllers_read_durations_of_specs_by_the_floors_alone() -> None:
    direct = [
        path.relative_to(ROOT).as_posix()
        for folder in ("controllers", "toolkit")
        for path in (ROOT / folder).rglob("*.py")
        if re.search(r"\bparse_duration\b", path.read_text())
    ]

    assert direct == ["toolkit/kube/flags.py"]
