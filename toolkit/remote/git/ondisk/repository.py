"""Check a commit out of a local repository, in a worker that can read nothing else.

The repository may be a clone of an untrusted one. So it is read as ``toolkit.remote.git`` reads
answers of servers: in a worker with limits on time, memory and files. Neither git nor hooks are
run.
"""

import asyncio
import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec

from toolkit.native import pool as pools
from toolkit.native.kind import WorkerKind
from toolkit.remote.git.errors import GitError
from toolkit.remote.git.limits import Limits, MiB
from toolkit.remote.git.refs import GitReference
from toolkit.remote.git.wire import Checkout
from toolkit.turns import ALONE

_KIND: Final = WorkerKind(
    module="toolkit.remote.git.ondisk.worker",
    memory_limit=256 * MiB,  # as the workers that ask servers
    answer_limit=1 << 20,
    umask=0o022,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Write the files of ``reference`` into the empty directory ``into``.

    ``scratch`` is a directory for a pack; the caller removes it.
    """

    root: str
    reference: GitReference
    into: str
    scratch: str
    limits: Limits = field(default_factory=Limits)


async def checkout(
    root: Path,
    reference: GitReference,
    into: Path,
    *,
    timeout: float,  # noqa: ASYNC109  # a worker is killed, not a task cancelled
) -> Checkout:
    """Write a commit's files into the empty directory ``into``; there is no ``.git``.

    Submodules stay empty directories. ``timeout`` is in seconds.

    Raises:
        GitError: it is not a repository, or lacks the reference.
        GitSpecError: the reference can never be found.
    """
    scratch = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix=".fetch-", dir=into.parent))
    request = Request(root=str(root), reference=reference, into=str(into), scratch=str(scratch))
    pool = pools.WorkerPool(_KIND, size=1, reads=(root,), writes=(into, scratch))
    try:
        answer = await pool.call(
            "checkout", msgspec.msgpack.encode(request), flow=ALONE, timeout=timeout
        )
        return msgspec.msgpack.decode(answer, type=Checkout)
    except pools.WorkerTimeoutError as exc:
        raise GitError(f"reading '{root}' timed out: {exc}") from exc
    except (pools.WorkerDiedError, pools.OperationError) as exc:
        raise GitError(f"reading '{root}' failed: {exc}") from exc
    finally:
        await pool.close()
        await asyncio.to_thread(shutil.rmtree, scratch, ignore_errors=True)
