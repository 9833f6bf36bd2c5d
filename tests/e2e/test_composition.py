"""What is built from several parts, or must come in order: sources, dependencies, definitions."""

from collections.abc import Mapping
from typing import Any

import pytest
import yaml

from tests.e2e.conftest import (
    CONFIG_MAP,
    DEPLOYMENT,
    GIT_REPOSITORY,
    KUSTOMIZATION,
    Space,
    condition,
    config_map,
    deployment,
    is_ready,
)
from toolkit.objects import GroupVersionKind, Json, dig

pytestmark = pytest.mark.asyncio(loop_scope="session")

RELEASE = GroupVersionKind("helm.toolkit.fluxcd.io", "v2", "HelmRelease")
CRD = GroupVersionKind("apiextensions.k8s.io", "v1", "CustomResourceDefinition")


async def start(space: Space, files: Mapping[str, str], **spec: Any) -> Json:
    """Commit the files and return the Kustomization that has applied them; None drops a field."""
    repository = space.repository()
    commit = repository.commit(files)
    app = without(space.kustomization(**spec), *(k for k, v in spec.items() if v is None))
    await space.world.apply(space.source(repository), app)
    return await space.ready(revision=commit)


def without(obj: Json, *fields: str) -> Json:
    """Return an object whose spec lacks some fields."""
    return obj | {"spec": {k: v for k, v in obj["spec"].items() if k not in fields}}


async def change(space: Space, name: str, spec: Json) -> None:
    """Edit a Kustomization as a user would."""
    await space.world.api.patch(
        KUSTOMIZATION, name, space.namespace, {"spec": spec}, strategy="merge"
    )


async def push(space: Space, index: int, name: str, files: Mapping[str, str | None]) -> str:
    """Commit to one of the space's repositories and have its GitRepository fetch it."""
    commit = space.repositories[index].commit(files)
    await space.request(GIT_REPOSITORY, name)
    return commit


def manifest(api_version: str, kind: str, name: str, **fields: Any) -> str:
    metadata = {"name": name, **fields.pop("metadata", {})}
    return yaml.safe_dump({"apiVersion": api_version, "kind": kind, "metadata": metadata, **fields})


def crd(group: str) -> str:
    """Return the definition of the kind Widget, whose objects show how they are by themselves."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}},
    }
    spec = {
        "group": group,
        "names": {"kind": "Widget", "plural": "widgets"},
        "scope": "Namespaced",
        "versions": [version],
    }
    return manifest("apiextensions.k8s.io/v1", CRD.kind, f"widgets.{group}", spec=spec)


async def test_sources_are_mounted_into_one_build_and_each_triggers_it(space: Space) -> None:
    app, base = space.repository(), space.repository("base")
    resources = {"resources": ["../vendor/base/web/web.yaml", "own.yaml"]}
    kustomization = manifest("kustomize.config.k8s.io/v1beta1", "Kustomization", "x", **resources)
    one = app.commit({"app/kustomization.yaml": kustomization, "app/own.yaml": config_map("own")})
    two = base.commit({"web/web.yaml": deployment("web")})
    mounted = {"kind": "GitRepository", "name": "base", "path": "vendor/base"}
    await space.world.apply(
        space.source(app),
        space.source(base, "base"),
        space.kustomization(path="./app", sourceRefs=[mounted]),
    )

    first = await space.ready(revision=one)
    three = await push(space, 1, "base", {"web/web.yaml": deployment("web", replicas=2)})
    second = await space.ready(revision=three)
    web = await space.get(DEPLOYMENT, "web")
    four = await push(space, 0, "app", {"app/own.yaml": config_map("own", v="2")})
    third = await space.ready(revision=four)

    revisions = [obj["status"]["lastAppliedRevision"] for obj in (first, second, third)]
    assert revisions == [
        f"main@sha1:{one}, vendor/base=main@sha1:{two}",
        f"main@sha1:{one}, vendor/base=main@sha1:{three}",
        f"main@sha1:{four}, vendor/base=main@sha1:{three}",
    ]
    assert condition(third, "Ready")["message"] == f"Applied revision: {revisions[2]}"
    assert web["spec"]["replicas"] == 2
    assert (await space.get(CONFIG_MAP, "own"))["data"] == {"v": "2"}


async def test_dependency_must_be_ready_at_the_same_revision(space: Space) -> None:
    files = {"base/a.yaml": config_map("base", v="1"), "app/b.yaml": config_map("app", v="1")}
    repository = space.repository()
    repository.commit(files)
    await space.world.apply(
        space.source(repository),
        space.kustomization("base", path="./base", suspend=True),
        space.kustomization(path="./app", dependsOn=[{"name": "base"}, {"name": "late"}]),
    )
    unready = await space.refused(saying=f"dependency '{space.namespace}/base' is not ready")
    await change(space, "base", {"suspend": False})
    missing = await space.refused(saying=f"dependency '{space.namespace}/late' not found")
    assert not await space.world.exists(CONFIG_MAP, space.namespace, "app")

    await space.world.apply(space.kustomization("late", path="./base", namePrefix="late-"))
    await space.ready()
    # a new revision whose first part is refused holds the rest back
    broken = config_map("base").replace("{}", "[]")
    commit = await push(
        space, 0, "app", {"base/a.yaml": broken, "app/b.yaml": config_map("app", v="2")}
    )
    held = await space.refused(saying="is not ready")

    assert condition(unready, "Ready")["reason"] == "DependencyNotReady"
    assert condition(missing, "Ready")["reason"] == "DependencyNotReady"
    assert commit not in held["status"]["lastAppliedRevision"]
    assert (await space.get(CONFIG_MAP, "app"))["data"] == {"v": "1"}


async def test_a_kustomization_waits_for_a_release(space: Space) -> None:
    repository = space.repository()
    repository.commit({"a.yaml": config_map("app")})
    release = {
        "apiVersion": RELEASE.api_version,
        "kind": RELEASE.kind,
        "metadata": {"name": "base", "namespace": space.namespace},
        "spec": {
            "interval": "1h",
            "suspend": True,
            "chartRef": {"kind": "OCIRepository", "name": "base"},
        },
    }
    await space.world.apply(
        space.source(repository),
        release,
        space.kustomization(dependsOn=[{"kind": "HelmRelease", "name": "base"}]),
    )
    waiting = await space.refused(saying=f"dependency '{space.namespace}/base' is not ready")
    assert not await space.world.exists(CONFIG_MAP, space.namespace, "app")

    ready = {"type": "Ready", "status": "True", "reason": "InstallSucceeded", "message": "done"}
    ready |= {"lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": 1}
    await space.world.api.patch(
        RELEASE,
        "base",
        space.namespace,
        {"status": {"observedGeneration": 1, "conditions": [ready]}},
        strategy="merge",
        subresource="status",
    )
    await space.ready()

    assert condition(waiting, "Ready")["reason"] == "DependencyNotReady"


async def test_drift_of_one_that_waits_for_a_dependency_is_corrected_afterwards(
    space: Space,
) -> None:
    repository = space.repository()
    repository.commit({"base/a.yaml": config_map("base"), "app/b.yaml": config_map("app", v="1")})
    await space.world.apply(
        space.source(repository),
        space.kustomization("base", path="./base"),
        space.kustomization(path="./app", dependsOn=[{"name": "base"}]),
    )
    await space.ready()
    await change(space, "base", {"suspend": True})
    await space.world.api.patch(
        CONFIG_MAP, "app", space.namespace, {"data": {"v": "2"}}, strategy="merge"
    )
    # a pass that was asked for after the edit has failed, and the one for the drift with it
    await space.request()
    await space.refused(saying=f"dependency '{space.namespace}/base' is not ready")

    await change(space, "base", {"suspend": False})
    await space.ready()

    assert (await space.get(CONFIG_MAP, "app"))["data"] == {"v": "1"}


async def test_kustomization_applies_kustomizations_and_sources(space: Space) -> None:
    repository, child = space.repository(), space.repository("child")
    child_commit = child.commit({"web.yaml": deployment("web")})
    source = space.source(child, "child")
    ref = {"kind": "GitRepository", "name": "child"}
    nested = space.kustomization("child", sourceRef=ref, wait=True)
    repository.commit({"child.yaml": yaml.safe_dump_all([source, nested])})

    await space.world.apply(space.source(repository), space.kustomization(wait=True))
    parent = await space.ready()
    inner = await space.get(KUSTOMIZATION, "child")
    await push(space, 0, "app", {"child.yaml": config_map("instead")})

    assert is_ready(inner)
    assert child_commit in inner["status"]["lastAppliedRevision"]
    assert condition(parent, "Healthy")["status"] == "True"
    await space.world.gone(KUSTOMIZATION, space.namespace, "child")
    await space.world.gone(DEPLOYMENT, space.namespace, "web")


async def test_definition_and_its_objects_come_in_one_commit(space: Space) -> None:
    group = f"{space.namespace}.example.org"
    widgets = [manifest(f"{group}/v1", "Widget", name, spec={"size": 1}) for name in ("a", "b")]
    files = {"a-widget.yaml": widgets[0], "b-widget.yaml": widgets[1], "crd.yaml": crd(group)}

    obj = await start(space, files, wait=True)
    kind = GroupVersionKind(group, "v1", "Widget")
    widget = await space.world.api.get(kind, "a", space.namespace)
    # the new kind is watched like any other
    await space.world.api.patch(kind, "a", space.namespace, {"spec": {"size": 2}}, strategy="merge")
    await space.world.until(kind, space.namespace, "a", lambda w: dig(w, "spec", "size") == 1)
    await push(space, 0, "app", dict.fromkeys(files) | {"c.yaml": config_map("c")})

    assert widget["metadata"]["labels"]["kustomize.toolkit.fluxcd.io/name"] == "app"
    assert [entry["id"] for entry in obj["status"]["inventory"]["entries"]] == [
        f"_widgets.{group}_apiextensions.k8s.io_CustomResourceDefinition",
        f"{space.namespace}_a_{group}_Widget",
        f"{space.namespace}_b_{group}_Widget",
    ]
    await space.world.gone(CRD, "", f"widgets.{group}")


async def test_invalid_object_keeps_its_own_definition_but_nothing_else(space: Space) -> None:
    group = f"{space.namespace}.example.org"
    widget = manifest(f"{group}/v1", "Widget", "a", metadata={"labels": {"bad": "not a label!"}})
    repository = space.repository()
    repository.commit({"crd.yaml": crd(group), "w.yaml": widget, "a.yaml": config_map("other")})

    await space.world.apply(space.source(repository), space.kustomization(retryInterval="10m"))
    obj = await space.refused(saying=f"Widget/{space.namespace}/a dry-run failed")

    assert not await space.world.exists(CONFIG_MAP, space.namespace, "other")
    # what was written before is remembered, so it can be pruned
    ids = [entry["id"] for entry in obj["status"]["inventory"]["entries"]]
    assert f"_widgets.{group}_apiextensions.k8s.io_CustomResourceDefinition" in ids
