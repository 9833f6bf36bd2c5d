"""The wheel: our command line with all that it uses, for ``uv tool install`` and ``pipx install``.

It has the layout of the repository, because the path is the import and the code finds manifests
from where it is itself: ``deploy`` and ``requirements`` stand beside the packages. Such general
names need an environment of their own, which is what both tools make. The dependencies are those of
the lock, to the version (ADR 39). The engine is inside, so the wheel is for one platform.

The archive is written here, not by a build backend: its bytes depend on the sources, the engine,
and zlib. https://packaging.python.org/specifications/binary-distribution-format
"""

import base64
import io
import re
import tomllib
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from release import interpreter, product, wheels
from release.errors import ReleaseError

PACKAGES: Final = (*product.PACKAGES, "cli", "controlplane")
"""What ``penstock`` imports of ours."""
MANIFESTS: Final = ("base", "components", "overlays", "tenant")
"""Folders of ``deploy`` that the command line builds from; the chart goes out on its own."""
_GO: Final = Path("requirements", "go.txt")
_ENGINES: Final = "toolkit/native"
_PAPERS: Final = ("LICENSE", "NOTICE")
_KEPT: Final = frozenset({".py", ".yaml", ".json", ".go", ".mod", ".sum"})
_MACHINES: Final = {"amd64": "x86_64", "arm64": "aarch64"}
_GLIBC: Final = re.compile(rb"\0GLIBC_2\.(\d+)(?:\.\d+)?(?=\0)")
_OLDEST: Final = 17
"""Of ``manylinux2014``, under which installers know no older name of this form."""
_EPOCH: Final = (1980, 1, 1, 0, 0, 0)
"""The oldest time that a ZIP archive can tell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """A wheel under the name that installers read its platform from."""

    name: str
    content: bytes


def build() -> Built:
    """Return the wheel for this machine's platform.

    Raises:
        ReleaseError: the project or the engine is not as expected.
        StalledError: the engine cannot be built.
    """
    project = tomllib.loads((product.ROOT / "pyproject.toml").read_text())["project"]
    architecture = interpreter.of_this_machine()
    engines = {path.name: path.read_bytes() for path in product.engines(architecture)}
    stem = f"{project['name']}-{project['version']}"
    tag = f"py3-none-{platform(architecture, engines.values())}"
    files = {
        **_sources(),
        **{f"{_ENGINES}/{name}": content for name, content in engines.items()},
        **_about(f"{stem}.dist-info", tag, project),
    }
    return Built(name=f"{stem}-{tag}.whl", content=_archive(files, f"{stem}.dist-info/RECORD"))


def platform(architecture: str, libraries: Iterable[bytes]) -> str:
    """Return the platform tag (PEP 600): the oldest C library that has what ours ask of it.

    Raises:
        ReleaseError: a library asks nothing of glibc, so it was built for another system.
    """
    asked = [[int(found[1]) for found in _GLIBC.finditer(each)] for each in libraries]
    if not all(asked):
        raise ReleaseError("an engine library names no version of glibc: build it on glibc")
    newest = max(_OLDEST, *(max(each) for each in asked))
    return f"manylinux_2_{newest}_{_MACHINES[architecture]}"


def metadata(project: Mapping[str, Any], requirements: Iterable[str], description: str) -> str:
    """Return the core metadata (https://packaging.python.org/specifications/core-metadata)."""
    headers = (
        ("Metadata-Version", "2.4"),
        ("Name", project["name"]),
        ("Version", project["version"]),
        ("Summary", project["description"]),
        ("License-Expression", project["license"]),
        *(("License-File", name) for name in _PAPERS),
        ("Requires-Python", project["requires-python"]),
        *(("Classifier", each) for each in project["classifiers"]),
        *(("Requires-Dist", each) for each in requirements),
        ("Description-Content-Type", "text/markdown"),
    )
    return "".join(f"{name}: {value}\n" for name, value in headers) + f"\n{description}"


def _sources() -> dict[str, bytes]:
    roots = [*PACKAGES, *(f"deploy/{name}" for name in MANIFESTS)]
    files = [path for name in roots for path in product.ROOT.joinpath(name).rglob("*")]
    return {
        str(path.relative_to(product.ROOT)): path.read_bytes()
        for path in [*files, product.ROOT / _GO]
        if path.is_file() and (path.suffix in _KEPT or path == product.ROOT / _GO)
    }


def _about(folder: str, tag: str, project: Mapping[str, Any]) -> dict[str, bytes]:
    description = (product.ROOT / project["readme"]).read_text()
    programs = [f"{name} = {target}\n" for name, target in project["scripts"].items()]
    texts = {
        "METADATA": metadata(project, wheels.pins(wheels.ALL.read_text()), description),
        "WHEEL": "Wheel-Version: 1.0\nGenerator: penstock-release\n"
        f"Root-Is-Purelib: false\nTag: {tag}\n",
        "entry_points.txt": "".join(["[console_scripts]\n", *programs]),
        **{f"licenses/{name}": (product.ROOT / name).read_text() for name in _PAPERS},
    }
    return {f"{folder}/{name}": text.encode() for name, text in texts.items()}


def _archive(files: Mapping[str, bytes], record: str) -> bytes:
    # What describes the wheel stands last, as the specification recommends.
    ordered = sorted(files, key=lambda name: (".dist-info/" in name, name))
    rows = [f"{name},sha256={_digest(files[name])},{len(files[name])}\n" for name in ordered]
    recorded = "".join([*rows, f"{record},,\n"]).encode()
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as opened:
        for name, content in [*((name, files[name]) for name in ordered), (record, recorded)]:
            opened.writestr(_entry(name), content, compresslevel=6)
    return buffer.getvalue()


def _entry(name: str) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name, date_time=_EPOCH)
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.create_system = 3  # Unix, whose modes the next line has
    entry.external_attr = (0o100755 if name.endswith(".so") else 0o100644) << 16
    return entry


def _digest(content: bytes) -> str:
    return base64.urlsafe_b64encode(sha256(content).digest()).rstrip(b"=").decode()
