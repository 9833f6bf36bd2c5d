"""The command against a real API server, with objects whose status the tests write themselves."""

import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import crds
from cli.__main__ import main
from controlplane.plane import ControlPlane
from tests.tools.administrator import Administrator

SOURCE_GROUP = "source.toolkit.fluxcd.io"
KUSTOMIZE_GROUP = "kustomize.toolkit.fluxcd.io"
SHA = "0123456789abcdef0123456789abcdef01234567"
REVISION = f"main@sha1:{SHA}"
_RESOURCES = {
    "configmap": ("/api/v1", "configmaps"),
    "event": ("/api/v1", "events"),
    "secret": ("/api/v1", "secrets"),
    "deployment": ("/apis/apps/v1", "deployments"),
    **{kind.singular: (f"/apis/{kind.api_version}", kind.plural) for kind in crds.KINDS},
}


@dataclass(frozen=True)
class Result:
    """What one run of the command gave."""

    code: int
    out: str
    err: str


Penstock = Callable[..., Result]
Flux = Callable[..., Result]


@pytest.fixture
def penstock(
    control_plane: ControlPlane,
    definitions: None,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Penstock:
    """Run the command against the shared control plane."""
    del definitions
    return command_in(control_plane, monkeypatch, capsys)


def command_in(
    plane: ControlPlane, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Penstock:
    """Return the command of a user whose kubeconfig is the administrator's."""
    monkeypatch.setenv("KUBECONFIG", str(plane.kubeconfig))
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)

    def run(*arguments: str) -> Result:
        capsys.readouterr()
        code = main(arguments)
        said = capsys.readouterr()
        return Result(code=code, out=said.out, err=said.err)

    return run


@dataclass(frozen=True)
class Cluster:
    """Writes objects and their status."""

    plane: ControlPlane
    administrator: Administrator
    namespace: str

    def write(self, obj: dict[str, Any], *, status: dict[str, Any] | None = None) -> None:
        """Apply an object in the test's namespace, then its status as a controller would."""
        obj["metadata"].setdefault("namespace", self.namespace)
        kind, name = obj["kind"], obj["metadata"]["name"]
        self._patch(kind, name, obj, "application/apply-patch+yaml")
        if status is not None:
            self.patch_status(kind, name, {"status": status})

    def patch_status(self, kind: str, name: str, body: dict[str, Any]) -> None:
        self._patch(kind, f"{name}/status", body, "application/merge-patch+json")

    def patch(self, kind: str, name: str, body: dict[str, Any]) -> None:
        self._patch(kind, name, body, "application/merge-patch+json")

    def read(self, kind: str, name: str) -> dict[str, Any]:
        return self.administrator.send("GET", self._path(kind, name))

    def _patch(self, kind: str, name: str, body: dict[str, Any], content: str) -> None:
        query = {"fieldManager": "kubectl", "fieldValidation": "Strict"}
        self.administrator.send("PATCH", self._path(kind, name), body, content=content, query=query)

    def _path(self, kind: str, name: str) -> str:
        version, plural = _RESOURCES[kind.lower()]
        return f"{version}/namespaces/{self.namespace}/{plural}/{name}"

    @property
    def revision(self) -> str:
        return REVISION

    @property
    def artifact(self) -> dict[str, Any]:
        return {
            "digest": f"sha256:{'0' * 64}",
            "lastUpdateTime": "2026-01-01T00:00:00Z",
            "path": "gitrepository/x/y.tar.gz",
            "revision": REVISION,
            "url": "http://127.0.0.1/gitrepository/x/y.tar.gz",
        }

    def ready(
        self, status: str, message: str, *, reason: str = "Succeeded", generation: int = 1
    ) -> list[dict[str, Any]]:
        row = {
            "type": "Ready",
            "status": status,
            "reason": reason,
            "message": message,
            "lastTransitionTime": "2026-01-01T00:00:00Z",
            "observedGeneration": generation,
        }
        return [row]

    def git_repository(self, name: str, **status: Any) -> None:
        spec = {"interval": "1m", "url": "https://git.example.com/x", "ref": {"branch": "main"}}
        self.write(custom(SOURCE_GROUP, "GitRepository", name, spec), status=status or None)

    def kustomization(
        self, name: str, *, spec: dict[str, Any] | None = None, **status: Any
    ) -> None:
        whole = {
            "interval": "1m",
            "prune": True,
            "path": "./deploy",
            "sourceRef": {"kind": "GitRepository", "name": "apps"},
            **(spec or {}),
        }
        self.write(custom(KUSTOMIZE_GROUP, "Kustomization", name, whole), status=status or None)


@pytest.fixture
def cluster(
    control_plane: ControlPlane, administrator: Administrator, definitions: None, namespace: str
) -> Cluster:
    del definitions
    return Cluster(plane=control_plane, administrator=administrator, namespace=namespace)


def custom(group: str, kind: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": f"{group}/v1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": spec,
    }


@pytest.fixture
def flux(cluster: Cluster, flux_program: Path, tmp_path: Path) -> Flux:
    """Run Flux's command as the same user."""

    def run(*arguments: str) -> Result:
        ended = subprocess.run(
            [flux_program, *arguments],
            env={
                "PATH": os.defpath,
                "HOME": str(tmp_path),
                "KUBECONFIG": str(cluster.plane.kubeconfig),
            },
            capture_output=True,
            text=True,
            check=False,
        )
        return Result(ended.returncode, ended.stdout, ended.stderr)

    return run
