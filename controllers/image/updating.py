"""The changes of a run: chosen images and files of a commit become new files and a message.

Nothing is pushed here: the reconciler pushes the result, and ``penstock preview`` prints it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from controllers.image.settings import Plan
from crds.image import ImagePolicy, ImageRef
from crds.image_automation import ImageUpdateAutomation
from crds.policy_parts import LabelSelector
from toolkit.native.pool import WorkerPool
from toolkit.policy import selectors
from toolkit.render import setters
from toolkit.render.setters import Changed, Image, Place

MEMORY: Final = 768 << 20
"""Bytes for a worker: a large document whose root is one entry takes fifty times its size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """Files that change, and the message of the commit; both are empty if nothing changes.

    ``policies`` and ``misplaced`` are those of ``toolkit.render.setters.Updated``.
    """

    files: tuple[Changed, ...] = ()
    message: str = ""
    policies: tuple[str, ...] = ()
    misplaced: tuple[Place, ...] = ()


def selected(
    obj: ImageUpdateAutomation, policies: Iterable[ImagePolicy]
) -> tuple[ImagePolicy, ...]:
    """Return the policies that the automation works with: those that have chosen, by name.

    ``policies`` are those of its namespace.
    """
    selector = obj.spec.policy_selector or LabelSelector()
    return tuple(
        policy
        for policy in sorted(policies, key=lambda each: each.metadata.name)
        if policy.status.latest_ref is not None
        and not policy.metadata.deletion_timestamp
        and selectors.matches(selector, policy.metadata.labels)
    )


def chosen(policies: Iterable[ImagePolicy]) -> dict[str, ImageRef]:
    """Return the choices of the policies, by their names."""
    return {
        policy.metadata.name: policy.status.latest_ref
        for policy in policies
        if policy.status.latest_ref is not None
    }


def images(namespace: str, refs: Mapping[str, ImageRef]) -> dict[str, Image]:
    """Return the images by the names that markers have for their policies."""
    return {
        f"{namespace}:{name}": Image(name=ref.name, tag=ref.tag, digest=ref.digest)
        for name, ref in refs.items()
    }


async def draft(
    engine: WorkerPool,
    obj: ImageUpdateAutomation,
    plan: Plan,
    found: Mapping[str, Image],
    root: Path,
) -> Draft:
    """Return the new content of files below ``root``; the engine's workers must be able to read it.

    Raises:
        SettersError: a file with a marker cannot be read or changed in place.
        TemplateError: the template of the message is invalid.
    """
    path = obj.spec.update.path or "."
    updated = await setters.update(engine, root, path, found, flow=obj.metadata.namespace)
    unchanged = Draft(policies=updated.policies, misplaced=updated.misplaced)
    if not updated.files:
        return unchanged
    values = obj.spec.git.commit.message_template_values if obj.spec.git else {}
    message = await setters.message(
        engine,
        plan.template,
        namespace=obj.metadata.namespace,
        name=obj.metadata.name,
        values=values,
        images=found,
        files=updated.files,
    )
    return replace(unchanged, files=updated.files, message=message.rstrip() + "\n")
