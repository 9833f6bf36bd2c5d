"""What tenants who may write Kustomizations and sources try against everybody else."""

import base64
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import yaml

from tests.e2e.conftest import (
    CONFIG_MAP,
    GIT_REPOSITORY,
    NAMESPACE,
    SERVICE_ACCOUNT,
    Space,
    condition,
    config_map,
    is_ready,
)
from toolkit.objects import GroupVersionKind, Json, dig

pytestmark = pytest.mark.asyncio(loop_scope="session")

EXTERNAL_ARTIFACT = GroupVersionKind("source.toolkit.fluxcd.io", "v1", "ExternalArtifact")
_RBAC = "rbac.authorization.k8s.io"
_CRD = "apiextensions.k8s.io/v1"
_NOTE = GroupVersionKind("attack.example", "v1", "Note")
_DEEP = '{"x":' * 3000 + "1" + "}" * 3000
_LABELLED = {"name": "deep", "labels": {"kustomize.toolkit.fluxcd.io/name": "x"}}
_VALUE = "the other tenant's"


@pytest_asyncio.fixture(loop_scope="session")
async def victim(space: Space) -> Json:
    """Give a Secret of another namespace."""
    namespace = f"{space.namespace}-victim"
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "key", "namespace": namespace},
        "data": {"value": base64.b64encode(_VALUE.encode()).decode()},
    }
    await space.world.apply(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}, secret
    )
    return secret


async def start(space: Space, files: Mapping[str, str], **spec: Any) -> None:
    """Commit, and apply a Kustomization of it."""
    repository = space.repository()
    repository.commit(files)
    app = space.kustomization(**spec)
    app["spec"] = {name: value for name, value in app["spec"].items() if value is not None}
    await space.world.apply(space.source(repository), app)
    await space.ready(GIT_REPOSITORY)


async def tenant(space: Space) -> None:
    """Make an account that may do anything in its own namespace, and nothing elsewhere."""
    metadata = {"name": "tenant", "namespace": space.namespace}
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}
    binding = {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "RoleBinding",
        "metadata": metadata,
        "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": "admin"},
        "subjects": [{"kind": SERVICE_ACCOUNT.kind, **metadata}],
    }
    await space.world.apply(account, binding)


@pytest.mark.parametrize("claimed", [False, True], ids=["foreign", "claimed in the build"])
async def test_a_health_check_tells_nothing_that_its_account_may_not_read(
    space: Space, victim: Json, *, claimed: bool
) -> None:
    """CEL could otherwise guess a Secret letter by letter, with Ready as the answer."""
    metadata = victim["metadata"]
    mine = yaml.safe_load(config_map("mine"))
    mine["metadata"]["namespace"] = space.namespace
    files = {"mine.yaml": yaml.safe_dump(mine)}
    if claimed:
        mark = {"annotations": {"kustomize.toolkit.fluxcd.io/ssa": "ignore"}}
        claim = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata | mark}
        files["claim.yaml"] = yaml.safe_dump(claim)
    await tenant(space)

    await start(
        space,
        files,
        targetNamespace=None,
        serviceAccountName="tenant",
        healthChecks=[{"apiVersion": "v1", "kind": "Secret", **metadata}],
        healthCheckExprs=[
            {
                "apiVersion": "v1",
                "kind": "Secret",
                "current": f"data.value == '{victim['data']['value']}'",
            }
        ],
    )

    refused = await space.refused(saying="health check of")
    assert "forbidden" in dig(refused, "status", "conditions", default=[])[0]["message"]


async def test_an_object_nested_too_deep_blinds_nobody(space: Space, tmp_path: Path) -> None:
    """The watch of a kind sees all objects of it with an owner's label, also forged ones."""
    await space.world.apply(_crd())
    note = {"apiVersion": "attack.example/v1", "kind": "Note", "metadata": {"name": "good"}}
    await start(space, {"note.yaml": yaml.safe_dump(note | {"spec": {"text": "mine"}})})
    await space.ready()
    before = space.world.stack.pids()

    deep = tmp_path / "deep.json"
    deep.write_text(json.dumps(note | {"metadata": _LABELLED})[:-1] + f', "spec": {_DEEP}}}')
    space.world.plane.kubectl("create", "-n", space.namespace, "-f", str(deep))
    await space.world.api.patch(
        _NOTE, "good", space.namespace, {"spec": {"text": "changed"}}, strategy="merge"
    )

    await space.world.until(
        _NOTE, space.namespace, "good", lambda obj: dig(obj, "spec", "text") == "mine"
    )
    assert space.world.stack.pids() == before


async def test_a_broken_kubeconfig_ends_nobody_else_s_reconciles(space: Space) -> None:
    """A line break in a token cannot be sent, and is met first by the watches in the background."""
    kubeconfig = {
        "current-context": "x",
        "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
        "clusters": [{"name": "x", "cluster": {"server": "https://127.0.0.1:1"}}],
        "users": [{"name": "x", "user": {"token": "a\nb"}}],
    }
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "remote", "namespace": space.namespace},
        "stringData": {"value": yaml.safe_dump(kubeconfig)},
    }
    await space.world.apply(secret)
    before = space.world.stack.pids()

    await start(space, {"a.yaml": config_map("a")}, kubeConfig={"secretRef": {"name": "remote"}})
    await space.refused()
    await space.world.apply(space.kustomization("mine"))

    assert is_ready(await space.ready(name="mine"))
    assert space.world.stack.pids() == before


BOMBS = {
    "brackets": ("a: " + "[" * 30_000, "32 levels"),
    "aliases": ("a: &a [x, x]\ncurrent-context: [*a, *a]\n", "aliases are not supported"),
    "name": ("current-context: " + "s3cret" * 5_000, "no context of that name"),
}


async def test_no_kubeconfig_ends_the_process_that_reads_it(space: Space) -> None:
    """The gate reads it to give a hint, the controller to connect."""
    before = space.world.stack.pids()
    secrets: list[Json] = [
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": name, "namespace": space.namespace},
            "stringData": {"value": text},
        }
        for name, (text, _) in BOMBS.items()
    ]
    await space.world.apply(*secrets)

    await start(space, {"a.yaml": config_map("a")})
    for name in BOMBS:
        reference = {"secretRef": {"name": name}}
        await space.world.apply(space.kustomization(name, kubeConfig=reference))
    await space.world.apply(space.kustomization("mine"))

    for name, (_, saying) in BOMBS.items():
        refused = await space.refused(name=name, saying=saying)
        message = condition(refused, "Ready")["message"]
        assert "s3cret" not in message
        assert len(message) < 300
    assert is_ready(await space.ready(name="mine"))
    assert space.world.stack.pids() == before


def _crd() -> Json:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "apiVersion": _CRD,
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "notes.attack.example"},
        "spec": {
            "group": "attack.example",
            "scope": "Namespaced",
            "names": {
                "kind": "Note",
                "plural": "notes",
                "singular": "note",
                "listKind": "NoteList",
            },
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {
                        "openAPIV3Schema": {"type": "object", "properties": {"spec": schema}}
                    },
                }
            ],
        },
    }


async def test_a_status_that_names_a_neighbours_artifact_does_not_give_it(space: Space) -> None:
    """Anyone who may write the status of an ExternalArtifact reads no other tenant's repository."""
    neighbour = Space(world=space.world, namespace=f"{space.namespace}-b")
    metadata = {"name": neighbour.namespace}
    await space.world.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
    repository = space.repository()
    repository.commit({"a.yaml": config_map("private", secret="1")})
    await space.world.apply(space.source(repository))
    stored = (await space.ready(GIT_REPOSITORY))["status"]["artifact"]
    external = {
        "apiVersion": EXTERNAL_ARTIFACT.api_version,
        "kind": EXTERNAL_ARTIFACT.kind,
        "metadata": {"name": "stolen", "namespace": neighbour.namespace},
        "spec": {"sourceRef": {"kind": "Thief", "name": "thief"}},
    }
    await space.world.apply(external)
    await space.world.api.patch(
        EXTERNAL_ARTIFACT,
        "stolen",
        neighbour.namespace,
        {"status": {"artifact": stored}},
        strategy="merge",
        subresource="status",
    )

    stolen = {"kind": EXTERNAL_ARTIFACT.kind, "name": "stolen"}
    await space.world.apply(neighbour.kustomization(sourceRef=stolen))

    await neighbour.refused(saying="of another object")
    assert not await space.world.exists(CONFIG_MAP, neighbour.namespace, "private")
    # What stays would be tried again and again until the end of the run.
    await space.world.api.delete(NAMESPACE, neighbour.namespace, "")
