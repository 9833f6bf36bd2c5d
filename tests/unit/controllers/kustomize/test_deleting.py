"""The end of a Kustomization whose way to its cluster is not usable: told, waited for, ended."""

import base64
import logging
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from controllers.applying.clusters import Clusters
from controllers.applying.identity import Identities
from controllers.kustomize.deleting import KustomizationFinalizer
from controllers.kustomize.memory import Memory
from controllers.kustomize.settings import Settings
from crds.kustomize import Kustomization
from tests.fakes import virtualtime
from tests.fakes.apiserver import FakeApiServer
from tests.fakes.evaluating import NoEvaluator
from toolkit.errors import PenstockError, TransientError
from toolkit.kube.reconciliation import Event, Reconciliation
from toolkit.kube.remote import RemoteClients
from toolkit.objects import GroupVersionKind, Json, ObjectKey
from toolkit.telemetry import ObjectLogger

APPLIER = ObjectKey("penstock", "kustomize-applier")
GVK = GroupVersionKind("kustomize.toolkit.fluxcd.io", "v1", "Kustomization")


class Events:
    """What users are told."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def emit(self, event: Event) -> None:
        self.told.append(event.message)


def deleted(*, seconds_ago: float, ref: Mapping[str, Any]) -> Kustomization:
    then = datetime.now(UTC) - timedelta(seconds=seconds_ago)
    body = {
        "metadata": {
            "name": "app",
            "namespace": "default",
            "deletionTimestamp": f"{then:%Y-%m-%dT%H:%M:%SZ}",
        },
        "spec": {"interval": "1m", "timeout": "1m", "prune": True, "kubeConfig": ref},
        "status": {"inventory": {"entries": [{"id": "default_a__ConfigMap", "v": "v1"}]}},
    }
    return msgspec.convert(body, Kustomization)


def finalize(obj: Kustomization, server: FakeApiServer) -> tuple[PenstockError | None, list[str]]:
    """Run one pass; return how it failed, and what was told."""
    events = Events()

    async def unchanged(obj: Kustomization, _: Json) -> Kustomization:
        return obj

    async def main() -> PenstockError | None:
        async with server.running() as own, RemoteClients(own) as remotes:
            finalizer = KustomizationFinalizer(
                settings=Settings(concurrent_ssa=1),
                clusters=Clusters(
                    own, remotes, lambda *_: None, group="x", manager="y", evaluates=NoEvaluator()
                ),
                identities=Identities(own=own, remotes=remotes, installed=APPLIER),
                memory=Memory(),
            )
            rec = Reconciliation(
                obj,
                GVK,
                id="1",
                triggers=frozenset(),
                recorder=events,
                log=ObjectLogger(logging.getLogger(__name__), {}),
                write_status=unchanged,
            )
            try:
                await finalizer.finalize(rec)
            except PenstockError as error:
                return error
            return None

    return virtualtime.run(main), events.told


def put_secret(server: FakeApiServer, text: str) -> None:
    data = {"value": base64.b64encode(text.encode()).decode()}
    server.put("secrets", "far", data=data)


SECRET = {"secretRef": {"name": "far"}}
CONFIG_MAP = {"configMapRef": {"name": "far"}}


def test_malformed_kubeconfig_is_waited_for_as_long_as_the_spec_says() -> None:
    server = FakeApiServer()
    put_secret(server, "{")

    error, told = finalize(deleted(seconds_ago=30, ref=SECRET), server)

    assert isinstance(error, TransientError)
    assert str(error).startswith("kubeconfig cannot be read: it is not YAML (line 2, column 1)")
    assert str(error).endswith("; correct it within spec.timeout, or the applied objects stay")
    assert not told


@pytest.mark.parametrize(
    "text", ["{", "{}", "current-context: x", "{contexts: [{name: x, context: {cluster: x}}]}"]
)
def test_malformed_kubeconfig_ends_it_afterwards_and_is_told(text: str) -> None:
    server = FakeApiServer()
    put_secret(server, text)

    error, told = finalize(deleted(seconds_ago=61, ref=SECRET), server)

    assert error is None
    assert "the applied objects stay: kubeconfig" in told[0]


def test_unusable_config_map_ends_it_too() -> None:
    server = FakeApiServer()
    server.put("configmaps", "far", data={"provider": "ibm"})

    error, told = finalize(deleted(seconds_ago=61, ref=CONFIG_MAP), server)

    assert error is None
    assert "the applied objects stay: ConfigMap far: provider 'ibm'" in told[0]


def test_missing_kubeconfig_ends_it_at_once() -> None:
    error, told = finalize(deleted(seconds_ago=1, ref=SECRET), FakeApiServer())

    assert error is None
    assert "the applied objects stay: unable to read KubeConfig secret 'default/far'" in told[0]
    assert "Secret 'default/far' not found" in told[0]


def test_cluster_out_of_reach_is_waited_for_without_end() -> None:
    server = FakeApiServer()
    put_secret(
        server,
        "{current-context: x, contexts: [{name: x, context: {cluster: x}}],"
        " clusters: [{name: x, cluster: {server: 'https://127.0.0.1:1'}}]}",
    )

    error, told = finalize(deleted(seconds_ago=3600, ref=SECRET), server)

    assert isinstance(error, TransientError)
    assert not told
