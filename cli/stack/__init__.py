"""Penstock as processes on this machine: ``penstock up``, the demo, the bench and the e2e tests.

Use it as a Python API::

    from cli.stack import stack

    async with stack.start(admin_kubeconfig, state=tmp_path) as penstock:
        penstock.storage_address          # "127.0.0.1:41234", the source component's file server
        await penstock.kill("source")     # SIGKILL; the supervisor starts it again
        await penstock.stop("kustomize")  # SIGTERM, and it stays down ...
        await penstock.restart("kustomize", flags=["--concurrent=1"])   # ... until this

Reading order: ``stack.py`` (the story), ``install.py``, ``tokens.py``, ``processes.py``.
"""

from typing import Final

from cli.stack.components import Component

COMPONENTS: Final = (
    # Provider, Alert, Receiver: first, so that others know the address for events
    Component(
        name="notification",
        module="controllers",
        service_account="notification-controller",
        takes_events=True,
    ),
    # GitRepository: fetches, stores and serves artifacts
    Component(
        name="source",
        module="controllers",
        service_account="source-controller",
        stores_artifacts=True,
    ),
    # Kustomization: builds, applies, waits, prunes
    Component(
        name="kustomize",
        module="controllers",
        service_account="kustomize-controller",
        makes_plans=True,
    ),
    # HelmRelease: releases charts, keeps and repairs the releases
    Component(
        name="helm",
        module="controllers",
        service_account="helm-controller",
        makes_plans=True,
    ),
    # ImageRepository, ImagePolicy, ImageUpdateAutomation: scans tags, chooses, commits
    Component(
        name="image",
        module="controllers",
        service_account="image-controller",
        keeps_files=True,
    ),
    # what may enter: validation, policies, decryption, conversion
    Component(
        name="webhooks", module="webhooks", service_account="webhook", asked_by_api_server=True
    ),
    # what can be asked: artifacts and inventories
    Component(
        name="apiserver",
        module="apiserver",
        service_account="penstock-apiserver",
        asked_by_api_server=True,
        serves_api=True,
    ),
)
