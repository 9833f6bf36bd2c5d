"""Fetch the sources of a generator, and build its artifacts in a worker."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from pathlib import Path
from typing import Final, Protocol

import msgspec

from controllers.source.generating.inputs import Input
from controllers.source.generating.wire import BuildRequest, BuildResult
from crds.extensions import ArtifactGeneratorSpec
from crds.meta import Artifact
from toolkit.artifact.composition import limits
from toolkit.artifact.composition.validation import alias_of
from toolkit.artifact.fetch import Extracted
from toolkit.artifact.store import Owner
from toolkit.errors import TransientError, WaitingError
from toolkit.native import pool as pools
from toolkit.native.kind import WorkerKind

KIND: Final = WorkerKind(
    module="controllers.source.generating.worker",  # It parses untrusted globs, archives and YAML.
    memory_limit=limits.MEMORY,
    answer_limit=16 << 20,  # Answers contain no file content.
    network=False,
)


class Workers(Protocol):
    """The part of ``WorkerPool`` that is used here."""

    async def call(self, op: str, payload: bytes, *, flow: str, timeout: float) -> bytes:  # noqa: ASYNC109  # the pool's signature
        """Run one operation in a worker."""
        ...


class Copies(Protocol):
    """The part of ``Fetcher`` that is used here."""

    def extracted(self, artifact: Artifact, owner: Owner) -> AbstractAsyncContextManager[Extracted]:
        """Yield the unpacked artifact, which must belong to ``owner``."""
        ...


class Builder:
    """Builds in workers; all generators share the unpacked copies of the sources."""

    def __init__(self, pool: Workers, fetcher: Copies) -> None:
        self._pool = pool
        self._fetcher = fetcher

    async def build(
        self, spec: ArtifactGeneratorSpec, inputs: Mapping[str, Input], into: Path, *, flow: str
    ) -> BuildResult:
        """Build each artifact into a directory below the empty directory ``into``.

        ``flow`` is that of ``WorkerPool.call``.

        Raises:
            StalledError: a path pattern captured invalid names (ValidationFailed).
            WaitingError: the artifact of a source was replaced meanwhile (SourceFetchFailed).
            TransientError: an artifact of a source cannot be fetched (SourceFetchFailed), or an
                artifact cannot be built (BuildFailed).
        """
        async with AsyncExitStack() as stack:
            sources = {}
            size = 0
            for alias in sorted(_used(spec)):
                try:
                    each = inputs[alias]
                    copy = await stack.enter_async_context(
                        self._fetcher.extracted(each.artifact, each.owner)
                    )
                except WaitingError as exc:
                    raise WaitingError(
                        _unfetched(inputs[alias], exc),
                        reason="SourceFetchFailed",
                        retry_after=exc.retry_after,
                    ) from exc
                except TransientError as exc:
                    message = _unfetched(inputs[alias], exc)
                    raise TransientError(message, reason="SourceFetchFailed") from exc
                sources[alias] = str(copy.path)
                size += copy.size
                if size > limits.TOTAL_BYTES:
                    most = f"{limits.TOTAL_BYTES >> 20} MiB"
                    raise TransientError(
                        f"all sources together are larger than {most}", reason="BuildFailed"
                    )
            request = BuildRequest(
                artifacts=spec.artifacts,
                path_pattern=spec.path_pattern,
                sources=sources,
                into=str(into),
            )
            result = await self._ask(request, flow)
            _require_below(result, into)
            return result

    async def _ask(self, request: BuildRequest, flow: str) -> BuildResult:
        payload = await asyncio.to_thread(msgspec.msgpack.encode, request)
        try:
            answer = await self._pool.call("build", payload, flow=flow, timeout=limits.SECONDS)
        except (pools.WorkerTimeoutError, pools.WorkerDiedError, pools.OperationError) as exc:
            raise TransientError(str(exc), reason="BuildFailed") from exc
        return msgspec.msgpack.decode(answer, type=BuildResult)


def start(*, size: int, reads: Sequence[Path], writes: Sequence[Path]) -> pools.WorkerPool:
    """Return a pool of workers that build below ``writes`` from copies below ``reads``."""
    return pools.WorkerPool(KIND, size=size, reads=reads, writes=writes)


def _require_below(result: BuildResult, into: Path) -> None:
    """Refuse an answer with directories outside ``into``, which the worker may not read itself."""
    for number, each in enumerate(result.artifacts):
        if each.directory != str(into / str(number)):
            raise TransientError(
                "the worker that built the artifacts named a directory that is not theirs",
                reason="BuildFailed",
            )


def _used(spec: ArtifactGeneratorSpec) -> set[str]:
    """Return the aliases of sources whose files are needed; others may only give a revision."""
    texts = [copy.from_ for output in spec.artifacts for copy in output.copy]
    return {alias_of(text)[0] for text in (*texts, spec.path_pattern) if text}


def _unfetched(each: Input, exc: Exception) -> str:
    return f"{each.ref.gvk.kind} '{each.ref.key}': {exc}"
