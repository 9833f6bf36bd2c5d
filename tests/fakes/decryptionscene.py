"""A cluster with keys for encrypted Secrets, and the plugin that is asked about them."""

import asyncio
import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.fakes.apiserver import FakeApiServer
from tests.unit.toolkit.decrypt.reference import Reference
from toolkit.decrypt import engine, envelope
from toolkit.decrypt.engine import EngineKeys
from toolkit.decrypt.kms.services import KeyServices
from toolkit.kube.client import Client
from toolkit.kube.secrets import SECRET, Secrets
from toolkit.kube.tokens import ServiceAccountTokens
from toolkit.objects import Json, dig
from toolkit.policy import claims
from toolkit.remote.cloud.cache import TokenCache
from toolkit.remote.cloud.cloud import Cloud
from toolkit.remote.http.http import Http
from webhooks.decryption import Decryption, SignIns
from webhooks.plugin import Answer, DeniedError
from webhooks.request import Request, User

SOPS = Reference()
OTHERS = Reference()
ALICE = User(name="alice", groups=("dev",))
PLURALS = {"Kustomization": "kustomizations", "HelmRelease": "helmreleases"}
APPLIERS = tuple(PLURALS)
"""The kinds that may vouch."""


@dataclass
class Grants:
    """Stands in for the authorizer: who may decrypt with which Secret."""

    given: set[tuple[str, str, str]] = field(default_factory=set)
    asked: list[str] = field(default_factory=list)

    async def allowed(self, user: User, *, namespace: str, name: str = "", **what: str) -> bool:
        self.asked.append(f"{what['verb']} {what['resource']} {namespace}/{name}")
        return (user.name, namespace, name) in self.given


def manifest(name: str = "db", namespace: str | None = "prod", **values: str) -> Json:
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
    data = {"stringData": values or {"password": "hunter2"}}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, **data}


def carrier(sops: Reference = SOPS, *, namespace: str = "prod", **values: str) -> Json:
    document = sops.yaml(
        manifest(**values),
        plain=lambda path: path[0] not in ("data", "stringData"),
        encrypted_regex="^(data|stringData)$",
    )
    made = envelope.make(document)
    return {**made, "metadata": {**made["metadata"], "namespace": namespace}}


def plain(**data: str) -> Json:
    """Return a Secret as it is stored after decryption."""
    secret = envelope.mark(manifest())
    del secret["stringData"]
    secret["metadata"]["annotations"] = {
        envelope.DOCUMENT: "sha256:0",
        envelope.RECIPIENTS: "age:x",
    }
    encoded = {name: base64.b64encode(value.encode()).decode() for name, value in data.items()}
    return {**secret, "data": encoded}


def request(obj: Json, *, old: Json | None = None, user: User = ALICE, **more: Any) -> Request:
    return Request(
        uid="1",
        operation="UPDATE" if old else "CREATE",
        gvk=SECRET,
        asked=SECRET,
        resource="secrets",
        namespace=dig(obj, "metadata", "namespace"),
        name=dig(obj, "metadata", "name"),
        user=user,
        object=obj,
        old=old,
        **more,
    )


def applier(
    name: str = "app",
    namespace: str = "prod",
    *,
    account: str = "deployer",
    kind: str = "Kustomization",
) -> User:
    return User(
        name=f"system:serviceaccount:{namespace}:{account}",
        extra={"provenance.penstock.dev/applier": (f"{kind}/{namespace}/{name}",)},
    )


class Cluster:
    """A namespace ``prod`` with keys, and perhaps appliers."""

    def __init__(self) -> None:
        self.server = FakeApiServer()
        for kind, plural in PLURALS.items():
            gvk = claims.APPLIERS[kind]
            self.server.kinds[gvk.group, gvk.version, plural] = kind
        self.grants = Grants()
        self.keys("sops", SOPS)

    def keys(self, name: str, sops: Reference, *, namespace: str = "prod") -> None:
        self.entries(name, sops.secret, namespace=namespace)

    def entries(self, name: str, held: Mapping[str, bytes], *, namespace: str = "prod") -> None:
        data = {key: base64.b64encode(value).decode() for key, value in held.items()}
        metadata = {"labels": {envelope.KEYS_LABEL: envelope.ENABLED}}
        self.server.put("secrets", name, namespace, data=data, metadata=metadata)

    def kustomization(self, **spec: Any) -> None:
        self.applier("Kustomization", **spec)

    def applier(self, kind: str, **spec: Any) -> None:
        spec = {"decryption": {"provider": "sops", "secretRef": {"name": "sops"}}, **spec}
        metadata = {"name": "app", "namespace": "prod"}
        self.server.objects[PLURALS[kind], "prod", "app"] = {"metadata": metadata, "spec": spec}

    def grant(self, *names: str, namespace: str = "prod") -> None:
        self.grants.given |= {(ALICE.name, namespace, name) for name in names or ("sops",)}

    def review(self, asked: Request) -> Answer:
        async def inside() -> Answer:
            async with self.server.running() as client, Http() as http:
                cache = TokenCache()
                tokens = ServiceAccountTokens(client, cache=cache)
                pool = engine.start()  # nothing here is for it
                services = KeyServices(Cloud(http, cache=cache), engine=EngineKeys(pool))
                return await self.decide(asked, client, SignIns(services=services, tokens=tokens))

        return asyncio.run(inside())

    async def decide(self, asked: Request, client: Client, sign_ins: SignIns) -> Answer:
        plugin = Decryption(
            client=client,
            secrets=Secrets(client),
            authorize=self.grants,
            namespace="penstock-system",
            sign_ins=sign_ins,
        )
        return await plugin.review(asked)

    def denied(self, asked: Request, saying: str) -> DeniedError:
        with pytest.raises(DeniedError, match=saying) as caught:
            self.review(asked)
        assert "hunter2" not in str(caught.value)
        return caught.value


def values(answer: Answer) -> dict[str, str]:
    assert answer.object is not None
    return {k: base64.b64decode(v).decode() for k, v in answer.object["data"].items()}
