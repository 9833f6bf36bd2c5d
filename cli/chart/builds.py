"""Builds of the base, with each component, and with pairs of components that interact.

The engine's kustomize is used, so nothing needs to be installed. CRDs are left out: no component
changes them, and they take most of the time of a build.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import yaml

from cli.installing import manifests
from crds import written
from toolkit.native import calls
from toolkit.native.pool import WorkerPool
from toolkit.objects import Json
from toolkit.render import kustomize
from toolkit.turns import ALONE

LEFT_OUT: Final = frozenset({"dev"})
"""Components that other values replace: an image that was built on the node, and replicas."""
INCLUDED: Final = manifests.INCLUDED
"""The component that is a part of the base, and so is on unless it is switched off."""
COMPONENTS: Final = (INCLUDED, *(each for each in manifests.COMPONENTS if each not in LEFT_OUT))
PAIRS: Final[Mapping[str, Sequence[str]]] = {
    # component that adds objects: components that change or remove these
    "sharding": ("ha", "workload-identity", "warn-cross-namespace-refs", "lockdown"),
    "workload-identity": ("by-namespace",),
}
_BASE: Final = "deploy/base/kustomization.yaml"
_DEADLINE: Final = 120.0

Way = frozenset[str]
"""The components of an installation."""


async def build() -> Mapping[Way, Sequence[Json]]:
    """Return the objects of the base alone, with single components, and with pairs, by way."""
    pairs = [(adding, other) for adding, others in PAIRS.items() for other in others]
    names: list[tuple[str, ...]] = [(), *((each,) for each in COMPONENTS), *pairs]
    pool = calls.start(size=1, reads=[written.ROOT / "deploy"])
    try:
        return {frozenset(each): await _built(pool, each) for each in names}
    finally:
        await pool.close()


async def _built(pool: WorkerPool, names: Iterable[str]) -> Sequence[Json]:
    base = yaml.load((written.ROOT / _BASE).read_text(), Loader=yaml.CSafeLoader)
    # Labels come last, because they apply to the objects of components too.
    base["components"] = [*(f"../components/{each}" for each in names), "labels"]
    request = kustomize.Build(
        mounts={"deploy": written.ROOT / "deploy"},
        path="./deploy/base",
        transformations={},
        files={_BASE: yaml.safe_dump(base).encode()},
    )
    return (await kustomize.build(pool, request, flow=ALONE, timeout=_DEADLINE)).objects
