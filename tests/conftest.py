"""Fixtures for tests that need a real API server.

A control plane starts with the first test that asks for it and serves the whole run; each test
works in a namespace of its own. ``PENSTOCK_USE_EXISTING_CLUSTER=<context>`` runs them against a
cluster that exists (see ``controlplane.plane``).
"""

import secrets
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack

import pytest

from controlplane import plane
from controlplane.plane import ControlPlane

# As many test runs of one user may go on at the same time.
_RUNS = 9


@pytest.fixture(scope="session")
def control_plane(request: pytest.FixtureRequest) -> Iterator[ControlPlane]:
    """Run one control plane for the whole test run."""
    with ExitStack() as stack:
        yield _enter(request, stack, plane.obtain("pytest", alternatives=_RUNS - 1))


@pytest.fixture(scope="session")
def second_control_plane(request: pytest.FixtureRequest) -> Iterator[ControlPlane]:
    """Run another control plane beside the first, for tests of remote clusters."""
    with ExitStack() as stack:
        yield _enter(request, stack, plane.start("pytest-remote", alternatives=_RUNS - 1))


@pytest.fixture
def kubectl(control_plane: ControlPlane) -> Callable[..., str]:
    """Run kubectl as administrator: ``kubectl("get", "pods", stdin=None)`` returns its output."""
    return control_plane.kubectl


@pytest.fixture
def namespace(control_plane: ControlPlane) -> Iterator[str]:
    """Make a namespace for one test; it is deleted afterwards, without waiting for its end."""
    name = f"test-{secrets.token_hex(4)}"
    control_plane.kubectl("create", "namespace", name)
    yield name
    control_plane.kubectl("delete", "namespace", name, "--wait=false")


def _enter(
    request: pytest.FixtureRequest,
    stack: ExitStack,
    started: AbstractContextManager[ControlPlane],
) -> ControlPlane:
    # The first run of all builds for minutes, and must be seen to do so.
    capture = request.config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled():
        return stack.enter_context(started)
