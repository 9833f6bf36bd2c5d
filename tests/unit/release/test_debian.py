"""The packages of the root file system."""

from pathlib import Path

import pytest

from release import debian, locking
from release.errors import ReleaseError


def test_both_architectures_have_the_same_packages() -> None:
    amd64, arm64 = (
        {(package.name, package.version) for package in debian.locked(architecture)}
        for architecture in ("amd64", "arm64")
    )

    assert amd64 == arm64


@pytest.mark.parametrize("architecture", locking.ARCHITECTURES)
def test_lock_holds_what_is_wanted_and_nothing_that_starts_programs(architecture: str) -> None:
    names = {package.name for package in debian.locked(architecture)}

    assert set(debian.ROOTS) <= names
    assert not names & {*debian.LEFT_OUT, "bash", "dash", "busybox", "dpkg", "apt", "perl-base"}


def test_architecture_without_a_lock_is_refused() -> None:
    with pytest.raises(ReleaseError, match="no packages are locked for mips: run `make lock`"):
        debian.locked("mips")


@pytest.mark.parametrize(
    ("path", "kept"),
    [
        ("usr/bin/python3.11", True),
        ("usr/bin/python3.11-config", False),
        ("usr/bin/sh", False),
        ("usr/sbin/ldconfig", False),
        ("etc/os-release", True),
        ("etc/passwd-", False),
        ("usr/lib/python3.11/ssl.py", True),
        ("usr/lib/python3.11/sqlite3/__init__.py", True),
        ("usr/lib/python3.11/lib-dynload/_curses_panel.cpython-311-x86_64-linux-gnu.so", False),
        ("usr/lib/python3.11/lib-dynload/_ctypes.cpython-311-x86_64-linux-gnu.so", True),
        ("usr/lib/x86_64-linux-gnu/gconv/EUC-JP.so", False),
        ("usr/share/zoneinfo/Europe/Berlin", True),
        ("usr/share/zoneinfo/right/Europe/Berlin", False),
        ("usr/share/doc/libc6/copyright", True),
        ("usr/share/doc/libc6/changelog.Debian.gz", False),
        ("var/lib/dpkg/status", False),
    ],
)
def test_only_what_processes_use_is_taken_of_packages(path: str, *, kept: bool) -> None:
    assert debian.is_kept(path) is kept


def test_package_of_another_content_is_refused(tmp_path: Path) -> None:
    package = debian.Package(name="a", version="1", sha256="0" * 64, architecture="amd64")
    (tmp_path / "a.deb").write_bytes(b"changed")

    with pytest.raises(ReleaseError, match="a=1 has not the locked SHA-256 000"):
        debian.keep([package], tmp_path, tmp_path)


def test_dependencies_are_the_first_of_alternatives() -> None:
    stanza = locking.fields(
        "Package: a\nPre-Depends: libc6 (>= 2.35)\n"
        "Depends: media-types | mime-support, libstdc++6:any (>= 12),libbz2-1.0\n"
        "Description: b\n Depends: c\n"
    )

    found = list(locking.dependencies(stanza))

    assert found == ["libc6", "media-types", "libstdc++6", "libbz2-1.0"]
