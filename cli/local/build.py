"""Build local files as the controller does: kustomize, substitution, labels.

Nothing is decrypted, because this machine must not have the keys. Secrets that may stay encrypted
until admission are sent as the controller would send them (``cli.local.encrypted``). Other SOPS
documents keep their structure, with masked values.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec

from cli import errors
from cli.local import encrypted
from cli.local import workspace as workspaces
from cli.local.workspace import Workspace
from controllers.kustomize import rendering
from crds.kustomize import Kustomization
from crds.kustomize_parts import CommonMetadata
from toolkit.apply import ownership
from toolkit.native import calls
from toolkit.native.pool import WorkerPool
from toolkit.objects import Json
from toolkit.render import kustomize, substitute
from toolkit.turns import ALONE


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """The inputs of a build besides the Kustomization; ``mounts`` are by path in the tree.

    ``variables`` of None means that no cluster was contacted: undefined ones are empty, unless it
    is ``strict``. ``ignored`` are patterns of files to leave out of the directory to build.
    """

    workspace: Workspace
    mounts: Mapping[str, Path] = field(default_factory=dict)
    variables: Mapping[str, str] | None = field(default=None, repr=False)
    strict: bool = False
    seconds: float = 60.0
    ignored: Sequence[str] = ()


async def build(obj: Kustomization, inputs: Inputs) -> tuple[Json, ...]:
    """Return the objects to apply, without decryption.

    Raises:
        PenstockError: the build fails, as it would in the cluster.
    """
    with workspaces.as_artifacts(_mounts(obj, inputs)) as mounts:
        left = replace(inputs.workspace, root=mounts.get("", inputs.workspace.root))
        with workspaces.without(left, inputs.ignored) as kept:
            return await _build(obj, inputs, {**mounts, **kept})


async def _build(
    obj: Kustomization, inputs: Inputs, mounts: Mapping[str, Path]
) -> tuple[Json, ...]:
    pool = calls.start(size=1, reads=tuple(mounts.values()))
    try:
        plan = kustomize.Build(
            mounts=mounts,
            path=inputs.workspace.path,
            transformations=_transformations(obj),
        )
        built = None
        if encrypted.admissible(obj):
            built = await encrypted.build(
                pool, plan, substitutes=obj.spec.post_build is not None, seconds=inputs.seconds
            )
        if built is None:
            built = (await kustomize.build(pool, plan, flow=ALONE, timeout=inputs.seconds)).objects
        objects = tuple(encrypted.mask(item) for item in built)
        if obj.spec.post_build is not None:
            objects = await _substituted(pool, obj, objects, inputs)
    finally:
        await pool.close()
    return _owned(obj, objects)


async def _substituted(
    pool: WorkerPool, obj: Kustomization, objects: tuple[Json, ...], inputs: Inputs
) -> tuple[Json, ...]:
    post_build = obj.spec.post_build
    assert post_build is not None  # noqa: S101 -- the caller has looked
    known = post_build.substitute if inputs.variables is None else inputs.variables
    return await substitute.substitute(
        pool,
        objects,
        known,
        strict=inputs.strict or inputs.variables is not None,
        always=post_build.substitute_strategy == "Always",
        flow=ALONE,
        timeout=inputs.seconds,
    )


def _owned(obj: Kustomization, objects: tuple[Json, ...]) -> tuple[Json, ...]:
    owner = ownership.Owner(namespace=obj.metadata.namespace, name=obj.metadata.name)
    common = obj.spec.common_metadata or CommonMetadata()
    return tuple(
        ownership.own(item, owner, labels=common.labels, annotations=common.annotations)
        for item in objects
    )


def _transformations(obj: Kustomization) -> Json:
    spec = msgspec.to_builtins(obj.spec)
    return {name: spec[name] for name in rendering.TRANSFORMATIONS if spec.get(name)}


def _mounts(obj: Kustomization, inputs: Inputs) -> dict[str, Path]:
    """Return the tree: the workspace at the root, every further source where it is mounted."""
    missing = [path for path in obj.spec.mounts if path and path not in inputs.mounts]
    if missing:
        raise errors.UsageError(
            f"spec.sourceRefs mounts {', '.join(missing)}; use --mount {missing[0]}=DIRECTORY, or "
            "name the source with --local-sources"
        )
    return {"": inputs.workspace.root, **inputs.mounts}
