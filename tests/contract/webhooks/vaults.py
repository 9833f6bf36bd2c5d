"""A namespace with keys behind the gate, for tests of encrypted Secrets."""

import base64
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from controlplane.plane import ControlPlane
from tests.contract.webhooks.conftest import Gate, opened
from tests.tools import rights
from tests.tools.kubectl import Kubectl
from tests.unit.toolkit.decrypt.reference import Reference
from toolkit.decrypt import envelope
from toolkit.kube.client import Client
from toolkit.kube.errors import ForbiddenError
from toolkit.kube.secrets import SECRET
from toolkit.objects import Json
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

    def document(self, name: str = "db", namespace: str = "", **values: str) -> bytes:
        """Encrypt a manifest as the SOPS guide for Flux has it."""
        metadata = {"name": name, "namespace": namespace or self.namespace}
        manifest = {**SECRET_KIND, "metadata": metadata, "stringData": values or {"word": WORD}}
        return SOPS.json(  # PyYAML takes seconds for what is large
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

    async def person(self, name: str, *verbs: str, decrypt: str = "") -> Client:
        """Return a client of a user with these verbs on Secrets, and ``decrypt`` on one."""
        rules: list[Json] = [{"apiGroups": [""], "resources": ["secrets"], "verbs": [*verbs]}]
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
            "subjects": [{"apiGroup": rbac, "kind": "User", "name": name}],
        }
        del binding["rules"]
        for obj in (role, binding):
            await self.admin.apply(obj, manager="test")
        for rule in rules:
            for verb in rule["verbs"]:
                one = {**rule, "verbs": [verb]}
                await rights.noticed(self.admin, name, one, namespace=self.namespace)
        return self.admin.impersonating(name)


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
