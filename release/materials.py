"""What the image was made of: packages of the distribution, wheels, Go modules of the engine.

Each has the version and the SHA-256 that its lock has. That of a Go module is the hash of
``go.sum``, over the names and hashes of its files (https://go.dev/ref/mod#go-sum-files), which is
what other programs write into lists of materials too.
"""

import base64
import subprocess
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from email.parser import HeaderParser
from pathlib import Path
from typing import Final
from urllib.parse import quote

from controlplane import gotool
from release import debian, product, wheels
from release.errors import ReleaseError

_HASH: Final = "h1:"


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Material:
    """One of what the image was made of; ``purl`` is its address in all registries.

    https://github.com/package-url/purl-spec. ``licence`` is an SPDX expression, or empty where its
    authors tell none; ``sha256`` is empty for what comes with a compiler.
    """

    purl: str
    name: str
    version: str
    sha256: str = ""
    licence: str = ""


def of(architecture: str) -> tuple[Material, ...]:
    """Return all materials of the image for an architecture, in a fixed order.

    Raises:
        ReleaseError: something is not here and cannot be downloaded, or an engine tells nothing.
    """
    found = {*_debian(architecture), *_wheels(architecture), *_modules(architecture)}
    return tuple(sorted(found))


def in_engine(information: str) -> Iterator[Material]:
    """Yield the modules, and Go's own library, that ``go version -m`` tells of.

    A line has a tab in front and between its fields; a replacement follows what it replaces.
    """
    first, *lines = information.splitlines()
    toolchain = first.rpartition(": go")[2]
    yield Material(purl=f"pkg:golang/stdlib@{toolchain}", name="stdlib", version=toolchain)
    rows = [line.split("\t")[1:] for line in lines]
    following = [*rows[1:], [""]]
    for row, after in zip(rows, following, strict=True):
        replaced = row[0] == "dep" and after[0] == "=>"
        if row[0] in ("dep", "=>") and not replaced:
            _, name, version, checksum = row
            yield Material(
                purl=f"pkg:golang/{quote(name)}@{quote(version, safe='')}",
                name=name,
                version=version,
                sha256=base64.b64decode(checksum.removeprefix(_HASH)).hex(),
            )


def _debian(architecture: str) -> Iterator[Material]:
    for package in debian.locked(architecture):
        version = quote(package.version, safe="")
        qualifiers = f"arch={architecture}&distro=debian-12"
        yield Material(
            purl=f"pkg:deb/debian/{quote(package.name)}@{version}?{qualifiers}",
            name=package.name,
            version=package.version,
            sha256=package.sha256,
        )


def _wheels(architecture: str) -> Iterator[Material]:
    for wheel in wheels.fetched(architecture):
        yield Material(
            purl=f"pkg:pypi/{wheel.name}@{quote(wheel.version, safe='')}",
            name=wheel.name,
            version=wheel.version,
            sha256=wheel.sha256,
            licence=_licence(wheel.path),
        )


def _modules(architecture: str) -> Iterator[Material]:
    for path in product.engines(architecture):
        answer = subprocess.run(
            [gotool.find(), "version", "-m", path], capture_output=True, text=True, check=False
        )
        if answer.returncode != 0:
            raise ReleaseError(f"{path} does not tell its modules: {answer.stderr.strip()}")
        yield from in_engine(answer.stdout)


def _licence(wheel: Path) -> str:
    with zipfile.ZipFile(wheel) as opened:
        (path,) = [
            name
            for name in opened.namelist()
            if name.count("/") == 1 and name.endswith(".dist-info/METADATA")
        ]
        # PEP 639; older fields are words, not SPDX expressions.
        return HeaderParser().parsestr(opened.read(path).decode()).get("License-Expression", "")
