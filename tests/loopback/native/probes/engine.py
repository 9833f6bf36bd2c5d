"""The worker as it is, and attempts."""

from collections.abc import Callable, Mapping

from tests.loopback.native.probes import attempts
from toolkit.native import engineworker


def operations() -> Mapping[str, Callable[[bytes], bytes]]:
    return {**engineworker.operations(), **attempts.operations()}
