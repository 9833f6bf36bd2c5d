"""A chart is packaged with its version, values and dependencies, none from outside its root."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.fakes.charts import chart, chart_yaml, inspected, members, package, packaged, write
from toolkit.chart import limits
from toolkit.chart.errors import (
    ChartPackageError,
    ChartReferenceError,
    DependencyBuildError,
    MetadataPatchError,
    ValuesFilesError,
)
from toolkit.chart.wire import Built, Dependency
from toolkit.errors import PenstockError

REMOTE = "dependencies:\n- {name: redis, version: 1.x, repository: https://charts.test}\n"
LOCAL = "dependencies:\n- {name: common, version: ^1, repository: 'file://../common'}\n"


_CHART = {"app/Chart.yaml": chart_yaml()}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return the directory that stands for a source's artifact."""
    return tmp_path / "root"


def built(root: Path, path: str = "app", **options: Any) -> tuple[Built, dict[str, bytes]]:
    """Package the chart at ``path`` and return what came out."""
    out = root.parent / "out.tgz"
    return packaged(root, path, out, **options), members(out.read_bytes())


def test_directory_is_packaged_as_it_is(root: Path) -> None:
    write(root / "app", chart(README_md="r"))

    answer, files = built(root)

    assert (answer.name, answer.version, answer.packaged) == ("podinfo", "6.0.0", True)
    assert files["podinfo/Chart.yaml"] == chart_yaml().encode()
    assert set(files) == {
        *("podinfo/Chart.yaml", "podinfo/README.md", "podinfo/values.yaml"),
        "podinfo/templates/configmap.yaml",
    }


def test_package_stays_what_it_is_to_the_byte(root: Path) -> None:
    data = package(chart())
    write(root, {"charts/app.tgz": data})

    answer, _ = built(root, "charts/app.tgz")

    assert (root.parent / "out.tgz").read_bytes() == data
    assert (answer.version, answer.packaged) == ("6.0.0", False)


@pytest.mark.parametrize("packed", [True, False])
def test_version_gets_metadata(root: Path, *, packed: bool) -> None:
    files = chart(version="v6.0.0-rc.1", extra="appVersion: 1.10\nannotations: {a: 'yes'}\n")
    write(root, {"app": package(files)} if packed else {})
    if not packed:
        write(root / "app", files)

    answer, found = built(root, metadata="abc.7")

    assert (answer.version, answer.original_version) == ("6.0.0-rc.1+abc.7", "v6.0.0-rc.1")
    content = yaml.safe_load(found["podinfo/Chart.yaml"])
    assert content["version"] == "6.0.0-rc.1+abc.7"
    assert content["annotations"] == {"a": "yes"}


def test_metadata_that_no_version_takes_is_refused(root: Path) -> None:
    write(root / "app", chart())

    with pytest.raises(MetadataPatchError, match="the chart 'podinfo'"):
        built(root, metadata="a_b")


def test_values_files_are_meant_from_the_root_of_the_source(root: Path) -> None:
    write(root / "app", chart())
    write(root, {"envs/prod.yaml": "replicas: 3\nimage: {tag: two}\n"})

    answer, files = built(root, values_files=("app/values.yaml", "./envs/prod.yaml"))

    assert yaml.safe_load(files["podinfo/values.yaml"]) == {
        "replicas": 3,
        "image": {"tag": "two", "pull": "Always"},
    }
    assert answer.values_files == ("app/values.yaml", "./envs/prod.yaml")


def test_values_files_of_a_package_lie_in_it(root: Path) -> None:
    write(root, {"app.tgz": package(chart(values_prod_yaml="replicas: 3\n"))})

    _, files = built(root, "app.tgz", values_files=("values.prod.yaml",), values_in_chart=True)

    assert yaml.safe_load(files["podinfo/values.yaml"]) == {"replicas": 3}


def test_values_files_that_are_missing_can_be_ignored(root: Path) -> None:
    write(root / "app", chart())

    answer, files = built(
        root,
        values_files=("gone.yaml", "app/values.yaml"),
        ignore_missing_values_files=True,
    )

    assert answer.values_files == ("app/values.yaml",)
    assert yaml.safe_load(files["podinfo/values.yaml"])["replicas"] == 1


@pytest.mark.parametrize(
    ("above", "merged"),
    [
        ("replicas: 2\nimage: {tag: two}\nnew: [1]\n", {"replicas": 2, "new": [1]}),
        # Helm drops the key when it renders.
        ("replicas: null\n", {"replicas": None, "image": {"tag": "one", "pull": "Always"}}),
        ("image: text\n", {"replicas": 1, "image": "text"}),
        ("# nothing\n", {"replicas": 1}),
        ("a: 12345678901234567890\nb: 1000000\nc: 0777\n", {"a": 12345678901234567890, "c": 511}),
        ("a: {b: 1}\n---\na: {c: 2}\n", {"a": {"b": 1}}),
    ],
)
def test_values_files_are_merged_as_flux_does(
    root: Path, above: str, merged: Mapping[str, object]
) -> None:
    write(root / "app", chart())
    write(root, {"above.yaml": above})

    _, files = built(root, values_files=("app/values.yaml", "above.yaml"))

    assert yaml.safe_load(files["podinfo/values.yaml"]).items() >= merged.items()
    assert b"e+" not in files["podinfo/values.yaml"]


@pytest.mark.parametrize(
    ("content", "names", "message"),
    [
        ("- a\n", ("x.yaml",), "'x.yaml' cannot be read"),
        ("a: [\n", ("x.yaml",), "'x.yaml' cannot be read"),
        ("a: 1\n", ("x.yaml",) * 101, "more than 100"),
        ("a: 1\n", ("gone.yaml",), "'gone.yaml'.*ignoreMissingValuesFiles"),
        ("a: 1\n", ("app",), "there is no file 'app'"),
    ],
)
def test_values_files_that_cannot_be_merged_are_refused(
    root: Path, content: str, names: tuple[str, ...], message: str
) -> None:
    write(root / "app", chart())
    write(root, {"x.yaml": content})

    with pytest.raises(ValuesFilesError, match=message):
        built(root, values_files=names)


@pytest.mark.parametrize("in_chart", [True, False])
@pytest.mark.parametrize("name", ["../secret.yaml", "app/../../secret.yaml", "up/secret.yaml"])
def test_values_file_outside_is_refused(root: Path, name: str, *, in_chart: bool) -> None:
    write(root / "app", chart())
    write(root.parent, {"secret.yaml": "password: x\n"})
    (root / "up").symlink_to(root.parent)

    with pytest.raises(ValuesFilesError, match=r"points outside|there is no file"):
        built(root, values_files=(name,), values_in_chart=in_chart)


@pytest.mark.parametrize("path", ["..", "../other", "up/other", "/../other"])
def test_chart_outside_is_refused(root: Path, path: str) -> None:
    write(root.parent / "other", chart())
    write(root, {"x": ""})
    (root / "up").symlink_to(root.parent)

    with pytest.raises(ChartReferenceError, match="points outside"):
        inspected(root, path)


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({}, "there is no chart at 'app'"),
        ({"app/values.yaml": "a: 1"}, "Chart.yaml is missing"),
        ({"app/Chart.yaml": "- a"}, "cannot unmarshal array"),
        ({"app/Chart.yaml": "a: ["}, "cannot load Chart.yaml: .* line 1"),
        ({"app/Chart.yaml": chart_yaml(name="")}, "name is required"),
        ({"app/Chart.yaml": chart_yaml(name="../a")}, "name .* is invalid"),
        ({"app/Chart.yaml": chart_yaml(name="a/b")}, "name .* is invalid"),
        ({"app/Chart.yaml": chart_yaml(name="..")}, "name .* is not allowed"),
        ({"app/Chart.yaml": chart_yaml(version="latest")}, "version .* is invalid"),
        ({"app/Chart.yaml": chart_yaml(version="{a: b}")}, "cannot unmarshal object"),
        ({"app/Chart.yaml": chart_yaml(extra="type: other\n")}, "type must be application or"),
        ({"app/Chart.yaml": chart_yaml(extra="maintainers: [null]\n")}, "maintainers must not"),
        ({"app/Chart.yaml": chart_yaml(extra="deprecated: 'yes'\n")}, "cannot load Chart.yaml"),
        ({"app/Chart.yaml": chart_yaml(extra="dependencies: {a: b}\n")}, "cannot unmarshal"),
        (
            {"app/Chart.yaml": chart_yaml(extra="dependencies: [{version: '1'}]\n")},
            "dependency without a valid name",
        ),
        (
            {"app/Chart.yaml": chart_yaml(extra="dependencies: [{name: ../a}]\n")},
            "dependency without a valid name",
        ),
        (
            {"app/Chart.yaml": chart_yaml(extra="dependencies: [{name: a}, {name: a}]\n")},
            'more than one dependency with name or alias "a"',
        ),
        (
            {"app/Chart.yaml": chart_yaml(extra="dependencies: [{name: a, alias: 'a b'}]\n")},
            "disallowed characters in the alias",
        ),
        (
            {
                "app/Chart.yaml": chart_yaml(
                    extra="dependencies: [" + ",".join(f"{{name: a{n}}}" for n in range(101)) + "]"
                )
            },
            "more than 100 dependencies",
        ),
        ({"app/Chart.yaml": "#" * (limits.METADATA_BYTES + 1)}, "larger than 1 MiB"),
        # Helm reads the whole chart, and so a HelmRelease would fail on these.
        (_CHART | {"app/values.yaml": "a: ["}, "cannot load values.yaml"),
        (_CHART | {"app/Chart.lock": "generated: soon"}, "cannot load Chart.lock"),
        (_CHART | {"app/charts/README.md": "r"}, "unpacking subchart README.md"),
        (_CHART | {"app/charts/a/Chart.yaml": "name: a\n"}, "unpacking subchart a in podinfo"),
        (_CHART | {"app/charts/a.tgz": "x"}, "'?charts/a.tgz.* is not a gzipped archive"),
    ],
)
def test_what_is_no_chart_is_refused(root: Path, files: Mapping[str, str], message: str) -> None:
    root.mkdir()
    write(root, files)

    with pytest.raises(ChartReferenceError, match=message) as caught:
        inspected(root)

    assert caught.value.reason == "InvalidChartReference"


def test_package_that_cannot_be_read_is_told(root: Path) -> None:
    write(root, {"app": "no package"})

    with pytest.raises(ChartPackageError, match="'app' cannot be read"):
        inspected(root)


def test_inspection_tells_what_has_to_be_fetched(root: Path) -> None:
    write(root / "app", chart(extra=REMOTE))

    answer = inspected(root)

    assert (answer.name, answer.version, answer.is_directory) == ("podinfo", "6.0.0", True)
    assert answer.missing == (
        Dependency(name="redis", version="1.x", repository="https://charts.test"),
    )


@pytest.mark.parametrize(
    "present",
    [
        {"charts/redis/Chart.yaml": chart_yaml("redis", "9.9.9")},
        {"charts/any-name.tgz": package(chart("redis", "1.0.0"), folder="redis")},
    ],
)
def test_dependency_that_is_there_is_not_fetched(
    root: Path, present: Mapping[str, str | bytes]
) -> None:
    write(write(root / "app", chart(extra=REMOTE)), present)

    assert inspected(root).missing == ()
    assert built(root)[0].dependencies == 0


def test_hidden_directory_in_charts_holds_no_dependency(root: Path) -> None:
    write(root / "app", chart(extra=REMOTE) | {"charts/_old/Chart.yaml": chart_yaml("redis")})

    assert len(inspected(root).missing) == 1


def test_package_is_taken_with_the_dependencies_it_has(root: Path) -> None:
    write(root, {"app": package(chart(extra=REMOTE))})

    assert inspected(root).missing == ()


@pytest.mark.parametrize(
    ("locked", "version"),
    [("1.4.2", "1.4.2"), ("2.0.0", "1.x")],
)
def test_lock_pins_a_version_as_long_as_it_fits(root: Path, locked: str, version: str) -> None:
    lock = f"dependencies:\n- name: redis\n  version: {locked}\n  repository: https://charts.test\n"
    write(root / "app", chart(extra=REMOTE) | {"Chart.lock": lock})

    assert inspected(root).missing[0].version == version


def test_chart_of_old_form_has_its_dependencies_elsewhere(root: Path) -> None:
    files = {"Chart.yaml": chart_yaml().replace("v2", "v1"), "requirements.yaml": REMOTE}
    write(root / "app", files)

    assert [item.name for item in inspected(root).missing] == ["redis"]


def test_fetched_dependency_becomes_part_of_the_chart(root: Path, tmp_path: Path) -> None:
    write(root / "app", chart(extra=REMOTE))
    write(tmp_path, {"redis.tgz": package(chart("redis", "1.2.3"), folder="redis")})

    answer, files = built(root, fetched=(str(tmp_path / "redis.tgz"),))

    assert answer.dependencies == 1
    assert files["podinfo/charts/redis/Chart.yaml"] == chart_yaml("redis", "1.2.3").encode()


@pytest.mark.parametrize(
    ("name", "version", "message"),
    [
        ("redis", "2.0.0", "in version '2.0.0', which is not in '1.x'"),
        ("mysql", "1.0.0", "instead of the dependency 'redis' there is a chart 'mysql'"),
    ],
)
def test_fetched_dependency_must_be_what_was_asked_for(
    root: Path, tmp_path: Path, name: str, version: str, message: str
) -> None:
    write(root / "app", chart(extra=REMOTE))
    write(tmp_path, {"x.tgz": package(chart(name, version))})

    with pytest.raises(DependencyBuildError, match=message):
        built(root, fetched=(str(tmp_path / "x.tgz"),))


def test_dependency_in_the_same_source_is_taken_from_there(root: Path) -> None:
    write(root / "app", chart(extra=LOCAL))
    write(root / "common", chart("common", "1.5.0"))

    answer, files = built(root)

    assert inspected(root).missing == ()
    assert answer.dependencies == 1
    assert files["podinfo/charts/common/values.yaml"]


def test_two_dependencies_of_one_name_get_directories_of_their_own(root: Path) -> None:
    both = (
        "dependencies:\n- {name: c, alias: a, version: 1, repository: 'file://../c1'}\n"
        "- {name: c, alias: b, version: 2, repository: 'file://../c2'}\n"
    )
    write(root / "app", chart(extra=both))
    write(root / "c1", chart("c", "1.0.0"))
    write(root / "c2", chart("c", "2.0.0"))

    _, files = built(root)

    assert files["podinfo/charts/c/Chart.yaml"] == chart_yaml("c", "1.0.0").encode()
    assert files["podinfo/charts/c-2/Chart.yaml"] == chart_yaml("c", "2.0.0").encode()


@pytest.mark.parametrize(
    ("repository", "message"),
    [
        ("file://../../outside", "points outside the source"),
        ("file:///etc", "is not in the source"),
        ("file://../up/outside", "points outside the source"),
        ("file://../gone", "is not in the source"),
        ("file://.", "is the chart itself"),
        ("file://..", "is the chart itself, or contains it"),
        ("file://../v2", "in version '2.0.0'"),
        ("file://../other", "there is a chart 'other'"),
        ("file://../empty", "is not a chart"),
        ("file://../broken.tgz", "cannot be read"),
        ("", "names no repository"),
    ],
)
def test_dependency_that_is_not_in_the_source_is_refused(
    root: Path, repository: str, message: str
) -> None:
    extra = f"dependencies:\n- {{name: common, version: ^1, repository: '{repository}'}}\n"
    write(root / "app", chart(extra=extra))
    write(root.parent / "outside", chart("common", "1.0.0"))
    write(root / "v2", chart("common", "2.0.0"))
    write(root / "other", chart("other", "1.0.0"))
    write(root, {"empty/x": "", "broken.tgz": "x"})
    (root / "up").symlink_to(root.parent)

    with pytest.raises(DependencyBuildError, match=message) as caught:
        built(root)

    assert caught.value.reason == "DependencyBuildError"


def test_charts_that_depend_on_each_other_end(root: Path) -> None:
    other = "dependencies:\n- {name: podinfo, repository: 'file://../app'}\n"
    write(root / "app", chart(extra=LOCAL))
    write(root / "common", chart("common", "1.0.0", extra=other))

    answer, files = built(root)

    assert answer.dependencies == 1
    assert not any("common/charts" in name for name in files)


def test_dependencies_that_make_a_chart_too_large_are_refused(root: Path) -> None:
    lines = [f"- {{name: d{n}, repository: 'file://../d{n}'}}\n" for n in range(30)]
    write(root / "app", chart(extra="dependencies:\n" + "".join(lines)))
    for number in range(30):
        write(root / f"d{number}", chart(f"d{number}") | {"a": bytes(limits.FILE_BYTES - 1)})

    with pytest.raises(DependencyBuildError, match="with its dependencies"):
        built(root)


def test_package_that_comes_out_too_large_is_refused(root: Path) -> None:
    noise = os.urandom(limits.FILE_BYTES - 1)
    write(root / "app", chart() | {"a": noise, "b": noise[::-1], "c": noise[1:]})

    with pytest.raises(ChartPackageError, match="larger than 10 MiB"):
        built(root)

    assert not (root.parent / "out.tgz").exists()


def test_every_failure_has_a_reason_that_flux_has() -> None:
    reasons = {
        error.default_reason
        for error in (
            *(ChartReferenceError, MetadataPatchError, ValuesFilesError),
            *(ChartPackageError, DependencyBuildError),
        )
        if issubclass(error, PenstockError)
    }

    assert reasons == {
        *("InvalidChartReference", "MetadataPatchError", "ValuesFilesError"),
        *("ChartPackageError", "DependencyBuildError"),
    }
