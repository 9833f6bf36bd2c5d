"""Packages are read with suspicion, and written the same for the same content."""

import gzip
import io
import tarfile
from pathlib import Path

import pytest

from tests.fakes.charts import members, package
from toolkit.chart import limits
from toolkit.chart import package as packages
from toolkit.chart.package import PackageError


def tarball(*infos: tarfile.TarInfo, data: bytes = b"") -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for info in infos:
            info.size = len(data) if info.isfile() else 0
            tar.addfile(info, io.BytesIO(data) if info.isfile() else None)
    return gzip.compress(out.getvalue(), mtime=0)


def test_content_alone_decides_what_is_written(tmp_path: Path) -> None:
    files = {"templates/b.yaml": b"b", "Chart.yaml": b"c", "values.yaml": b"v", "a.txt": b"a"}

    packages.write("app", files, tmp_path / "one")
    packages.write("app", dict(reversed(files.items())), tmp_path / "other")

    data = (tmp_path / "one").read_bytes()
    assert data == (tmp_path / "other").read_bytes()
    assert list(members(data)) == [
        *("app/Chart.yaml", "app/a.txt", "app/templates/b.yaml", "app/values.yaml")
    ]


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    files = {"Chart.yaml": b"c", "x" * 150 + "/é.txt": b"long", "empty": b""}

    packages.write("app", files, tmp_path / "out")

    assert packages.load(tmp_path / "out") == files


def test_name_of_the_folder_does_not_matter() -> None:
    assert packages.loads(package({"Chart.yaml": "c"}, folder="any")) == {"Chart.yaml": b"c"}


def test_marks_of_byte_order_are_dropped() -> None:
    assert packages.loads(package({"values.yaml": "\ufeffa: 1"})) == {"values.yaml": b"a: 1"}


def test_links_are_not_followed() -> None:
    link, file = tarfile.TarInfo("app/values.yaml"), tarfile.TarInfo("app/Chart.yaml")
    link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"

    assert packages.loads(tarball(link, file, data=b"x")) == {"Chart.yaml": b"x"}


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("app/../../etc/passwd", "leads out"),
        ("../app/Chart.yaml", "leads out"),
        ("/app/Chart.yaml", "leads out"),
        ("app\\..\\..\\x", "leads out"),
        ("Chart.yaml", "in no directory"),
        ("app/" + "d/" * 70 + "f", "deeper than"),
    ],
)
def test_path_that_leads_out_is_refused(name: str, message: str) -> None:
    with pytest.raises(PackageError, match=message):
        packages.loads(tarball(tarfile.TarInfo(name), data=b"x"))


@pytest.mark.parametrize("kind", [tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE])
def test_what_is_no_file_is_refused(kind: bytes) -> None:
    info = tarfile.TarInfo("app/values.yaml")
    info.type, info.linkname = kind, "app/Chart.yaml"

    with pytest.raises(PackageError, match="not allowed"):
        packages.loads(tarball(info))


def test_file_that_occurs_twice_is_refused() -> None:
    with pytest.raises(PackageError, match="occurs twice"):
        packages.loads(tarball(tarfile.TarInfo("app/a"), tarfile.TarInfo("app/./a"), data=b"x"))


def test_file_of_more_than_5_mib_is_refused_before_it_is_read() -> None:
    with pytest.raises(PackageError, match="larger than 5 MiB"):
        packages.loads(tarball(tarfile.TarInfo("app/a"), data=bytes(limits.FILE_BYTES + 1)))


def test_bomb_is_refused_while_it_is_inflated() -> None:
    infos = [tarfile.TarInfo(f"app/{number}") for number in range(21)]

    with pytest.raises(PackageError, match="larger than 100 MiB"):
        packages.loads(tarball(*infos, data=bytes(limits.FILE_BYTES)))


def test_more_than_ten_thousand_files_are_refused() -> None:
    infos = [tarfile.TarInfo(f"app/{number}") for number in range(limits.FILES + 1)]

    with pytest.raises(PackageError, match="more than 10000 files"):
        packages.loads(tarball(*infos))


@pytest.mark.parametrize(
    "data", [b"", b"<html>", gzip.compress(b"text", mtime=0), package({"a": "b"})[:50]]
)
def test_what_is_no_package_is_refused(data: bytes) -> None:
    with pytest.raises(PackageError):
        packages.loads(data)


def test_package_of_more_than_10_mib_is_refused(tmp_path: Path) -> None:
    with (tmp_path / "big").open("wb") as file:
        file.truncate(limits.CHART_BYTES + 1)

    with pytest.raises(PackageError, match="larger than 10 MiB"):
        packages.load(tmp_path / "big")
