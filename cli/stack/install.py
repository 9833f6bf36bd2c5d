"""The only step that needs an administrator: CRDs, namespace, accounts, RBAC, policies.

Everything is applied server-side, so it can run again over an older installation. The objects are
in ``crds/yaml`` and ``deploy/base``; here they are read, put into the chosen namespace, and
applied.
"""

import asyncio
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

import yaml

from apiserver import registration
from cli import errors, session, sole, watching
from crds import REFERENCE_GRANT
from toolkit.kube import client
from toolkit.kube.errors import NotFoundError
from toolkit.kube.leaderelection import LEASE
from toolkit.objects import GroupVersionKind, Json, ObjectRef, dig
from webhooks import configuration

MANAGER: Final = "penstock"
KEEPER: Final = "penstock-tokens"
"""The service account that requests the others' tokens."""

ROOT: Final = Path(__file__).resolve().parents[2]
CRDS: Final = ROOT / "crds" / "yaml"
RBAC: Final = ROOT / "deploy" / "base" / "rbac"
GATE: Final = ROOT / "deploy" / "base" / "webhooks" / "rbac.yaml"
KEYS: Final = ROOT / "deploy" / "components" / "decryption" / "rbac.yaml"
"""For the gate on this machine, which can verify its callers."""
WINDOW: Final = ROOT / "deploy" / "base" / "apiserver" / "rbac.yaml"
POLICY: Final = ROOT / "deploy" / "base" / "policy" / "installed"
DISTRIBUTION: Final = ROOT / "deploy" / "base" / "distribution"
_PART_OF: Final = "app.kubernetes.io/part-of"
SHARED: Final = "flux-system"
"""The namespace whose sources are shared as well, because repositories for Flux have them there."""
ESTABLISHED_WITHIN: Final = 30.0
_GRANT_CRD: Final = f"{REFERENCE_GRANT.plural}.{REFERENCE_GRANT.group}"
_CRD: Final = GroupVersionKind("apiextensions.k8s.io", "v1", "CustomResourceDefinition")
_NAMESPACE: Final = GroupVersionKind("", "v1", "Namespace")
_PARALLEL: Final = 8


async def install(api: client.Client, *, namespace: str, accounts: Iterable[str]) -> str:
    """Apply everything, wait until the API server serves the kinds, and sum it up in a line.

    Raises:
        UsageError: the generated manifests are not there.
        DeadlineError: a CRD was not established in time.
    """
    definitions, accounts = manifests(CRDS), tuple(accounts)
    shown = [_for_flux(obj, definitions) for obj in manifests(DISTRIBUTION)]
    rbac = [*manifests(RBAC), *_documents(GATE), *_documents(WINDOW)]
    if configuration.NAME in accounts:
        rbac += _documents(KEYS)
    rights = [in_namespace(obj, namespace) for obj in rbac]
    fresh = await is_fresh(api, namespace)
    with errors.ungrouped():
        await apply_all(api, [*definitions, *shown, _namespace(namespace)])
        await apply_all(api, [*rights, *_keeper(namespace, accounts)])
    await established(api, [str(dig(crd, "metadata", "name")) for crd in (*definitions, *shown)])
    api.mapper.invalidate()
    if fresh:  # Objects that a user has deleted since stay deleted.
        with errors.ungrouped():
            await grant(api, {namespace, SHARED})
    return f"{len(definitions)} kinds, namespace {namespace}, {len(rights)} RBAC objects"


def _for_flux(definition: Json, known: Sequence[Json]) -> Json:
    """Return the definition that ``flux check`` and ``flux migrate`` find, with its labels.

    They look for a label that the kinds do not have, because ``flux uninstall`` deletes whatever
    has it.
    """
    labels = {**dig(known[0], "metadata", "labels", default={}), _PART_OF: "flux"}
    labels.pop("app.kubernetes.io/component", None)
    return {**definition, "metadata": {**definition["metadata"], "labels": labels}}


async def is_fresh(api: client.Client, namespace: str) -> bool:
    """Tell whether there was no installation before: only then sources are shared."""
    return not (await exists(api, _NAMESPACE, namespace) and await exists(api, _CRD, _GRANT_CRD))


async def name_this_machine(api: client.Client, *, namespace: str) -> None:
    """Point the Service of the aggregated API at this machine and its port.

    API servers look up no endpoints for a Service of type ExternalName.
    """
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": registration.NAME, "namespace": namespace},
        "spec": {"type": "ExternalName", "externalName": "localhost"},
    }
    await api.apply(service, manager=MANAGER)


async def grant(api: client.Client, namespaces: Iterable[str]) -> None:
    """Let the sources of these namespaces be used from all others."""
    for namespace in sorted(namespaces):
        if not await exists(api, _NAMESPACE, namespace):
            await apply_all(api, [_namespace(namespace)])
        await apply_all(api, [in_namespace(obj, namespace) for obj in manifests(POLICY)])


async def exists(api: client.Client, kind: GroupVersionKind, name: str) -> bool:
    """Tell whether there is a cluster-scoped object of that name."""
    try:
        await api.get(kind, name)
    except NotFoundError:
        return False
    return True


def manifests(folder: Path) -> list[Json]:
    """Return the objects of all YAML files of ``folder`` other than kustomizations, in order."""
    files = sorted(f for f in folder.glob("*.yaml") if f.name != "kustomization.yaml")
    if not files:
        raise errors.UsageError(f"no manifests in {folder}; make them with `make generate`")
    return [doc for file in files for doc in _documents(file)]


def _documents(file: Path) -> list[Json]:
    return [doc for doc in yaml.load_all(file.read_text(), Loader=yaml.CSafeLoader) if doc]


def in_namespace(obj: Json, namespace: str) -> Json:
    """Return a copy that lives in, and whose RBAC subjects live in, ``namespace``."""
    moved = dict(obj)
    metadata = dict(obj.get("metadata") or {})
    if "namespace" in metadata:
        metadata["namespace"] = namespace
    moved["metadata"] = metadata
    if "subjects" in obj:
        moved["subjects"] = [_subject(row, namespace) for row in obj["subjects"]]
    return moved


def _subject(row: dict[str, Any], namespace: str) -> dict[str, Any]:
    return row | {"namespace": namespace} if row.get("kind") == "ServiceAccount" else row


def _namespace(name: str) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": name, "labels": {"app.kubernetes.io/part-of": "penstock"}},
    }


def _keeper(namespace: str, accounts: Iterable[str]) -> list[Json]:
    """Return a service account that may request tokens of the named ones, and hold one Lease."""
    rbac = "rbac.authorization.k8s.io"
    # Without these labels `penstock uninstall` would take the objects for those of a user.
    labels = {"app.kubernetes.io/part-of": "penstock", "app.kubernetes.io/component": KEEPER}
    metadata = {"name": KEEPER, "namespace": namespace, "labels": labels}
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata},
        {
            "apiVersion": f"{rbac}/v1",
            "kind": "Role",
            "metadata": metadata,
            "rules": [
                {
                    "apiGroups": [""],
                    "resources": ["serviceaccounts/token"],
                    "resourceNames": sorted({*accounts, KEEPER}),
                    "verbs": ["create"],
                },
                {"apiGroups": [LEASE.group], "resources": ["leases"], "verbs": ["create"]},
                {
                    "apiGroups": [LEASE.group],
                    "resources": ["leases"],
                    "resourceNames": [sole.NAME],
                    "verbs": ["get", "update"],
                },
            ],
        },
        {
            "apiVersion": f"{rbac}/v1",
            "kind": "RoleBinding",
            "metadata": metadata,
            "roleRef": {"apiGroup": rbac, "kind": "Role", "name": KEEPER},
            "subjects": [{"kind": "ServiceAccount", "name": KEEPER, "namespace": namespace}],
        },
    ]


async def apply_all(api: client.Client, objects: Iterable[Json]) -> None:
    """Apply objects that do not depend on each other."""
    gate = asyncio.Semaphore(_PARALLEL)

    async def one(obj: Json) -> None:
        async with gate:
            await api.apply(obj, manager=MANAGER)

    async with asyncio.TaskGroup() as group:
        for obj in objects:
            group.create_task(one(obj))


async def established(api: client.Client, names: Iterable[str]) -> None:
    """Wait until the API server serves the definitions.

    Raises:
        DeadlineError: it does not in time.
    """
    opened = session.Session(api=api, namespace="", timeout=ESTABLISHED_WITHIN)
    for name in names:
        what = f"CustomResourceDefinition {name} was not established"
        await watching.until(opened, ObjectRef(_CRD, "", name), _isestablished, what=what)


def _isestablished(crd: Json | None) -> bool:
    conditions = dig(crd or {}, "status", "conditions", default=())
    return any(row["type"] == "Established" and row["status"] == "True" for row in conditions)
