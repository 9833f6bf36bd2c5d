"""The dependencies: wheels of ``requirements/image.txt``, the lock without what no process imports.

pip finds and checks them; they are unpacked here, because what an installer adds differs from run
to run. A wheel is a ZIP archive: https://packaging.python.org/specifications/binary-distribution-format.
"""

import io
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Final

from controlplane import cache
from release import progress
from release.debian import REQUIREMENTS
from release.errors import ReleaseError, UnavailableError
from release.trees import Node

ALL: Final = REQUIREMENTS / "runtime.txt"
LOCK: Final = REQUIREMENTS / "image.txt"
SITE: Final = "usr/local/lib/python3.11/dist-packages"
LEFT_OUT: Final = frozenset(
    {
        # The official client, which runs exec plugins of a developer's kubeconfig, and its own.
        "aiohttp-retry",
        "certifi",
        "charset-normalizer",
        "durationpy",
        "kubernetes",
        "oauthlib",
        "python-dateutil",
        "requests",
        "requests-oauthlib",
        "tzdata",
        "websocket-client",
        # Of sigstore, of which we read the trust root that it ships.
        "annotated-types",
        "dnspython",
        "email-validator",
        "id",
        "platformdirs",
        "pydantic",
        "pydantic-core",
        "rfc8785",
        "sigstore-models",
        "sigstore-rekor-types",
        "typing-inspection",
        # Of our command line, which is not in the image, and of others'.
        "click",
        "markdown-it-py",
        "mdurl",
        # Of cffi, when something is compiled.
        "pycparser",
    }
)
"""Distributions of the lock that the image does not need."""

_HEADER: Final = (
    "# This file was written by the following command, from runtime.txt and release/wheels.py:\n"
    "#    make lock\n"
)
_BREAK: Final = " \\\n    "
_MACHINES: Final = {"amd64": "x86_64", "arm64": "aarch64"}
_NEWEST_GLIBC: Final = 36
_OLDEST_GLIBC: Final = 5
_DROPPED: Final = re.compile(
    # Sources of what is compiled, hints for type checkers, tests, and lists of what was installed.
    r".*\.(c|h|pxd|pxi|pyi|pyx|hash)$|[^/]+(/[^/]+)*?/tests/|.*/py\.typed$|[^/]+\.dist-info/RECORD$"
)
_DATA: Final = re.compile(r"[^/]+\.data/(?P<scheme>[^/]+)/(?P<path>.+)")
_CODE: Final = frozenset({"purelib", "platlib"})
_HASHED: Final = re.compile(r"(?P<name>[A-Za-z0-9._-]+)==\S+.*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wheel:
    """A wheel of the image."""

    name: str
    version: str
    path: Path

    @property
    def sha256(self) -> str:
        """What the lock holds of it."""
        return sha256(self.path.read_bytes()).hexdigest()


def tree(architecture: str) -> dict[str, Node]:
    """Return what the interpreter finds in its folder of installed packages.

    Raises:
        ReleaseError: a wheel cannot be downloaded.
    """
    found: dict[str, Node] = {}
    for wheel in fetched(architecture):
        found |= unpacked(wheel.path.read_bytes())
    return {f"{SITE}/{path}": node for path, node in found.items()}


def fetched(architecture: str) -> tuple[Wheel, ...]:
    """Return the wheels of an architecture, in the order of names.

    Raises:
        ReleaseError: one cannot be downloaded, or is not what was locked.
    """
    wanted = LOCK.read_text()
    # A folder for each lock: a file in it that the lock does not name would be installed.
    name = f"{architecture}-{sha256(wanted.encode()).hexdigest()[:16]}"
    directory = cache.directory("image", "wheels") / name
    if not directory.is_dir():
        _download(architecture, directory)
    return tuple(_wheel(path) for path in sorted(directory.glob("*.whl")))


def chosen(lock: str) -> str:
    """Return the part of a lock that the image needs, hashes and all.

    Raises:
        ReleaseError: a line of it cannot be read.
    """
    kept = "".join(f"{block}\n" for block in _blocks(lock) if _name(block) not in LEFT_OUT)
    return _HEADER + kept.replace(" --hash", _BREAK + "--hash")


def pins(lock: str) -> tuple[str, ...]:
    """Return the requirements of a lock without their hashes, as ``Requires-Dist`` has them.

    Raises:
        ReleaseError: a line of it cannot be read.
    """
    blocks = {_name(block): block for block in _blocks(lock)}
    return tuple(block.partition(" --hash")[0] for block in blocks.values())


def unpacked(wheel: bytes) -> dict[str, Node]:
    """Return the files of a wheel by where they are in the folder of installed packages."""
    found: dict[str, Node] = {}
    with zipfile.ZipFile(io.BytesIO(wheel)) as opened:
        for name in opened.namelist():
            path = _place(name)
            if path and not _DROPPED.match(path):
                found[path] = Node(content=opened.read(name))
    return found


def _place(name: str) -> str:
    """Return where a file of a wheel goes; nowhere if it is a program or a folder."""
    if name.endswith("/"):
        return ""
    if data := _DATA.fullmatch(name):
        return data["path"] if data["scheme"] in _CODE else ""
    return name


def _blocks(lock: str) -> Iterator[str]:
    """Yield each requirement with its hashes, on one line."""
    lines = (line.partition("#")[0].rstrip() for line in lock.splitlines())
    for block in "\n".join(line for line in lines if line).replace("\\\n", " ").splitlines():
        yield " ".join(block.split())


def _name(block: str) -> str:
    found = _HASHED.fullmatch(block)
    if found is None:
        raise ReleaseError(f"{ALL}: {block!r} is no `NAME==VERSION --hash=…`")
    return found["name"].lower()


def _download(architecture: str, directory: Path) -> None:
    progress.say("wheels to download")
    staged = directory.with_suffix(".partial")
    shutil.rmtree(staged, ignore_errors=True)
    staged.mkdir()
    command = (
        *(sys.executable, "-m", "pip", "download", "--disable-pip-version-check"),
        *("--no-deps", "--require-hashes", "--only-binary=:all:", "--implementation=cp"),
        *("--python-version=3.11", "--abi=cp311", "--abi=abi3", "--abi=none"),
        *(f"--platform={platform}" for platform in _platforms(_MACHINES[architecture])),
        *("--progress-bar=off", f"--dest={staged}", f"--requirement={LOCK}"),
    )
    answer = subprocess.run(command, stdout=sys.stderr, check=False)
    if answer.returncode != 0:
        raise UnavailableError(
            "pip cannot download the wheels of requirements/image.txt (see above):"
            " is a package registry reachable?"
        )
    # Whole or not at all.
    staged.rename(directory)


def _platforms(machine: str) -> Iterator[str]:
    """Yield the tags of wheels that Debian 12 can load, the newest C library first (PEP 600)."""
    yield from (f"manylinux_2_{n}_{machine}" for n in range(_NEWEST_GLIBC, _OLDEST_GLIBC - 1, -1))
    yield from (f"{old}_{machine}" for old in ("manylinux2014", "manylinux2010", "manylinux1"))


def _wheel(path: Path) -> Wheel:
    name, version, *_ = path.name.split("-")
    return Wheel(name=name.replace("_", "-").lower(), version=version, path=path)
