"""Report, once per process, the restrictions of workers that this kernel does not support."""

import logging
from collections.abc import Sequence

from toolkit.errors import StalledError
from toolkit.native.sandbox import landlock, seccomp

logger = logging.getLogger(__name__)


def missing() -> tuple[str, ...]:
    """Return the missing restrictions and their consequences."""
    lacking = []
    if not landlock.version():
        lacking.append("Landlock, so that workers can open every file that this process can")
    if not seccomp.is_available():
        lacking.append("seccomp filters, so that workers can use the network and run programs")
    return tuple(lacking)


def require(lacking: Sequence[str], *, required: bool) -> None:
    """Log what is ``missing``.

    Raises:
        StalledError: a restriction is missing, and ``required`` is set (``--require-sandbox``).
    """
    if not lacking:
        return
    text = "; ".join(lacking)
    if required:
        raise StalledError(
            "--require-sandbox is set, but the kernel or the container's seccomp profile does not"
            f" offer {text}: use nodes with Linux 5.13 or newer and Landlock among their security"
            " modules, or unset the flag"
        )
    logger.warning("workers are not fully confined", extra={"missing": text})
