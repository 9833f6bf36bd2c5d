"""The dependencies of the image."""

import io
import re
import sys
import zipfile
from pathlib import Path

import pytest

from release import product, wheels
from release.errors import ReleaseError
from release.trees import Node

LOCKED = frozenset(re.findall(r"^([\w.-]+)==", wheels.ALL.read_text(), re.MULTILINE))
_IMPORT = re.compile(r"^ *(?:from (?=[\w.]+ import)|import )(\w+)", re.MULTILINE)
DISTRIBUTIONS = {
    "jwt": "pyjwt",
    "prometheus_client": "prometheus-client",
    "re2": "google-re2",
    "rfc3161_client": "rfc3161-client",
    "yaml": "pyyaml",
}


def test_lock_of_the_image_is_the_chosen_part_of_the_lock() -> None:
    assert wheels.LOCK.read_text() == wheels.chosen(wheels.ALL.read_text()), "run `make lock`"


def test_what_is_left_out_is_in_the_lock() -> None:
    assert wheels.LEFT_OUT <= LOCKED


def test_all_that_processes_import_is_in_the_image_but_the_official_client() -> None:
    files = [file for name in product.PACKAGES for file in (product.ROOT / name).rglob("*.py")]
    imported = {name for file in files for name in _imports(file)}

    foreign = imported - {*sys.stdlib_module_names, *product.PACKAGES}

    assert {DISTRIBUTIONS.get(name, name) for name in foreign} & wheels.LEFT_OUT == {"kubernetes"}
    assert {DISTRIBUTIONS.get(name, name) for name in foreign} <= LOCKED


def test_requirement_keeps_its_hashes() -> None:
    lock = (
        "aiohttp==1 \\\n    --hash=sha256:a \\\n    --hash=sha256:b\n    # via us\nid==2 --hash=c\n"
    )

    (*_, first, second, third) = wheels.chosen(lock).splitlines()

    assert first == "aiohttp==1 \\"
    assert second == "    --hash=sha256:a \\"
    assert third == "    --hash=sha256:b"


def test_requirement_without_a_version_is_refused() -> None:
    with pytest.raises(ReleaseError, match="'aiohttp' is no `NAME==VERSION"):
        wheels.chosen("aiohttp\n")


def test_code_of_a_wheel_is_unpacked_and_nothing_else() -> None:
    names = (
        "a/__init__.py",
        "a/fast.so",
        "a/fast.pyx",
        "a/tests/test_a.py",
        "a-1.data/purelib/b.py",
        "a-1.data/scripts/a",
        "a-1.dist-info/METADATA",
        "a-1.dist-info/RECORD",
        "a-1.dist-info/licenses/LICENSE",
    )
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as opened:
        for name in names:
            opened.writestr(name, name)

    found = wheels.unpacked(content.getvalue())

    assert found["b.py"] == Node(content=b"a-1.data/purelib/b.py")
    assert set(found) == {
        "a/__init__.py",
        "a/fast.so",
        "b.py",
        "a-1.dist-info/METADATA",
        "a-1.dist-info/licenses/LICENSE",
    }


def _imports(file: Path) -> set[str]:
    return set(_IMPORT.findall(file.read_text()))
