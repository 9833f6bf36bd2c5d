"""The worker as it is, and attempts."""

from collections.abc import Callable, Mapping

from tests.loopback.native.probes import attempts
from toolkit.remote.git import worker


def operations() -> Mapping[str, Callable[[bytes], bytes]]:
    return {**worker.operations(), **attempts.operations()}
