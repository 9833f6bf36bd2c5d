"""Namespaces of tests: made without kubectl, and waited for, as controllers add to them later."""

import contextlib
import secrets
import time
from http import HTTPStatus

from tests.tools.administrator import Administrator, RefusedError
from tests.tools.waiting import SECONDS, until
from toolkit.kube.client import Client
from toolkit.kube.errors import NotFoundError
from toolkit.objects import GroupVersionKind

NAMESPACE = GroupVersionKind("", "v1", "Namespace")
_CONFIG_MAP = GroupVersionKind("", "v1", "ConfigMap")
_AUTHORITY = "kube-root-ca.crt"
_PATH = "/api/v1/namespaces"


def unused() -> str:
    """Return a name that no namespace has."""
    return f"test-{secrets.token_hex(4)}"


def create_blocking(administrator: Administrator) -> str:
    """Make a namespace under a name of its own, and wait until it takes Pods.

    It takes none before it has its default ServiceAccount, which it gets within milliseconds.
    """
    name = unused()
    administrator.send("POST", _PATH, {"metadata": {"name": name}})
    deadline = time.monotonic() + SECONDS
    while not _has_account(administrator, name):
        assert time.monotonic() < deadline, f"namespace {name} gets no default ServiceAccount"
        time.sleep(0.01)
    return name


def delete_blocking(administrator: Administrator, name: str) -> None:
    """Delete a namespace without waiting for its end; it may be going or gone already."""
    try:
        administrator.send("DELETE", f"{_PATH}/{name}")
    except RefusedError as exc:
        if exc.status not in (HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT):
            raise


def _has_account(administrator: Administrator, name: str) -> bool:
    try:
        return bool(administrator.send("GET", f"{_PATH}/{name}/serviceaccounts/default"))
    except RefusedError as exc:
        if exc.status != HTTPStatus.NOT_FOUND:
            raise
        return False


async def create(admin: Client, name: str = "", **labels: str) -> str:
    """Make a namespace, under a name that nobody uses if none is given, and return its name."""
    name = name or unused()
    metadata = {"name": name, "labels": labels}
    await admin.create({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
    return name


async def gone(admin: Client, name: str) -> None:
    """Wait until a namespace that was deleted is there no more."""

    async def left() -> bool:
        try:
            await admin.get(NAMESPACE, name)
        except NotFoundError:
            return True
        return False

    await until(left)


async def inhabited(admin: Client, namespace: str) -> None:
    """Wait for the ConfigMap that each namespace gets as soon as a controller has seen it."""

    async def found() -> bool:
        with contextlib.suppress(NotFoundError):
            return bool(await admin.get(_CONFIG_MAP, _AUTHORITY, namespace))
        return False

    await until(found)
