"""Programs that tests run: real servers and the real tools that make signatures.

Each is pinned by a Go module in a directory beside this file and built once into the user's cache,
under a name that its pins and sources decide.
"""

import json
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from types import MappingProxyType
from typing import Final

from controlplane import build, cache, gotool
from toolkit.compiling import estimate

TOOLS: Final = Path(__file__).parent


@dataclass(frozen=True, kw_only=True)
class Program:
    """One program: the Go package to build, and the directory whose go.mod pins it.

    A ``module`` that lacks what its authors generate before they build is copied, and the files of
    the directory are added; ``package`` is then relative to the copy. ``raised.mod`` and
    ``raised.sum`` become its pins: its authors' own, raised to the versions of the control plane.
    """

    package: str
    directory: str
    module: str = ""
    static: bool = False
    """Whether it runs in a container that has no C library."""

    @property
    def digest(self) -> str:
        """Return what identifies a build: pins, our own sources, flags, platform."""
        digest = sha256(build.identity(static=self.static).encode())
        root = TOOLS / self.directory
        for path in sorted(file for file in root.rglob("*") if file.suffix in _INPUTS):
            digest.update(str(path.relative_to(root)).encode() + path.read_bytes())
        return digest.hexdigest()[:16]


_INPUTS: Final = (".mod", ".sum", ".go", ".yaml")
_PINS: Final = ("go.mod", "go.sum")
_RAISED: Final = ("raised.mod", "raised.sum")

PROGRAMS: Final[Mapping[str, Program]] = MappingProxyType(
    {
        # name of the program: what it is built from
        "cosign": Program(package="github.com/sigstore/cosign/v3/cmd/cosign", directory="cosign"),
        "notation-sign": Program(package=".", directory="notation"),
        "flux": Program(
            package="./cmd/flux", directory="flux", module="github.com/fluxcd/flux2/v2"
        ),
        "helm": Program(package="helm.sh/helm/v4/cmd/helm", directory="helm"),
        "registry": Program(
            package="github.com/distribution/distribution/v3/cmd/registry", directory="registry"
        ),
        "versitygw": Program(
            package="github.com/versity/versitygw/cmd/versitygw", directory="versitygw"
        ),
        "fake-gcs-server": Program(
            package="github.com/fsouza/fake-gcs-server", directory="fakegcs"
        ),
        "informer": Program(package=".", directory="informer"),
        "podprobe": Program(package=".", directory="podprobe", static=True),
        "nats-server": Program(package="github.com/nats-io/nats-server/v2", directory="nats"),
        "sops": Program(package="github.com/getsops/sops/v3/cmd/sops", directory="sops"),
        "age-keygen": Program(package="filippo.io/age/cmd/age-keygen", directory="sops"),
    }
)


def built(name: str) -> Path:
    """Return where the program is, or will be."""
    return cache.directory("testtools", f"{name}-{PROGRAMS[name].digest}") / name


def path(name: str) -> Path:
    """Return the program, building it if it is not in the cache.

    Raises:
        BuildError: there is no Go toolchain, or the build failed.
    """
    program, target = PROGRAMS[name], built(name)
    directory = target.parent
    if not target.is_file():
        with build.turn(directory):
            if not target.is_file():
                build.build(
                    build.Batch(
                        targets=[build.Target(package=program.package, path=target)],
                        module_directory=_module(program, directory / "sources"),
                        name=name,
                        cost=estimate.of((name,)),
                        static=program.static,
                    )
                )
    return target


def _module(program: Program, copy: Path) -> Path:
    """Return the directory to build in."""
    pinned = TOOLS / program.directory
    if not program.module:
        return pinned
    command = [gotool.find(), "mod", "download", "-json", program.module]
    told = subprocess.run(command, cwd=pinned, check=True, capture_output=True).stdout
    shutil.rmtree(copy, ignore_errors=True)
    # Modules lie in the cache without the right to write, which the copy needs.
    shutil.copytree(json.loads(told)["Dir"], copy, copy_function=shutil.copyfile)
    for path in [copy, *(each for each in copy.rglob("*") if each.is_dir())]:
        path.chmod(0o700)
    own = shutil.ignore_patterns(*_PINS, *_RAISED)
    shutil.copytree(pinned, copy, dirs_exist_ok=True, ignore=own)
    for name, raised in zip(_PINS, _RAISED, strict=True):
        shutil.copyfile(pinned / raised, copy / name)
    return copy
