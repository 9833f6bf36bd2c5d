"""What a kind of worker is: a literal row, which stands where the kind's pool is started."""

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
"""Of the environment, what every worker is given: no token, no key, nobody's address."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerKind:
    """A worker and what it may do; the directories that it works in are given to its pool.

    ``module`` has a function ``operations``, which ``toolkit.native.start`` calls.
    ``memory_limit`` is in bytes, for each process, and ``answer_limit`` for each answer, which the
    parent has to hold. ``network`` is whether it may connect to others.
    ``patience`` is how many seconds a busy worker is waited for before another one starts, which
    takes a quarter of a second of a core. ``starting`` is the same while the first ones start: most
    operations are much shorter than that.
    ``variables`` of the environment are passed on to it, ``reads`` is what it may read of the
    system, and ``environment`` what it is told besides.
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
        """Return the environment of such a process: of our ``own`` what is listed, nothing else.

        ``path`` is where modules are found: it imports exactly what this process would. Temporary
        files go into the first directory that it may write.
        """
        passed = {name: own[name] for name in (*_VARIABLES, *self.variables) if name in own}
        if writes:
            passed["TMPDIR"] = str(writes[0].absolute())
        return {**passed, **self.environment, "PYTHONPATH": os.pathsep.join(filter(None, path))}
