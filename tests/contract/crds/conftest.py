"""The definitions, applied once to the control plane of the test run, and ways to write objects.

``objects`` sends requests, ``run`` and ``refused`` start kubectl, for what that does itself: to
merge, to compare, to print. ``refused`` of both expects a refusal; all else raises when it fails.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import yaml

import crds
from controlplane.errors import ControlPlaneError
from controlplane.plane import ControlPlane
from tests.tools.administrator import Administrator

Kubectl = Callable[..., str]

MERGE = "application/merge-patch+json"

_STRICT = {"fieldValidation": "Strict"}
_DRY = {"dryRun": "All"}
_PLURALS = {kind.kind: (kind.plural, kind.namespaced) for kind in crds.KINDS}


@pytest.fixture(scope="session")
def run(control_plane: ControlPlane, definitions: None) -> Kubectl:
    """Run kubectl as the administrator and return what it prints; documents go in on stdin."""
    del definitions

    def call(*args: str, documents: object = None) -> str:
        text = "" if documents is None else yaml.safe_dump_all(_listed(documents))
        return control_plane.kubectl(*args, stdin=text)

    return call


@pytest.fixture(scope="session")
def refused(run: Kubectl) -> Kubectl:
    """Run kubectl, which must fail, and return why it did."""

    def call(*args: str, documents: object = None) -> str:
        try:
            done = run(*args, documents=documents)
        except ControlPlaneError as exc:
            return str(exc)
        raise AssertionError(f"kubectl {' '.join(args)} was not refused; it says {done}")

    return call


@dataclass(frozen=True)
class Objects:
    """Requests about objects of ours in one namespace. All are strict about unknown fields."""

    administrator: Administrator
    namespace: str

    def accepted(self, document: dict[str, Any]) -> dict[str, Any]:
        """Return what would be stored, without storing it."""
        path = self.path(document)
        return self.administrator.send("POST", path, document, query=_STRICT | _DRY)

    def refused(self, document: dict[str, Any]) -> str:
        """Return why the API server does not take a document."""
        path = self.path(document)
        return self.administrator.refused("POST", path, document, query=_STRICT | _DRY)

    def create(self, document: dict[str, Any]) -> dict[str, Any]:
        """Store a document and return what is stored."""
        return self.administrator.send("POST", self.path(document), document, query=_STRICT)

    def apply(self, document: dict[str, Any], *, manager: str = "test") -> dict[str, Any]:
        """Apply a document from the server's side and return what is stored."""
        return self.administrator.send(
            "PATCH",
            self.path(document, document["metadata"]["name"]),
            document,
            content="application/apply-patch+yaml",
            query=_STRICT | {"fieldManager": manager},
        )

    def get(self, document: dict[str, Any]) -> dict[str, Any]:
        """Return what is stored under the name of a document, in its version."""
        return self.administrator.send("GET", self.path(document, document["metadata"]["name"]))

    def patch_status(self, document: dict[str, Any], status: dict[str, Any]) -> None:
        """Merge into the status of what is stored under the name of a document."""
        path = self.path(document, document["metadata"]["name"], "status")
        self.administrator.send("PATCH", path, {"status": status}, content=MERGE)

    def refused_status(self, document: dict[str, Any], status: dict[str, Any]) -> str:
        """Return why the API server does not take a status."""
        path = self.path(document, document["metadata"]["name"], "status")
        return self.administrator.refused("PATCH", path, {"status": status}, content=MERGE)

    def path(self, document: dict[str, Any], *rest: str) -> str:
        """Return the path of the kind and version of a document, and of what is below."""
        plural, namespaced = _PLURALS[document["kind"]]
        place = ("namespaces", self.namespace) if namespaced else ()
        return "/".join(("/apis", document["apiVersion"], *place, plural, *rest))


@pytest.fixture(scope="session")
def drafts(administrator: Administrator, definitions: None) -> Objects:
    """Give requests for tests that store nothing, and so need no namespace of their own."""
    del definitions
    return Objects(administrator, "default")


@pytest.fixture
def objects(administrator: Administrator, definitions: None, namespace: str) -> Objects:
    """Give requests about objects in the test's namespace."""
    del definitions
    return Objects(administrator, namespace)


def _listed(documents: object) -> list[object]:
    return documents if isinstance(documents, list) else [documents]
