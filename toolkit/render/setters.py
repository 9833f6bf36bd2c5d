"""Write chosen images into manifests, and render the message of the commit.

The engine does both in a worker, because files come from a repository, and templates from users who
may write an ImageUpdateAutomation. Only the values beside markers change in a file.
"""

import base64
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from toolkit.errors import StalledError, TransientError
from toolkit.native import calls
from toolkit.native.pool import WorkerMemoryError, WorkerPool, WorkerTimeoutError
from toolkit.objects import Json

SECONDS: Final = 60.0
_TEMPLATE_SECONDS: Final = 5.0


class Image(msgspec.Struct, frozen=True, kw_only=True):
    """The image that a policy has chosen."""

    name: str
    tag: str
    digest: str = ""


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """One value that changes; ``setter`` is the text of its marker."""

    object: Json
    setter: str
    old: str
    new: str


class Changed(msgspec.Struct, frozen=True, kw_only=True):
    """One file that changes; its content is base64."""

    path: str
    content: str = ""
    changes: list[Change] = []

    @property
    def data(self) -> bytes:
        """Return the new content of the file."""
        return base64.b64decode(self.content)


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """A line of a file, from 1."""

    path: str
    line: int


class Updated(msgspec.Struct, frozen=True, kw_only=True):
    """The files that change, and the markers of all files.

    ``policies`` are those that markers beside values name, ``<namespace>:<name>``. ``misplaced``
    are the first markers that are not beside a value.
    """

    files: tuple[Changed, ...] = ()
    policies: tuple[str, ...] = ()
    misplaced: tuple[Place, ...] = ()


class SettersError(TransientError):
    """Files of the repository cannot be updated."""

    default_reason = "UpdateFailed"


class TemplateError(StalledError):
    """A template of a message cannot be read, or uses what there is not."""

    default_reason = "InvalidMessageTemplate"


async def update(
    pool: WorkerPool, root: Path, path: str, images: Mapping[str, Image], *, flow: str
) -> Updated:
    """Return the files below ``root/path`` that change; ``images`` are by ``<namespace>:<name>``.

    ``flow`` is that of ``WorkerPool.call``.

    Raises:
        SettersError: the path does not exist, or a marked file cannot be read or changed in place.
    """
    request = {"root": str(root), "path": path, "images": msgspec.to_builtins(dict(images))}
    try:
        answer = await calls.call(pool, "images.set", request, flow=flow, timeout=SECONDS)
    except calls.EngineError as exc:
        raise SettersError(f"failed to apply policies: {exc}") from exc
    except (WorkerTimeoutError, WorkerMemoryError) as exc:
        raise SettersError(
            f"failed to apply policies: {exc}: keep markers out of large files, or set "
            "spec.update.path"
        ) from exc
    return msgspec.convert(answer, Updated)


async def message(  # noqa: PLR0913 - the inputs of a message
    pool: WorkerPool,
    template: str,
    *,
    namespace: str,
    name: str,
    values: Mapping[str, str],
    images: Mapping[str, Image],
    files: Sequence[Changed],
) -> str:
    """Return the message of a commit.

    Raises:
        TemplateError: the template cannot be read, or takes too long.
    """
    request = {
        "template": template,
        "values": dict(values),
        "namespace": namespace,
        "name": name,
        "images": msgspec.to_builtins(dict(images)),
        "files": [{"path": f.path, "changes": msgspec.to_builtins(f.changes)} for f in files],
    }
    return await _rendered(pool, request, flow=namespace)


async def check(pool: WorkerPool, template: str, *, flow: str) -> None:
    """Check the syntax of a template; ``flow`` is that of ``WorkerPool.call``.

    Raises:
        TemplateError: the text is not a template.
    """
    await _rendered(pool, {"template": template, "check": True}, flow=flow)


async def _rendered(pool: WorkerPool, request: Json, *, flow: str) -> str:
    lead = "spec.git.commit.messageTemplate"
    try:
        answer = await calls.call(
            pool, "images.message", request, flow=flow, timeout=_TEMPLATE_SECONDS
        )
    except calls.EngineError as exc:
        raise TemplateError(f"{lead}: {exc}") from exc
    except (WorkerTimeoutError, WorkerMemoryError) as exc:
        raise TemplateError(f"{lead}: it takes too much time or memory: {exc}") from exc
    text = str(answer["message"])
    if "\0" in text:
        raise TemplateError(f"{lead}: a message cannot hold a NUL character")
    return text
