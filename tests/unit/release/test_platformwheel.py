"""The wheel of the command line: its name, what it asks for, what is in it."""

import re
import tomllib
from email.parser import HeaderParser

import pytest

from release import platformwheel, product, wheels
from release.errors import ReleaseError

PROJECT = tomllib.loads((product.ROOT / "pyproject.toml").read_text())["project"]


@pytest.mark.parametrize(
    ("libraries", "tag"),
    [
        ([b"\0GLIBC_2.2.5\0GLIBC_2.34\0", b"\0GLIBC_2.32\0"], "manylinux_2_34_x86_64"),
        ([b"\0GLIBC_2.4\0", b"\0GLIBC_2.36\0"], "manylinux_2_36_x86_64"),
        # No name of this form is older.
        ([b"\0GLIBC_2.4\0", b"\0GLIBC_2.2.5\0"], "manylinux_2_17_x86_64"),
        # Of a message, not of a symbol.
        ([b"\0GLIBC_2.28\0 needs GLIBC_2.99 \0"], "manylinux_2_28_x86_64"),
    ],
)
def test_platform_is_the_newest_glibc_that_a_library_asks_for(
    libraries: list[bytes], tag: str
) -> None:
    assert platformwheel.platform("amd64", libraries) == tag


def test_an_engine_for_another_c_library_makes_no_wheel() -> None:
    with pytest.raises(ReleaseError, match="build it on glibc"):
        platformwheel.platform("amd64", [b"\0GLIBC_2.34\0", b"\0libc.musl-x86_64.so.1\0"])


def test_dependencies_are_pinned_as_they_are_locked() -> None:
    lock = (
        "aiohttp==3.9 \\\n    --hash=sha256:aa \\\n    --hash=sha256:bb\n    # via -r runtime.in\n"
    )
    lock += "cffi==2.1 ; platform_python_implementation != 'PyPy' \\\n    --hash=sha256:cc\n"

    assert wheels.pins(lock) == (
        "aiohttp==3.9",
        "cffi==2.1 ; platform_python_implementation != 'PyPy'",
    )


def test_metadata_says_what_the_project_says() -> None:
    text = platformwheel.metadata(PROJECT, ["aiohttp==3.9", "cffi==2.1"], "# Penstock\n")

    read = HeaderParser().parsestr(text)

    assert (read["Name"], read["Version"]) == ("penstock", PROJECT["version"])
    assert read["Requires-Python"] == PROJECT["requires-python"]
    assert read.get_all("Requires-Dist") == ["aiohttp==3.9", "cffi==2.1"]
    assert read.get_all("Classifier") == PROJECT["classifiers"]
    assert read.get_payload() == "# Penstock\n"


def test_versions_of_python_that_are_classified_are_allowed() -> None:
    classified = {
        int(found[1])
        for each in PROJECT["classifiers"]
        if (found := re.fullmatch(r"Programming Language :: Python :: 3\.(\d+)", each))
    }
    bounds = re.fullmatch(r">=3\.(\d+),<3\.(\d+)", PROJECT["requires-python"])

    assert bounds is not None
    assert classified <= set(range(int(bounds[1]), int(bounds[2])))


def test_packages_are_those_that_are_installed_for_development() -> None:
    patterns = tomllib.loads((product.ROOT / "pyproject.toml").read_text())["tool"]["setuptools"][
        "packages"
    ]["find"]["include"]

    assert {pattern.rstrip("*") for pattern in patterns} == set(platformwheel.PACKAGES)
