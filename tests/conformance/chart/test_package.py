"""What we package is what ``helm package`` does, and what we merge is what helm reads."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.fakes.chartrepository import ChartRepository
from tests.fakes.charts import chart, inspected, members, packaged, write
from tests.tools.helmcli import Helm, beside
from toolkit.chart import document, repository
from toolkit.chart.errors import ChartReferenceError, DependencyBuildError
from toolkit.chart.wire import Found
from toolkit.remote.http.http import Endpoint, Http

SHOW = "{{ .Values | toRawJson }}\n"


def ours(root: Path, path: str, out: Path, **options: Any) -> Path:
    """Package a chart with our own code."""
    packaged(root, path, out, **options)
    return out


def theirs(helm: Helm, chart: Path, into: Path) -> Path:
    """Package a chart with helm."""
    into.mkdir()
    helm("package", chart, "--destination", into)
    return next(into.iterdir())


def values(helm: Helm, path: Path, *arguments: str | Path) -> Any:
    """Return the values that helm renders a chart with, whose template prints them."""
    lines = helm("template", "x", path, *arguments).splitlines()
    return json.loads(next(line for line in lines if line.startswith("{")))


def comparable(data: bytes) -> dict[str, Any]:
    """Return the content of a package, descriptions of charts as what they say."""
    return {
        name: yaml.safe_load(content) if name.endswith("Chart.yaml") else content
        for name, content in members(data).items()
    }


CHART = {
    "Chart.yaml": "apiVersion: v2\nname: app\nversion: 1.2.3\nappVersion: '1.10'\n"
    "type: application\nkeywords: [a, b]\nannotations: {x: 'yes'}\n"
    "maintainers: [{name: me, email: me@x.test}]\n",
    "values.yaml": "# a comment\na: 1\n",
    "values.schema.json": "{}",
    "templates/cm.yaml": SHOW,
    "templates/_helpers.tpl": "{{/* nothing */}}",
    "templates/.hidden": "x",
    "templates/tests/a.yaml": "",
    "crds/a.yaml": "kind: CustomResourceDefinition\n",
    "files/deep/down/a.bin": "\x00\x01",
    "README.md": "r",
    "LICENSE": "l",
    ".dotfile": "d",
    "x.bak": "x",
}


def test_directory_becomes_the_same_chart(helm: Helm, tmp_path: Path) -> None:
    write(tmp_path / "app", CHART | {".helmignore": "*.bak\nfiles/deep/\n"})

    out = ours(tmp_path, "app", tmp_path / "ours.tgz")

    expected = theirs(helm, tmp_path / "app", tmp_path / "theirs").read_bytes()
    assert comparable(out.read_bytes()) == comparable(expected)


@pytest.mark.parametrize(
    "rules",
    [
        *("*.md", "/README.md", "/files", "files/", "files/deep", "files/deep/down/a.bin", "a.bin"),
        *("files/*", "*/deep", "/*.bak", "[Rx]*", "????.??", "!README.md", "!*.yaml", "down/"),
        *("# *.md\n\n  x.bak  ", "\\*.md", "templates/tests/", ".*", "values.schema.json"),
        *("crds/*.yaml\n!a.yaml", "L*E", "/files/deep/*"),
    ],
)
def test_ignore_rules_leave_the_same_files(helm: Helm, tmp_path: Path, rules: str) -> None:
    write(tmp_path / "app", CHART | {".helmignore": rules})
    try:
        expected = theirs(helm, tmp_path / "app", tmp_path / "theirs").read_bytes()
    except AssertionError:
        with pytest.raises(ChartReferenceError):
            ours(tmp_path, "app", tmp_path / "ours.tgz")
        return

    out = ours(tmp_path, "app", tmp_path / "ours.tgz")

    assert set(members(out.read_bytes())) == set(members(expected))


def test_version_with_metadata_is_one_that_helm_reads(helm: Helm, tmp_path: Path) -> None:
    write(tmp_path / "app", CHART)

    out = ours(tmp_path, "app", tmp_path / "ours.tgz", metadata="0a1b2c3d4e5f.7")

    shown = yaml.safe_load(helm("show", "chart", out))
    assert shown == yaml.safe_load(CHART["Chart.yaml"]) | {"version": "1.2.3+0a1b2c3d4e5f.7"}


VALUES = """\
booleans: [yes, no, on, Off, TRUE, y, n, 'yes']
numbers: [0777, 0o17, 0x1F, 0b11, 1_000, 1e3, .5, 1., +12, -0, 08, 0.10, 1e400, 1000000]
strings: [2001-01-01, '12:30:45', 1:20, =, "12", "\\u00e9", !!str 12, !custom foo]
binary: !!binary aGVsbG8=
block: |
  a
   b

folded: >-
  a
  b
base: &base {a: 1, b: {c: 2}}
merged:
  <<: *base
  a: 3
again: *base
on: 1
y: {n: 1}
1: one
1.50: float
0x10: hex
1.5e10: large
empty: {}
none: []
? long key
: value
"""


def test_values_are_read_as_helm_reads_them(helm: Helm, tmp_path: Path) -> None:
    write(tmp_path / "app", CHART | {"values.yaml": VALUES})

    expected = values(helm, tmp_path / "app")

    assert document.load(VALUES.encode()) == expected


@pytest.mark.parametrize(
    "overlay",
    [
        "booleans: []\nbase: {b: {d: 4}}\nnew: {x: [1]}\n",
        "base: null\nblock: ~\n",
        "base: text\nstrings: {a: b}\n",
        "",
    ],
)
def test_merged_values_are_what_helm_makes_of_the_files(
    helm: Helm, tmp_path: Path, overlay: str
) -> None:
    write(tmp_path / "app", CHART | {"values.yaml": VALUES, "over.yaml": overlay})
    expected = values(helm, tmp_path / "app", "-f", tmp_path / "app/over.yaml")

    out = ours(
        tmp_path,
        "app",
        tmp_path / "ours.tgz",
        values_files=("app/values.yaml", "app/over.yaml"),
    )

    assert values(helm, out) == expected


async def test_dependencies_make_the_chart_that_helm_makes(
    helm: Helm, tmp_path: Path, server: ChartRepository, http: Http
) -> None:
    for version in ("1.0.0", "1.4.0", "2.0.0"):
        server.add("redis", version, files=chart("redis", version, templates__v_yaml=SHOW))
    listed = f"""dependencies:
- {{name: redis, version: ^1, repository: '{server.url}'}}
- {{name: common, version: '>=0', repository: 'file://../lib/common', alias: shared}}
- {{name: present, version: 1.x}}
"""
    app = chart("app", "1.0.0", extra=listed) | {"templates/cm.yaml": SHOW}
    write(tmp_path / "root/app", app)
    write(tmp_path / "root/app/charts/present", chart("present", "1.0.0"))
    write(tmp_path / "root/lib/common", chart("common", "0.1.0", templates__v_yaml=SHOW))
    asked = inspected(tmp_path / "root").missing
    found = Found(name="redis", version="1.4.0", urls=("redis-1.4.0.tgz",), digest="")
    await repository.download_chart(
        http, server.url, found, Endpoint(plain_http=True), tmp_path / "redis.tgz", timeout=10
    )

    out = ours(
        tmp_path / "root", "app", tmp_path / "ours.tgz", fetched=(str(tmp_path / "redis.tgz"),)
    )

    await beside(helm, "dependency", "update", tmp_path / "root/app")
    expected = theirs(helm, tmp_path / "root/app", tmp_path / "theirs")
    assert [item.name for item in asked] == ["redis"]
    assert rendered(helm, out) == rendered(helm, expected)


def rendered(helm: Helm, path: Path) -> dict[str, list[str]]:
    """Return what helm renders a package to, by the template that it came from."""
    found: dict[str, list[str]] = {}
    for part in helm("template", "x", path).split("---\n"):
        first, _, rest = part.partition("\n")
        if first:
            found.setdefault(first, []).append(rest)
    return {name: sorted(parts) for name, parts in found.items()}


def test_lock_is_followed(helm: Helm, tmp_path: Path) -> None:
    extra = "dependencies:\n- {name: common, version: '>=0', repository: 'file://../common'}\n"
    write(tmp_path / "app", chart("app", "1.0.0", extra=extra))
    write(tmp_path / "common", chart("common", "0.1.0"))
    helm("dependency", "update", tmp_path / "app")
    (tmp_path / "app/charts/common-0.1.0.tgz").rename(tmp_path / "packed.tgz")
    write(tmp_path / "common", chart("common", "0.2.0"))

    with pytest.raises(DependencyBuildError, match=r"version '0.2.0', which is not in '0.1.0'"):
        ours(tmp_path, "app", tmp_path / "ours.tgz")
