"""The operations of a worker process that runs actions of Helm.

The worker sends each request for a cluster to its parent; it has no network of its own.
"""

from collections.abc import Callable, Mapping
from typing import Final

from toolkit.native import library
from toolkit.native.engine import Engine

OPERATIONS: Final = (
    *("helm.fail", "helm.history", "helm.install", "helm.load", "helm.render"),
    *("helm.rollback", "helm.test", "helm.uninstall", "helm.unlock", "helm.upgrade"),
)

_pipes: Final[list[int]] = []


def connect(requests: int, answers: int) -> None:
    """Keep the pipes for the engine, which is loaded later."""
    _pipes[:] = requests, answers


def pipes() -> tuple[int, int]:
    """Return where replies come from and questions go to."""
    requests, answers = _pipes
    return requests, answers


def operations() -> Mapping[str, Callable[[bytes], bytes]]:
    """Load the engine, and return each of its actions by name."""
    engine = Engine(library.find())
    engine.connect(*pipes())
    return {op: _operation(engine, op) for op in OPERATIONS}


def _operation(engine: Engine, op: str) -> Callable[[bytes], bytes]:
    def run(payload: bytes) -> bytes:
        # The deadline of an action is its own: its release is to be written down after it.
        status, body = engine.call(op, payload)
        return bytes([status]) + body

    return run
