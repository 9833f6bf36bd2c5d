"""The files of an installation in a repository, with the names of Flux's files.

So a repository that Flux bootstrapped is taken over: the same files get other content. An existing
``kustomization.yaml`` stays, because users put their patches there. Pure.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final

from cli import errors, output
from crds import GIT_REPOSITORY, KUSTOMIZATION
from toolkit.apply import order
from toolkit.objects import Json
from toolkit.remote.git.git import NewFile

COMPONENTS: Final = "gotk-components.yaml"
SYNC: Final = "gotk-sync.yaml"
OVERLAY: Final = "kustomization.yaml"
_APPLIED_EVERY: Final = "10m0s"
_HEADER: Final = "# Written by `penstock bootstrap`, which replaces it: put changes into {}.\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sync:
    """The source for the cluster; both objects have the name of their namespace.

    ``path`` is a directory of the repository, empty for its root. ``secret`` names the Secret with
    the credentials, empty for none. ``sparse`` are the only directories to fetch.
    """

    namespace: str
    url: str
    branch: str
    path: str
    secret: str
    interval: str
    submodules: bool = False
    sparse: tuple[str, ...] = ()

    def objects(self) -> tuple[Json, Json]:
        """Return the GitRepository and the Kustomization."""
        metadata = {"name": self.namespace, "namespace": self.namespace}
        source: Json = {
            "interval": self.interval,
            "ref": {"branch": self.branch},
            "url": self.url,
        }
        if self.secret:
            source["secretRef"] = {"name": self.secret}
        if self.submodules:
            source["recurseSubmodules"] = True
        if self.sparse:
            source["sparseCheckout"] = list(self.sparse)
        applied: Json = {
            "interval": _APPLIED_EVERY,
            "path": f"./{self.path}",
            "prune": True,
            "sourceRef": {"kind": GIT_REPOSITORY.kind, "name": self.namespace},
        }
        return (
            _object(GIT_REPOSITORY.api_version, GIT_REPOSITORY.kind, metadata, source),
            _object(KUSTOMIZATION.api_version, KUSTOMIZATION.kind, metadata, applied),
        )


def cleaned(path: str) -> str:
    """Return the directory that ``--path`` names, from the root and without dots.

    Raises:
        UsageError: it points outside the repository.
    """
    parts = [part for part in PurePosixPath(path).parts if part != "/"]
    if ".." in parts:
        raise errors.UsageError(f"--path {path!r} points outside the repository")
    return "/".join(parts)


def render(objects: Iterable[Json], sync: Sync) -> tuple[NewFile, ...]:
    """Return the files of an installation that the repository applies."""
    folder = "/".join(filter(None, (sync.path, sync.namespace)))
    written = [obj for stage in order.stages(objects) for obj in stage.objects]
    overlay = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": [COMPONENTS, SYNC],
    }
    return (
        NewFile(path=f"{folder}/{COMPONENTS}", content=_yaml(written)),
        NewFile(path=f"{folder}/{SYNC}", content=_yaml(sync.objects())),
        NewFile(path=f"{folder}/{OVERLAY}", content=output.to_yaml(overlay).encode(), keep=True),
    )


def _object(api_version: str, kind: str, metadata: Json, spec: Json) -> Json:
    return {"apiVersion": api_version, "kind": kind, "metadata": dict(metadata), "spec": spec}


def _yaml(objects: Iterable[Json]) -> bytes:
    text = "---\n".join(map(output.to_yaml, objects))
    return (_HEADER.format(OVERLAY) + text).encode()
