"""Packages and directories are read with suspicion, and written the same for the same content."""

import gzip
import io
import tarfile
from pathlib import Path

import pytest

from tests.fakes.charts import chart, chart_yaml, inspected, members, package, packaged, write
from toolkit.chart import limits
from toolkit.chart.errors import ChartPackageError, ChartReferenceError


def tarball(*infos: tarfile.TarInfo, data: bytes = b"") -> bytes:
    """Return a package with a Chart.yaml and these entries."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        content = chart_yaml().encode()
        first = tarfile.TarInfo("app/Chart.yaml")
        first.size = len(content)
        tar.addfile(first, io.BytesIO(content))
        for info in infos:
            info.size = len(data) if info.isfile() else 0
            tar.addfile(info, io.BytesIO(data) if info.isfile() else None)
    return gzip.compress(out.getvalue(), 1, mtime=0)


def files_of(root: Path, path: str) -> dict[str, bytes]:
    """Return the files that are read of a chart: those that it is packaged with."""
    out = root / "out.tgz"
    packaged(root, path, out, metadata="x")
    found = members(out.read_bytes())
    return {name.partition("/")[2]: data for name, data in found.items()}


def test_content_alone_decides_what_is_written(tmp_path: Path) -> None:
    files = chart() | {"charts/b/Chart.yaml": chart_yaml("b"), "charts/a/Chart.yaml": chart_yaml()}
    write(tmp_path / "one", files)
    write(tmp_path / "other", dict(reversed(files.items())))
    (tmp_path / "other/values.yaml").chmod(0o600)

    packaged(tmp_path, "one", tmp_path / "1.tgz")
    packaged(tmp_path, "other", tmp_path / "2.tgz")

    data = (tmp_path / "1.tgz").read_bytes()
    assert data == (tmp_path / "2.tgz").read_bytes()
    assert list(members(data)) == [
        *("podinfo/Chart.yaml", "podinfo/charts/a/Chart.yaml", "podinfo/charts/b/Chart.yaml"),
        *("podinfo/templates/configmap.yaml", "podinfo/values.yaml"),
    ]


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    write(tmp_path / "app", chart() | {"x" * 150 + "/é.txt": "long", "empty": ""})

    packaged(tmp_path, "app", tmp_path / "1.tgz")
    found = files_of(tmp_path, "1.tgz")

    assert found["x" * 150 + "/é.txt"] == b"long"
    assert found["empty"] == b""


def test_name_of_the_folder_and_marks_of_byte_order_do_not_matter(tmp_path: Path) -> None:
    files = chart() | {"values.yaml": "\ufeffa: 1"}
    write(tmp_path, {"app.tgz": package(files, folder="any")})
    write(tmp_path / "app", files)

    assert files_of(tmp_path, "app.tgz")["values.yaml"] == b"a: 1"
    assert files_of(tmp_path, "app")["values.yaml"] == b"a: 1"


def test_links_are_not_followed(tmp_path: Path) -> None:
    link = tarfile.TarInfo("app/values.yaml")
    link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
    write(tmp_path, {"app.tgz": tarball(link), "secret": "s: 1"})
    directory = write(tmp_path / "app", {"Chart.yaml": chart_yaml()})
    (directory / "values.yaml").symlink_to(tmp_path / "secret")
    (directory / "README.md").symlink_to("Chart.yaml")
    (directory / "up").symlink_to(tmp_path)

    assert set(files_of(tmp_path, "app.tgz")) == {"Chart.yaml"}
    assert set(files_of(tmp_path, "app")) == {"Chart.yaml"}


def test_files_are_taken_that_no_rule_of_helmignore_leaves_out(tmp_path: Path) -> None:
    rules = "# tests\nci/\n*.bak\n"
    left_out = {"ci/values.yaml": "x", "a.bak": "x", "templates/.hidden": "x"}
    taken = {"Chart.yaml": chart_yaml(), ".helmignore": rules, "templates/a.yaml": "t"}
    write(tmp_path / "app", taken | left_out)

    assert set(files_of(tmp_path, "app")) == set(taken)


@pytest.mark.parametrize("rules", ["a/**/b", "[a", "a\n" * 2000])
def test_rules_that_helm_does_not_take_are_refused(tmp_path: Path, rules: str) -> None:
    write(tmp_path / "app", chart() | {".helmignore": rules})

    with pytest.raises(ChartPackageError, match=r"\.helmignore"):
        inspected(tmp_path)


def _link(name: str, kind: bytes) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, "app/Chart.yaml"
    return info


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (tarball(tarfile.TarInfo("app/../../etc/passwd"), data=b"x"), "points outside"),
        (tarball(tarfile.TarInfo("../app/Chart.yaml"), data=b"x"), "points outside"),
        (tarball(tarfile.TarInfo("/app/Chart.yaml"), data=b"x"), "points outside"),
        (tarball(tarfile.TarInfo("app\\..\\..\\x"), data=b"x"), "points outside"),
        (tarball(tarfile.TarInfo("Chart.yaml"), data=b"x"), "in no directory"),
        (tarball(tarfile.TarInfo("app/" + "d/" * 70 + "f"), data=b"x"), "deeper than"),
        (tarball(_link("app/values.yaml", tarfile.LNKTYPE)), "not allowed"),
        (tarball(_link("app/values.yaml", tarfile.CHRTYPE)), "not allowed"),
        (tarball(_link("app/values.yaml", tarfile.FIFOTYPE)), "not allowed"),
        (tarball(tarfile.TarInfo("app/a"), tarfile.TarInfo("app/./a"), data=b"x"), "occurs twice"),
        (b"", "not a gzipped archive"),
        (b"<html>", "not a gzipped archive"),
        (gzip.compress(b"text", mtime=0), "cannot be read"),
        (gzip.compress(bytes(10_240), mtime=0), "has no files"),
        (package({"a": "b"})[:50], "cannot be read"),
    ],
)
def test_what_no_package_has_is_refused(tmp_path: Path, data: bytes, message: str) -> None:
    write(tmp_path, {"app.tgz": data})

    with pytest.raises(ChartPackageError, match=message):
        inspected(tmp_path, "app.tgz")


def test_sizes_are_bounded_before_anything_is_held(tmp_path: Path) -> None:
    names = [tarfile.TarInfo(f"app/{number}") for number in range(limits.FILES + 1)]
    large = tarball(tarfile.TarInfo("app/a"), data=bytes(limits.FILE_BYTES + 1))
    bomb = tarball(*names[:21], data=bytes(limits.FILE_BYTES))
    write(tmp_path, {"large": large, "bomb": bomb, "many": tarball(*names)})
    for path, size in (("big", limits.CHART_BYTES + 1), ("app/large", limits.FILE_BYTES + 1)):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        with (tmp_path / path).open("wb") as file:
            file.truncate(size)

    for path, message in {
        "large": '"a" is larger than 5 MiB',
        "bomb": "larger than 100 MiB",
        "many": "more than 10000 files",
        "big": "larger than 10 MiB",
        "app": '"large" is larger than 5 MiB',
    }.items():
        with pytest.raises(ChartPackageError, match=message):
            inspected(tmp_path, path)


def test_packages_in_packages_end(tmp_path: Path) -> None:
    data = package(chart())
    for _ in range(limits.PATH_DEPTH + 1):
        data = package({"Chart.yaml": chart_yaml(), "charts/a.tgz": data})
    write(tmp_path, {"app.tgz": data})

    with pytest.raises(ChartReferenceError, match="packages in packages"):
        inspected(tmp_path, "app.tgz")


@pytest.mark.parametrize("place", ["charts/a.tgz", "charts/a/charts/b.tgz"])
def test_packages_of_subcharts_count_as_files_of_the_chart(tmp_path: Path, place: str) -> None:
    # Each of them is within its bounds; Helm would unpack them all.
    infos = [tarfile.TarInfo(f"app/{number}") for number in range(11)]
    half = tarball(*infos, data=bytes(limits.FILE_BYTES))
    below = {"Chart.yaml": chart_yaml("a"), place.removeprefix("charts/a/"): half}
    files = chart() | ({f"charts/a/{name}": data for name, data in below.items()})
    write(tmp_path / "app", files | {place: half, "charts/z.tgz": half})

    with pytest.raises(ChartReferenceError, match="larger than 100 MiB"):
        inspected(tmp_path)
