"""What the image is: its layers, and how it is run.

Layers are in the order of how often they change: the distribution, the dependencies, ourselves. A
registry and a node keep those that did not change.
"""

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from controlplane import cache
from controlplane.node import image
from release import debian, interpreter, layers, materials, product, progress, sbom, trees, wheels

USER: Final = 65534
"""Debian's nobody; the Deployments run the processes as the same."""
NAME: Final = "localhost/penstock"
ENVIRONMENT: Final = {
    "LANG": "C.UTF-8",
    "PATH": "/usr/bin",
    "PENSTOCK_ENGINE": f"/{product.HOME}/{product.ENGINES[0]}",
    "PYTHONPATH": f"/{product.HOME}",
    "PYTHONSAFEPATH": "1",
    "PYTHONUNBUFFERED": "1",
}
LABELS: Final = "org.opencontainers.image"
_EPOCH: Final = "1970-01-01T00:00:00Z"


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A layer, and the name by which it is spoken of."""

    name: str
    tree: trees.Tree
    layer: image.Layer


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """The image, with its layers."""

    name: str
    architecture: str
    parts: tuple[Part, ...]
    packed: image.Packed
    sbom: bytes
    """The list of materials, an SPDX document."""


def build(architecture: str, *, cached: bool = True) -> Image:
    """Return the image for Debian's ``architecture``.

    Layers that were made before of the same files come from the cache, unless ``cached`` is false.

    Raises:
        ReleaseError: something that it is made of is missing, or cannot be loaded.
        UnavailableError: something is neither in the cache nor offered by a registry.
        StalledError: the engine cannot be built.
    """
    progress.say(f"building for {architecture}")
    native = interpreter.of_this_machine()
    # Who builds at the same time finds in the cache what we download.
    with cache.locked(cache.directory("image") / "lock", waiting=_wait):
        tools = debian.tree(native)
        contents = {
            "system": tools if architecture == native else debian.tree(architecture),
            "dependencies": wheels.tree(architecture),
            "penstock": product.tree(architecture),
        }
    with interpreter.unpacked(tools) as python:
        compiler = layers.Compiler(python=python, digest=trees.digest(tools))
        parts = tuple(_part(compiler, *each, cached=cached) for each in contents.items())
    if architecture == native:
        prove(*contents.values())
    packed = image.pack(
        [part.layer for part in parts], config(architecture), annotations=_annotations()
    )
    return Image(
        name=reference(),
        architecture=architecture,
        parts=parts,
        packed=packed,
        sbom=sbom.document(_subject(architecture, packed.digest), materials.of(architecture)),
    )


def prove(*contents: trees.Tree) -> None:
    """See that all modules and libraries of the image can be loaded with what is in it.

    Raises:
        ReleaseError: one cannot; names what it lacks.
    """
    progress.say("importing every module")
    paths = (product.HOME, wheels.SITE)
    with interpreter.unpacked(*contents, paths=paths) as python:
        python.run("import", *product.PACKAGES, *_extensions(contents[0]))
        python.run("trust", str(python.root / debian.AUTHORITIES))
        # One a process: each brings a Go runtime.
        for name in product.ENGINES:
            python.run("load", str(python.root / product.HOME / name))


def reference() -> str:
    """Return the name of the image with its tag, the version of Penstock."""
    return f"{NAME}:v{_project()['version']}"


def config(architecture: str) -> Mapping[str, Any]:
    """Return how the image is run, and what it says of itself."""
    project = _project()
    return {
        "architecture": architecture,
        "created": _EPOCH,
        "config": {
            "User": f"{USER}:{USER}",
            "Env": [f"{name}={value}" for name, value in ENVIRONMENT.items()],
            "Entrypoint": ["python", "-m", "controllers"],
            "WorkingDir": f"/{product.HOME}",
            "Labels": {
                f"{LABELS}.title": "Penstock",
                f"{LABELS}.description": project["description"],
                f"{LABELS}.version": f"v{project['version']}",
                f"{LABELS}.licenses": project["license"],
            },
        },
    }


def _wait() -> None:
    progress.say("another process downloads packages: waiting for it")


def _part(compiler: layers.Compiler, name: str, tree: trees.Tree, *, cached: bool) -> Part:
    progress.say(f"layer {name}")
    whole, layer = compiler.layer(name, tree, cached=cached)
    return Part(name=name, tree=whole, layer=layer)


def _extensions(system: trees.Tree) -> Iterator[str]:
    """Yield the modules of the standard library that are written in C."""
    for path in system:
        folder, _, name = path.rpartition("/")
        if folder.endswith("/lib-dynload"):
            yield name.partition(".")[0]


def _subject(architecture: str, digest: str) -> sbom.Subject:
    project = _project()
    return sbom.Subject(
        name=NAME.rpartition("/")[2],
        version=f"v{project['version']}",
        architecture=architecture,
        digest=digest,
        licence=project["license"],
        created=_EPOCH,
    )


def _annotations() -> Mapping[str, str]:
    return {image.NAME: reference(), f"{LABELS}.ref.name": reference()}


def _project() -> Mapping[str, str]:
    project: Mapping[str, str] = tomllib.loads(product.ROOT.joinpath("pyproject.toml").read_text())[
        "project"
    ]
    return project
