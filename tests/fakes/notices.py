"""Notices as services receive them."""

from controllers.notification.events.event import Event, InvolvedObject
from controllers.notification.events.matching import Notice

SHA = "5b1f8e5c8b8b4f4f9d0f3a2c1e0d9c8b7a6f5e4d"


def event(severity: str = "info", **metadata: str) -> Notice:
    said = {"revision": f"main@sha1:{SHA}", "summary": "of the shop", **metadata}
    found = Event(
        involved_object=InvolvedObject(
            api_version="kustomize.toolkit.fluxcd.io/v1",
            kind="Kustomization",
            namespace="apps",
            name="shop",
            uid="0d7a1c4e-1111-2222-3333-444455556666",
        ),
        severity="error" if severity == "error" else "info",
        timestamp="2026-11-25T16:00:00Z",
        message="health check <failed> & so on: ```Deployment/apps/web```",
        reason="HealthCheckFailed" if severity == "error" else "ReconciliationSucceeded",
        metadata=said,
        reporting_controller="kustomize-controller",
        reporting_instance="kustomize-controller-0",
    )
    return Notice(event=found, metadata=said, alert="apps/all", key="0" * 32)
