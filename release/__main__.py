"""``python -m release build``, ``wheel``, ``cut`` and ``lock``."""

import argparse
import sys
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Final

from release import building, cutting, interpreter, locking, platformwheel, progress, trees, wheels
from toolkit.errors import PenstockError

_OUTPUT: Final = Path("build/penstock-image.tar")
_WHEELS: Final = Path("build")


def main() -> None:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(prog="python -m release", description=__doc__)
    commands = parser.add_subparsers(required=True)
    build = commands.add_parser("build", help="write the image as an OCI layout in a tar archive")
    build.add_argument("--output", type=Path, default=_OUTPUT)
    build.add_argument("--architecture", choices=locking.ARCHITECTURES)
    build.set_defaults(run=_build)
    wheel = commands.add_parser("wheel", help="write the wheel of the command line")
    wheel.add_argument("--to", type=Path, default=_WHEELS, metavar="DIRECTORY")
    wheel.set_defaults(run=_wheel)
    _add_cut(commands.add_parser("cut", help="make a release of this tree: version, files, pushes"))
    lock = commands.add_parser("lock", help="pin the newest Debian packages, and choose wheels")
    lock.set_defaults(run=_lock)
    arguments = parser.parse_args()
    try:
        arguments.run(arguments)
    except PenstockError as error:
        sys.exit(f"error: {error}")
    except KeyboardInterrupt:
        sys.exit("error: interrupted")


def _add_cut(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("version", help="MAJOR.MINOR.PATCH")
    parser.add_argument("--to", type=Path, required=True, metavar="DIRECTORY")
    parser.add_argument("--registry", default="", help="HOST/PATH for image and chart")
    parser.add_argument("--plain-http", action="store_true", help="the registry has no TLS")
    parser.add_argument("--key", type=Path, help="private key in PEM to sign with")
    parser.set_defaults(run=_cut)


def _cut(arguments: argparse.Namespace) -> None:
    wish = cutting.Wish(
        version=arguments.version,
        date=datetime.now(tz=UTC).date().isoformat(),
        directory=arguments.to,
        registry=arguments.registry,
        plain_http=arguments.plain_http,
        key=arguments.key,
    )
    for name in cutting.cut(wish):
        print(arguments.to / name)


def _build(arguments: argparse.Namespace) -> None:
    built = building.build(arguments.architecture or interpreter.of_this_machine())
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    _write(arguments.output, built.packed.archive)
    _write(arguments.output.with_suffix(".spdx.json"), built.sbom)
    for part in built.parts:
        progress.say(
            f"{part.name:13} {_megabytes(trees.size(part.tree))}, compressed"
            f" {_megabytes(len(part.layer.stored))}"
        )
    progress.say(f"{_megabytes(len(built.packed.archive))} in {arguments.output}")
    print(f"{built.name}@{built.packed.digest}")


def _wheel(arguments: argparse.Namespace) -> None:
    built = platformwheel.build()
    path = arguments.to / built.name
    path.parent.mkdir(parents=True, exist_ok=True)
    _write(path, built.content)
    progress.say(f"{_megabytes(len(built.content))}, sha256 {sha256(built.content).hexdigest()}")
    print(path)


def _write(path: Path, content: bytes) -> None:
    # Under its name only when it is whole.
    staged = path.with_suffix(".partial")
    staged.write_bytes(content)
    staged.replace(path)


def _lock(_: argparse.Namespace) -> None:
    for architecture in locking.ARCHITECTURES:
        locking.lock(architecture)
    wheels.LOCK.write_text(wheels.chosen(wheels.ALL.read_text()))


def _megabytes(size: int) -> str:
    return f"{size / 1e6:6.1f} MB"


if __name__ == "__main__":
    main()
