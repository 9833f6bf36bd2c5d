"""The permissions of one worker process: a JSON document, which the pool passes as an argument.

It has no paths of code: a worker may read the libraries and packages that it runs from. It is no
dataclass, because every worker imports this module before it answers, and ``dataclasses`` takes 6
ms.
"""

import json
from typing import NamedTuple, Self


class Confinement(NamedTuple):
    """The limits of one process; ``memory_limit`` is in bytes, ``parent`` a process id.

    Everything below ``reads`` may be read, and below ``writes`` read and changed. Paths that do
    not exist are left out. With ``network`` the process may connect to others, never listen.
    """

    module: str
    parent: int
    memory_limit: int
    umask: int
    network: bool
    reads: tuple[str, ...]
    writes: tuple[str, ...]

    def encode(self) -> str:
        """Return the document."""
        return json.dumps(self._asdict())

    @classmethod
    def decode(cls, document: str) -> Self:
        """Read what ``encode`` wrote."""
        fields = json.loads(document)  # noqa: TID251  # the parent wrote it
        for name in ("reads", "writes"):
            fields[name] = tuple(fields[name])
        return cls(**fields)
