"""Fixtures for tests that need a real API server, and connections to other servers.

A control plane starts with the first test that asks for it and serves the whole run; each test
works in a namespace of its own. ``PENSTOCK_USE_EXISTING_CLUSTER=<context>`` runs them against a
cluster that exists (see ``controlplane.plane``).
"""

import gc
import os
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from controlplane import binaries, plane
from controlplane.plane import ControlPlane
from tests.tools import distribution, health, namespaces
from tests.tools.administrator import Administrator
from toolkit.remote.http.http import Http
from toolkit.telemetry import ConsoleFormatter

# How long an example takes tells of the machine: a pause of a fifth of a second would be a failure.
settings.register_profile("tests", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("tests")

# As many test runs of one user may go on at the same time.
_RUNS = 9
_LONGEST_NAME = 32
_COLLECTED_AFTER = 50_000
"""Objects; the default of 700 has the collector take a seventh of the time of unit tests."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the tests in the order of the run."""
    items.sort(key=lambda item: distribution.rank(item.nodeid))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_finish() -> None:
    """Keep the thousands of tests: the collector need not look at them again."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def control_plane_programs() -> Path:
    """Return the directory of the programs that control planes are made of."""
    return binaries.locate()["kube-apiserver"].parent


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Name long bytes by their argument.

    Bytes that are made anew may differ from one worker to the next, as archives and signatures do,
    and workers that collect different tests do not start.
    """
    return argname if isinstance(val, bytes) and len(val) > _LONGEST_NAME else None


def pytest_configure() -> None:
    """Collect garbage seldom, and let programs under test be interrupted.

    A shell that runs us in the background has us ignore SIGINT, and they would inherit that.
    """
    gc.set_threshold(_COLLECTED_AFTER, 20, 50)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_sessionstart(session: pytest.Session) -> None:
    """Have the report of a failure show all that a log line carries, as the product prints it."""
    shown: Any = session.config.pluginmanager.getplugin("logging-plugin")
    shown.report_handler.setFormatter(ConsoleFormatter())


@pytest.fixture(scope="session")
def control_plane() -> Iterator[ControlPlane]:
    """Run one control plane for the whole test run."""
    with (
        plane.obtain("pytest", alternatives=_RUNS - 1) as running,
        health.shared("the control plane", lambda: health.check_plane(running)),
    ):
        yield running


@pytest.fixture(scope="session")
def second_control_plane() -> Iterator[ControlPlane]:
    """Run another control plane beside the first, for tests of remote clusters."""
    with (
        plane.start("pytest-remote", alternatives=_RUNS - 1) as running,
        health.shared("the second control plane", lambda: health.check_plane(running)),
    ):
        yield running


@pytest.fixture
def kubectl(control_plane: ControlPlane) -> Callable[..., str]:
    """Run kubectl as administrator: ``kubectl("get", "pods", stdin=None)`` returns its output."""
    return control_plane.kubectl


@pytest.fixture(scope="session")
def administrator(control_plane: ControlPlane) -> Iterator[Administrator]:
    """Send requests as administrator: ``administrator.send("GET", "/version")``."""
    with Administrator.of(control_plane) as opened:
        yield opened


@pytest.fixture
def namespace(administrator: Administrator) -> Iterator[str]:
    """Make a namespace for one test. It goes with the control plane, if that is ours."""
    name = namespaces.create_blocking(administrator)
    yield name
    if os.environ.get(plane.EXISTING):
        namespaces.delete_blocking(administrator, name)


@pytest.fixture
async def http() -> AsyncIterator[Http]:
    """Keep connections for one test."""
    async with Http() as running:
        yield running
