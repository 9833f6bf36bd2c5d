"""A namespace with keys behind the gate, for tests of encrypted Secrets."""

import base64
import contextlib
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from controlplane.plane import ControlPlane
from tests.contract.webhooks.conftest import Gate, opened
from tests.tools import rights
from tests.tools.kubectl import Kubectl
from tests.unit.toolkit.decrypt.reference import Reference
from toolkit.decrypt import envelope
from toolkit.kube import config, impersonation
from toolkit.kube.client import Client
from toolkit.kube.errors import ForbiddenError
from toolkit.kube.secrets import SECRET
from toolkit.objects import Json
from toolkit.policy import claims
from webhooks import ciphertextguard, decryption

ROWS = (decryption.ROW, ciphertextguard.ROW)
SOPS = Reference()
SECRET_KIND: Json = {"apiVersion": "v1", "kind": "Secret"}
WORD = "word-4cb0f1d2e6"
MANAGER = "kustomize-controller"


class Vault:
    """A namespace with keys behind the gate, and the people who use it."""

    def __init__(self, gate: Gate, namespace: str) -> None:
        self.gate = gate
        self.namespace = namespace
        self.admin = gate.admin

    async def open(self) -> None:
        """Install the rights, start the process, wait until it is asked."""
        await self.keys("sops")
        await self.gate.start(*ROWS)

        async def decrypts() -> bool:
            applied = await self.apply(self.carrier("probe"), dry_run=True)
            return envelope.CARRIER not in applied["data"]

        async def guards() -> bool:
            stray = {**self.carrier("probe"), "metadata": {"name": "probe"}}
            stray["metadata"]["namespace"] = self.namespace
            with contextlib.suppress(ForbiddenError):
                await self.apply(stray, dry_run=True)
                return False
            return True

        await self.gate.until(decrypts)
        await self.gate.until(guards)

    @property
    def kubectl(self) -> Kubectl:
        """Return kubectl of the administrator in the namespace."""
        return Kubectl(plane=self.gate.control_plane, namespace=self.namespace)

    async def keys(self, name: str, sops: Reference = SOPS) -> None:
        data = {key: base64.b64encode(value).decode() for key, value in sops.secret.items()}
        metadata = {"name": name, "namespace": self.namespace}
        metadata["labels"] = {envelope.KEYS_LABEL: "true"}  # type: ignore[assignment]  # JSON
        await self.admin.apply({**SECRET_KIND, "metadata": metadata, "data": data}, manager="test")

    def document(
        self, name: str = "db", namespace: str = "", sops: Reference = SOPS, **values: str
    ) -> bytes:
        """Encrypt a manifest as the SOPS guide for Flux has it."""
        metadata = {"name": name, "namespace": namespace or self.namespace}
        manifest = {**SECRET_KIND, "metadata": metadata, "stringData": values or {"word": WORD}}
        return sops.json(  # PyYAML takes seconds for what is large
            manifest,
            plain=lambda path: path[0] != "stringData",
            encrypted_regex="^(data|stringData)$",
        )

    def carrier(self, name: str = "db", **values: str) -> Json:
        return envelope.make(self.document(name, **values))

    async def apply(self, obj: Json, *, api: Client | None = None, dry_run: bool = False) -> Json:
        applied = await (api or self.admin).apply(obj, manager=MANAGER, dry_run=dry_run)
        return applied.object

    async def stored(self, name: str = "db") -> Json:
        return await self.admin.get(SECRET, name, self.namespace)

    async def account(self, name: str, *verbs: str, also: Sequence[Json] = ()) -> str:
        """Return the user name of a service account with these verbs on Secrets."""
        user = impersonation.service_account(self.namespace, name)
        await self.person(name, *verbs, user=user, also=also)
        return user

    @asynccontextmanager
    async def with_token(self, name: str) -> AsyncIterator[Client]:
        """Give a client that is a service account, and not the administrator in its name."""
        metadata = {"name": name, "namespace": self.namespace}
        made = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}
        await self.admin.apply(made, manager="test")
        path = f"/api/v1/namespaces/{self.namespace}/serviceaccounts/{name}/token"
        asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        token = str((await self.admin.request("POST", path, body=asked))["status"]["token"])
        plane = self.gate.control_plane
        file = plane.kubeconfig_for(f"{name}-{self.namespace}", token=token)
        async with Client.open(config.from_environment(str(file))) as client:
            yield client

    async def applier(self, kind: str, user: str, **spec: Any) -> Client:
        """Make the applier ``app`` of a kind; return what writes in its name as ``user``."""
        gvk = claims.APPLIERS[kind]
        metadata = {"name": "app", "namespace": self.namespace}
        lent = {
            "interval": "1h",
            "serviceAccountName": user.rpartition(":")[2],
            "decryption": {"provider": "sops", "secretRef": {"name": "sops"}},
            **spec,
        }
        made = {"apiVersion": gvk.api_version, "kind": kind, "metadata": metadata, "spec": lent}
        await self.admin.apply(made, manager="test")
        return self.claiming(kind, user)

    def claiming(self, kind: str, user: str) -> Client:
        """Return what writes as ``user``, and says that it is for the applier ``app``."""
        told = impersonation.provenance(
            applier=f"{kind}/{self.namespace}/app", source="s", revision="r", digest="d"
        )
        return self.admin.impersonating(user, extra=told)

    async def person(
        self, name: str, *verbs: str, decrypt: str = "", user: str = "", also: Sequence[Json] = ()
    ) -> Client:
        """Return a client of a user with these verbs on Secrets, and ``decrypt`` on one."""
        user = user or name
        rules: list[Json] = [
            {"apiGroups": [""], "resources": ["secrets"], "verbs": [*verbs]},
            *also,
        ]
        if decrypt:
            one = {"resourceNames": [decrypt], "verbs": [decryption.VERB]}
            rules.append({"apiGroups": [""], "resources": ["secrets"], **one})
        metadata = {"name": name, "namespace": self.namespace}
        rbac = "rbac.authorization.k8s.io"
        role = {"apiVersion": f"{rbac}/v1", "kind": "Role", "metadata": metadata, "rules": rules}
        binding = {
            **role,
            "kind": "RoleBinding",
            "roleRef": {"apiGroup": rbac, "kind": "Role", "name": name},
            "subjects": [{"apiGroup": rbac, "kind": "User", "name": user}],
        }
        del binding["rules"]
        for obj in (role, binding):
            await self.admin.apply(obj, manager="test")
        for rule in rules:
            for verb in rule["verbs"]:
                one = {**rule, "verbs": [verb]}
                await rights.noticed(self.admin, user, one, namespace=self.namespace)
        return self.admin.impersonating(user)


@asynccontextmanager
async def installed(control_plane: ControlPlane) -> AsyncIterator[Vault]:
    """Run the process in a namespace of its own."""
    async with opened(control_plane) as gate:
        vault = Vault(gate, gate.namespace)
        await vault.open()
        yield vault


def values(secret: Json) -> dict[str, str]:
    data = secret.get("data") or {}
    return {name: base64.b64decode(value).decode() for name, value in data.items()}
