"""The kind of a worker: a row that is declared beside the pool of the kind."""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from toolkit.native import frames
from toolkit.native.sandbox.confinement import Confinement

_VARIABLES: Final = (
    *("LANG", "LC_ALL", "LC_CTYPE", "TZ"),  # how text and times are read
    *("LD_LIBRARY_PATH", "PYTHONHOME", "PYTHONPYCACHEPREFIX"),  # where the interpreter finds itself
    *("PYTHONDONTWRITEBYTECODE", "PYTHONHASHSEED", "PYTHONUTF8"),
)
"""Environment variables that every worker gets: no tokens, keys or addresses."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerKind:
    """A worker and its permissions; its working directories are given to the pool.

    - ``module`` has a function ``operations``, which ``toolkit.native.start`` calls.
    - ``memory_limit`` is in bytes per process, ``answer_limit`` per answer, which the parent holds.
    - ``network`` allows connections.
    - ``patience`` is the time in seconds to wait for a busy worker before another one is started,
      which costs a quarter of a second of a core. ``starting`` is the same while the first workers
      start, because most operations are much shorter than that.
    - ``variables`` of the environment are passed on; ``environment`` has further variables.
    - ``reads`` are the paths of the system that it may read.
    """

    module: str
    memory_limit: int
    answer_limit: int = frames.MAX_BODY
    umask: int = 0o077
    network: bool = False
    patience: float = 0.05
    starting: float = 1.0
    variables: tuple[str, ...] = ()
    reads: tuple[Path, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)

    def confinement(self, *, reads: Iterable[Path], writes: Iterable[Path]) -> Confinement:
        """Return the limits of a process that this one starts."""
        return Confinement(
            module=self.module,
            parent=os.getpid(),
            memory_limit=self.memory_limit,
            umask=self.umask,
            network=self.network,
            reads=tuple(str(path.absolute()) for path in (*self.reads, *reads)),
            writes=tuple(str(path.absolute()) for path in writes),
        )

    def environ(
        self, own: Mapping[str, str], path: Iterable[str], writes: Sequence[Path]
    ) -> dict[str, str]:
        """Return the environment of a worker: only the listed variables of our ``own``.

        ``path`` is the module search path of this process, so a worker imports the same modules.
        Temporary files go into the first directory that the worker may write.
        """
        passed = {name: own[name] for name in (*_VARIABLES, *self.variables) if name in own}
        if writes:
            passed["TMPDIR"] = str(writes[0].absolute())
        return {**passed, **self.environment, "PYTHONPATH": os.pathsep.join(filter(None, path))}
