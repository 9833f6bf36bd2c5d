"""The worker as it is, and attempts."""

from collections.abc import Callable, Mapping

from controllers.source.generating import worker
from tests.loopback.native.probes import attempts


def operations() -> Mapping[str, Callable[[bytes], bytes]]:
    return {**worker.operations(), **attempts.operations()}
