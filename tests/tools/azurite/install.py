"""Install Azurite, the stand-in for Azure Blob Storage, once into the user's cache.

It is an npm package, pinned with hashes by the lock file beside this; where packages come from is
npm's own setting. No script of any package is run.
"""

import shutil
import subprocess
from hashlib import sha256
from pathlib import Path
from typing import Final

from controlplane import build, cache
from controlplane.errors import BuildError

_HERE: Final = Path(__file__).parent
_PINS: Final = ("package.json", "package-lock.json")
_ENTRY: Final = "node_modules/azurite/dist/src/blob/main.js"


def installed() -> bool:
    """Tell whether it is in the cache."""
    return _mark(_pins()).is_file()


def command() -> list[str]:
    """Return the command that starts the blob service, installing it if need be.

    Raises:
        BuildError: there is no Node.js.
        CalledProcessError: npm failed; its output was shown.
    """
    if shutil.which("node") is None or shutil.which("npm") is None:
        raise BuildError("the tests against Azure's emulator need Node.js 20 or newer, with npm")
    pins = _pins()
    mark = _mark(pins)
    if not mark.is_file():
        with build.turn(mark.parent):
            if not mark.is_file():
                _install(mark.parent, pins)
                mark.touch()
    return ["node", str(mark.parent / _ENTRY)]


def _pins() -> dict[str, bytes]:
    return {name: (_HERE / name).read_bytes() for name in _PINS}


def _mark(pins: dict[str, bytes]) -> Path:
    """Return the file that is written last."""
    digest = sha256(b"\0".join(pins.values())).hexdigest()[:16]
    return cache.directory("testtools", f"azurite-{digest}") / "installed"


def _install(directory: Path, pins: dict[str, bytes]) -> None:
    for name, content in pins.items():
        (directory / name).write_bytes(content)
    options = ("--omit=dev", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")
    subprocess.run(["npm", "ci", *options], cwd=directory, check=True)
