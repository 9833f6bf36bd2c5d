"""What the tests of plans share: who asks, how, and what there is to be planned."""

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import aiohttp
import yaml

from controllers.planning.server import AUDIENCE
from tests.e2e.conftest import GIT_REPOSITORY, Space, revision_of
from tests.tools import rights
from tests.tools.command import Ended, penstock
from toolkit.objects import Json

RBAC = "rbac.authorization.k8s.io"


@dataclass(frozen=True)
class Answer:
    """What the controller said."""

    status: int
    body: Json

    @property
    def changes(self) -> dict[str, Json]:
        """Return what would change, by kind and name."""
        return {f"{one['kind']}/{one['name']}": one for one in self.body["changes"]}


async def token(space: Space, account: str, *, audience: str = AUDIENCE) -> str:
    """Return a token of an account of the space; without an audience, the API server's."""
    path = f"/api/v1/namespaces/{space.namespace}/serviceaccounts/{account}/token"
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest"}
    spec = {"spec": {"audiences": [audience] if audience else []}}
    answer = await space.world.api.request("POST", path, body=body | spec)
    return str(answer["status"]["token"])


async def account(space: Space, name: str) -> None:
    """Make a ServiceAccount in the space."""
    metadata = {"name": name, "namespace": space.namespace}
    await space.world.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata})


async def reader(space: Space, name: str = "reader", *, inventory: str = "") -> str:
    """Make an account that may ask for plans in the space, or one; return its token."""
    where = space.namespace
    metadata = {"name": name, "namespace": where}
    rule: Json = {
        "apiGroups": ["gitops.penstock.dev"],
        "resources": ["inventories/plan"],
        "verbs": ["get"],
        **({"resourceNames": [inventory]} if inventory else {}),
    }
    role = {"apiVersion": f"{RBAC}/v1", "kind": "Role", "metadata": metadata}
    binding = {
        **role,
        "kind": "RoleBinding",
        "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": name},
        "subjects": [{"kind": "ServiceAccount", **metadata}],
    }
    await account(space, name)
    await space.world.apply({**role, "rules": [rule]}, binding)
    user = f"system:serviceaccount:{where}:{name}"
    await rights.noticed(space.world.api, user, rule, namespace=where)
    return await token(space, name)


async def ask(
    space: Space, bearer: str, *, path: str = "", component: str = "kustomize", **query: str
) -> Answer:
    """Ask for a plan of the Kustomization ``app``, or of what another component applies."""
    address = space.world.stack.plan_addresses[component]
    where = path or f"/plan/{space.namespace}/app"
    headers = {"Authorization": f"Bearer {bearer}"} if bearer else {}
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"http://{address}{where}", params=query, headers=headers) as response,
    ):
        text = await response.text()
        return Answer(response.status, json.loads(text) if text.startswith("{") else {"text": text})


async def fetch(space: Space, revision: str) -> None:
    """Have the source fetched, and wait until it has a commit."""
    stamp = str(time.time_ns())
    notes = {"metadata": {"annotations": {"reconcile.fluxcd.io/requestedAt": stamp}}}
    await space.world.api.patch(GIT_REPOSITORY, "app", space.namespace, notes, strategy="merge")
    await space.ready(GIT_REPOSITORY, revision=revision)


async def start(space: Space, files: Mapping[str, str | bytes], **spec: Any) -> str:
    """Apply an application; return its revision."""
    repository = space.repository()
    repository.commit(files)
    await space.world.apply(space.source(repository), space.kustomization(**spec))
    return revision_of(await space.ready())


def secret(name: str, **data: str) -> str:
    """Return the manifest of a Secret."""
    return yaml.safe_dump(
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": data}
    )


async def diff(space: Space, *words: str) -> Ended:
    """Run ``penstock diff`` in the space, as the cluster's administrator."""
    return await penstock(space.world.plane.kubeconfig, "diff", *words, "-n", space.namespace)
