"""Charts with schemas on other hosts are named before a move, and nothing is fetched."""

import json
from pathlib import Path
from typing import Any

import pytest

from cli.check import schemas
from cli.check.subjects import Subject
from toolkit.objects import Json

COMMON = "https://schemas.example.org/common/values.schema.json"
DRAFT = "https://json-schema.org/draft/2020-12/schema"


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"properties": {"a": {"$ref": COMMON}}}, [COMMON]),
        ({"properties": {"a": {"$ref": f"{COMMON}#/$defs/b"}, "b": {"$ref": COMMON}}}, [COMMON]),
        ({"allOf": [{"items": {"$dynamicRef": COMMON}}]}, [COMMON]),
        # relative to what the schema says that it is
        ({"$id": "https://a.example/x/y.json", "$ref": "z.json"}, ["https://a.example/x/z.json"]),
        ({"$schema": "https://a.example/dialect"}, ["https://a.example/dialect"]),
        # no password is shown
        ({"$ref": "https://u:p@a.example/s?token=x"}, ["https://a.example/s"]),
        # within itself
        ({"$schema": DRAFT, "$ref": "#/$defs/a", "$defs": {"a": True}}, []),
        ({"$id": COMMON, "$ref": f"{COMMON}#/$defs/a"}, []),
        ({"$defs": {"a": {"$id": COMMON}}, "$ref": COMMON}, []),
        ({"$ref": DRAFT}, []),
        # files are the engine's to refuse
        ({"$ref": "file:///etc/passwd"}, []),
        ({"$ref": "other.json"}, []),
        # data and names
        ({"default": {"$ref": COMMON}, "enum": [{"$ref": COMMON}]}, []),
        ({"properties": {"$ref": {"type": "string"}, "default": {"$ref": COMMON}}}, [COMMON]),
        ({"$ref": 1, "$id": 2}, []),
        ({"$ref": "https://[broken"}, []),
        ({"$schema": "https://[broken"}, ["an address that cannot be read"]),
        (True, []),
        (None, []),
    ],
)
def test_references_to_web_servers_are_found(schema: Any, expected: list[str]) -> None:
    assert list(schemas.remote(schema)) == expected


def test_schema_may_be_nested_to_any_depth() -> None:
    schema: Any = {"$ref": COMMON}
    for _ in range(5_000):
        schema = {"items": [schema]}

    assert schemas.remote(schema) == (COMMON,)


def release(chart: str, source: str = "GitRepository", **spec: Any) -> Subject:
    template = {"chart": chart, "sourceRef": {"kind": source, "name": "fleet"}}
    return subject("HelmRelease", {"chart": {"spec": template}} | spec)


def subject(kind: str, spec: Json) -> Subject:
    group = "helm.toolkit.fluxcd.io/v2" if kind == "HelmRelease" else "source.toolkit.fluxcd.io/v1"
    metadata = {"name": "app", "namespace": "shop"}
    return Subject(obj={"apiVersion": group, "kind": kind, "metadata": metadata, "spec": spec})


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    root = tmp_path / "fleet"
    written(root / "charts/plain", "plain", {"type": "object"})
    written(root / "charts/direct", "direct", {"$ref": COMMON})
    written(root / "charts/vendored", "vendored", None)
    written(root / "charts/vendored/charts/common", "common", {"$ref": COMMON})
    written(root / "charts/beside", "beside", None, "file://../direct", "file://../beside")
    written(tmp_path / "outside", "outside", {"$ref": COMMON})
    return root


def written(path: Path, name: str, schema: Any, *dependencies: str) -> None:
    path.mkdir(parents=True)
    listed = [{"name": "x", "version": "1", "repository": each} for each in dependencies]
    about = {"apiVersion": "v2", "name": name, "version": "1.0.0", "dependencies": listed}
    (path / "Chart.yaml").write_text(json.dumps(about))
    if schema is not None:
        (path / "values.schema.json").write_text(json.dumps(schema))


@pytest.mark.parametrize(
    ("chart", "named"),
    [
        ("charts/plain", None),
        ("./charts/direct", "direct"),
        ("charts/vendored", "common"),
        ("charts/beside", "direct"),
    ],
)
def test_charts_in_the_repository_are_read(repository: Path, chart: str, named: str | None) -> None:
    found = schemas.read(repository, [release(chart)])

    assert found.elsewhere == []
    assert [(each.refused, each.rule, each.field) for each in found.findings] == (
        [(False, "remote-schema", "spec.chart.spec.chart")] if named else []
    )
    for each in found.findings:
        assert each.message.startswith(
            f"values.schema.json of chart '{named}' refers to '{COMMON}'"
        )


@pytest.mark.parametrize(
    "asked",
    [
        release("app-template", "HelmRepository"),
        release("charts/absent"),
        release("../outside"),
        subject("HelmRelease", {"chartRef": {"kind": "OCIRepository", "name": "app"}}),
        subject("HelmChart", {"chart": "x", "sourceRef": {"kind": "HelmRepository", "name": "y"}}),
    ],
)
def test_charts_elsewhere_are_named_as_not_checked(repository: Path, asked: Subject) -> None:
    found = schemas.read(repository, [asked])

    assert (found.findings, found.elsewhere) == ([], [asked])


def test_link_that_leaves_the_repository_is_not_followed(repository: Path) -> None:
    (repository / "charts/link").symlink_to(repository.parent / "outside")

    found = schemas.read(repository, [release("charts/link")])

    assert found.findings == []


@pytest.mark.parametrize("content", [b"{", b"[" * 100_000, b"\xff", b""])
def test_schema_that_cannot_be_read_is_left_to_helm(repository: Path, content: bytes) -> None:
    (repository / "charts/direct/values.schema.json").write_bytes(content)

    assert schemas.read(repository, [release("charts/direct")]).findings == []


def test_other_objects_have_no_chart(repository: Path) -> None:
    found = schemas.read(repository, [subject("HelmRelease", {}), subject("GitRepository", {})])

    assert (found.findings, found.elsewhere) == ([], [])
