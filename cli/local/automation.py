"""Run an ImageUpdateAutomation up to the push, with the user's own permissions.

The choices of ImagePolicies are those in the cluster. Repository, engine and message are those of
the controller, so the files are the ones that it would push.
"""

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from cli import decoding, errors, session
from controllers.access.gitaccess import GitAccess, Grant
from controllers.image import ineffective, settings, updating
from controllers.image.settings import Plan
from controllers.image.updating import Draft
from crds import GIT_REPOSITORY, IMAGE_POLICY, IMAGE_UPDATE_AUTOMATION
from crds.image_automation import ImageUpdateAutomation
from crds.kind import Kind
from crds.source import GitRepository
from toolkit.artifact import scratch
from toolkit.kube import errors as kube_errors
from toolkit.kube.secrets import Secrets
from toolkit.native import calls
from toolkit.objects import GroupVersionKind, Json
from toolkit.remote.cloud.cache import TokenCache
from toolkit.remote.cloud.cloud import Cloud
from toolkit.remote.git import git
from toolkit.remote.git.git import GitClient, Resolved
from toolkit.remote.git.github import GitHubTokens
from toolkit.remote.http.http import Http
from toolkit.render.setters import Changed, Image
from toolkit.turns import ALONE

_CLOUDS: Final = ("aws", "azure")
_AROUND: Final = 3
"""Lines that are shown before and after a change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """A file that changes; ``changes`` are values by object, ``diff`` is a unified one."""

    path: str
    changes: tuple[Json, ...]
    diff: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """A commit on ``base``, a revision; without files there is nothing to push.

    ``ignored`` are what is wrong with markers, in words.
    """

    base: str
    plan_targets: tuple[str, ...]
    message: str
    files: tuple[File, ...]
    ignored: tuple[str, ...]

    @property
    def targets(self) -> str:
        """Return where it would be pushed to."""
        return " and ".join(f"'{target}'" for target in self.plan_targets)


async def preview(opened: session.Session, name: str) -> Preview:
    """Return the changes that the automation would push now.

    Raises:
        UsageError: it does not exist, or its source needs credentials that only the cluster has.
        PenstockError: it would fail in the cluster too.
    """
    obj = await _read(opened, IMAGE_UPDATE_AUTOMATION, opened.namespace, name)
    ref = obj.spec.source_ref
    source = await _read(opened, GIT_REPOSITORY, ref.namespace or opened.namespace, ref.name)
    if source.spec.provider in _CLOUDS:
        raise errors.UsageError(
            f"GitRepository '{ref.name}' signs in with the cluster's identity at "
            f"{source.spec.provider}, which this command does not have"
        )
    plan = settings.plan(obj, source)
    listed = await opened.api.list(GroupVersionKind(*IMAGE_POLICY.gvk), opened.namespace)
    policies = [decoding.decode(IMAGE_POLICY, each) for each in listed]
    chosen = updating.chosen(updating.selected(obj, policies))
    images = updating.images(opened.namespace, chosen)
    grant = await _grant(opened, source)
    with scratch.claimed() as directory:
        base, draft, found = await _drafted(
            directory, obj, source, plan=plan, grant=grant, images=images
        )
    names = {policy.metadata.name for policy in policies}
    return Preview(
        base=base.revision,
        plan_targets=tuple(target.ref for target in plan.targets(base=base.commit)),
        message=draft.message,
        files=found,
        ignored=tuple(ineffective.problems(draft, opened.namespace, names)),
    )


async def _grant(opened: session.Session, source: GitRepository) -> Grant:
    async def nobody(_namespace: str, _account: str) -> None:
        return None

    async with Http() as http:
        access = GitAccess(
            secrets=Secrets(opened.api),
            github=GitHubTokens(http),
            cloud=Cloud(http, cache=TokenCache()),
            identity=nobody,
        )
        return await access.grant(source)


async def _drafted(  # noqa: PLR0913 - the parts of a run
    directory: Path,
    obj: ImageUpdateAutomation,
    source: GitRepository,
    *,
    plan: Plan,
    grant: Grant,
    images: Mapping[str, Image],
) -> tuple[Resolved, Draft, tuple[File, ...]]:
    fetching = git.start(size=1, writes=(directory,))
    engine = calls.start(size=1, memory_limit=updating.MEMORY, reads=(directory,))
    client, timeout, url = GitClient(fetching), source.spec.timeout_seconds, source.spec.url
    try:
        base = await client.resolve(url, plan.checkout, grant.auth, flow=ALONE, timeout=timeout)
        root = directory / "files"
        await asyncio.to_thread(root.mkdir)
        await client.checkout(url, base, grant.auth, root, flow=ALONE, timeout=timeout)
        draft = await updating.draft(engine, obj, plan, images, root)
        found = await asyncio.to_thread(
            lambda: tuple(_file(changed, root) for changed in draft.files)
        )
    finally:
        await fetching.close()
        await engine.close()
    return base, draft, found


def _file(changed: Changed, root: Path) -> File:
    before = (root / changed.path).read_text(errors="replace")
    after = changed.data.decode(errors="replace")
    changes: tuple[Json, ...] = tuple(msgspec.to_builtins(each) for each in changed.changes)
    return File(path=changed.path, changes=changes, diff=unified(changed.path, before, after))


def unified(path: str, before: str, after: str) -> str:
    """Return the difference of two texts with the same number of lines.

    Setters add and remove no line, so this takes time linear in the lines.
    """
    old, new = (text.removesuffix("\n").split("\n") for text in (before, after))
    if len(old) != len(new):
        raise ValueError("a value spans lines that it did not span before")
    differing = [number for number, line in enumerate(old) if line != new[number]]
    lines = [f"--- a/{path}", f"+++ b/{path}"]
    for first, last in _hunks(differing, len(old)):
        size = last - first
        lines.append(f"@@ -{first + 1},{size} +{first + 1},{size} @@")
        for number in range(first, last):
            if old[number] == new[number]:
                lines.append(f" {old[number]}")
            else:
                lines += [f"-{old[number]}", f"+{new[number]}"]
    return "".join(f"{line}\n" for line in lines)


def _hunks(differing: list[int], count: int) -> Iterator[tuple[int, int]]:
    """Yield start and end of each hunk; adjacent ones are merged."""
    pieces: list[tuple[int, int]] = []
    for number in differing:
        first, last = max(0, number - _AROUND), min(count, number + _AROUND + 1)
        if pieces and first <= pieces[-1][1]:
            pieces[-1] = (pieces[-1][0], last)
        else:
            pieces.append((first, last))
    yield from pieces


async def _read(opened: session.Session, kind: Kind[Any], namespace: str, name: str) -> Any:
    try:
        found = await opened.api.get(GroupVersionKind(*kind.gvk), name, namespace)
    except kube_errors.NotFoundError as exc:
        raise errors.UsageError(
            f'{kind.kind} object {name!r} not found in "{namespace}" namespace; '
            "choose another one with --namespace"
        ) from exc
    return decoding.decode(kind, found)
