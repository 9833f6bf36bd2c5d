"""Whether what many tests share still works, asked after each failure.

Without it, a process that is gone fails hundreds of tests one deadline after the other. A session
fixture says how to ask in a ``with shared(name, check):`` around its ``yield``; the run ends with
the first check that raises. ``pyproject.toml`` loads this plugin for every run.
"""

import http
import http.client
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

from controlplane.errors import ControlPlaneError

if TYPE_CHECKING:
    # A run of unit tests has no use for all that they import.
    from cli.stack.stack import Stack
    from controlplane.plane import ControlPlane

_SECONDS = 30
_CHECKS: dict[str, Callable[[], None]] = {}


class BrokenError(Exception):
    """What tests share does not work any more."""


@contextmanager
def shared(name: str, check: Callable[[], None]) -> Iterator[None]:
    """Have something asked for its health after each failure in the block.

    ``check`` raises ``BrokenError`` if the thing does not work.
    """
    _CHECKS[name] = check
    try:
        yield
    finally:
        del _CHECKS[name]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """End the run after a failure if what the tests share is broken."""
    report = yield
    if report.failed and not item.session.shouldstop:
        item.session.shouldstop = broken()
    return report


def broken() -> str:
    """Return what is broken and how, empty if everything that tests share works."""
    for name, check in _CHECKS.items():
        try:
            check()
        except BrokenError as exc:
            return f"{name} is broken: {exc}"
    return ""


def check_plane(plane: "ControlPlane") -> None:
    """Ask the API server whether it is ready.

    Raises:
        BrokenError: it is not, or does not answer.
    """
    try:
        plane.kubectl("get", "--raw", "/readyz", timeout=_SECONDS)
    except ControlPlaneError as exc:
        raise BrokenError(str(exc)) from exc


def check_stack(stack: "Stack") -> None:
    """Ask each process of a stack whether it lives. One that has ended is not waited for.

    Raises:
        BrokenError: a process does not run, or does not answer.
    """
    for name in stack.names:
        component, _, replica = name.rpartition("-")
        check_process(stack, component, int(replica))


def check_process(stack: "Stack", component: str, replica: int) -> None:
    """Ask one process of a stack whether it lives. One that has ended is not waited for.

    Raises:
        BrokenError: it does not run, or does not answer.
    """
    name = f"{component}-{replica}"
    log = stack.log(component, replica=replica)
    if name not in stack.pids():
        raise BrokenError(f"{name} does not run; see {log}")
    address = urlsplit(stack.health(component, replica=replica)).netloc
    try:
        status = _get(address, "/healthz")
    except OSError as exc:
        raise BrokenError(f"{name} does not answer: {exc}; see {log}") from exc
    if status != http.HTTPStatus.OK:
        raise BrokenError(f"{name} says {status} to /healthz; see {log}")


def _get(address: str, path: str) -> int:
    with closing(http.client.HTTPConnection(address, timeout=_SECONDS)) as connection:
        connection.request("GET", path)
        return connection.getresponse().status
