"""From an object to its commit, told in blocks."""

from typing import Any

from cli.commands import trace
from toolkit.objects import GroupVersionKind, ObjectRef

WEB = ObjectRef(GroupVersionKind("apps", "v1", "Deployment"), "shop", "web")
APPLIER: dict[str, Any] = {
    "apiVersion": "kustomize.toolkit.fluxcd.io/v1",
    "kind": "Kustomization",
    "metadata": {"name": "apps", "namespace": "flux-system"},
    "spec": {"path": "./deploy"},
    "status": {
        "lastAppliedRevision": "main@sha1:abc",
        "conditions": [
            {
                "type": "Ready",
                "status": "True",
                "message": "Applied revision: main@sha1:abc",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }
        ],
    },
}
SOURCE: dict[str, Any] = {
    "apiVersion": "source.toolkit.fluxcd.io/v1",
    "kind": "GitRepository",
    "metadata": {"name": "apps", "namespace": "flux-system"},
    "spec": {"url": "https://git.example.com/apps", "ref": {"branch": "main"}},
    "status": {"artifact": {"revision": "main@sha1:abc"}},
}


def test_owner_is_read_from_the_labels_of_an_applier() -> None:
    group = "kustomize.toolkit.fluxcd.io"
    labels = {f"{group}/name": "apps", f"{group}/namespace": "flux-system"}

    owner = trace.owner_of({"metadata": {"labels": labels}})

    assert owner is not None
    assert str(owner) == "Kustomization/flux-system/apps"
    assert trace.owner_of({"metadata": {"labels": {f"{group}/name": "apps"}}}) is None


def test_trace_leads_from_object_to_source() -> None:
    found = trace.Trace(object=WEB, applier=APPLIER, sources=(SOURCE,))

    text = trace.render(found)

    blocks = text.split("---\n")
    assert blocks[0].splitlines()[0].split() == ["Object:", "Deployment/web"]
    assert "Managed by Kustomization" in blocks[0]
    assert "Path:" in blocks[1]
    assert "Last reconciled at 2026-01-01T00:00:00Z" in blocks[1]
    assert "Branch:" in blocks[2]
    assert "https://git.example.com/apps" in blocks[2]


def test_object_of_nobody_is_said_to_be_so() -> None:
    text = trace.render(trace.Trace(object=WEB, applier=None, sources=()))

    assert "Not managed" in text
    assert "---" not in text


def test_owner_that_is_gone_is_said_to_be_so() -> None:
    gone = {"apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization"}
    gone |= {"metadata": {"name": "apps", "namespace": "flux-system"}}

    text = trace.render(trace.Trace(object=WEB, applier=gone, sources=()))

    assert "Not found in the cluster" in text


def test_suspended_owner_is_said_to_be_so() -> None:
    suspended = {**APPLIER, "spec": {"suspend": True}}

    text = trace.render(trace.Trace(object=WEB, applier=suspended, sources=()))

    assert "Suspended" in text
