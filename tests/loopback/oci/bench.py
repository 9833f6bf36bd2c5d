"""An OCIRepository's source on a bench: what it stands on is fake, the registry is not."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from controllers.access.registries import Registries
from controllers.source.ocirepository import OCIRepositorySource, OCIUpstream
from controllers.source.signatures import Policy, Verify
from controllers.source.source import Fetched, Scratch
from crds import OCI_REPOSITORY
from crds.source_oci import OCIRepository
from tests.fakes.registry import FakeRegistry, tarball
from toolkit.errors import TransientError
from toolkit.remote.cloud.identity import Identity, Login
from toolkit.remote.http.http import Endpoint, Http, Proxy
from toolkit.remote.oci.registry import Tokens
from toolkit.verify.signature import Proof, Signer, VerificationError
from toolkit.verify.subject import Subject

NAME = "team/app"
PLAIN = Endpoint(plain_http=True)
LAYER = tarball({"app.yaml": "kind: ConfigMap\n", "docs/read.me": "hello"})
LOGIN = ("ada", "hunter2")
PROOF = Proof(signer=Signer(identity="ada", fingerprint="f"), message="signed by ada")


@dataclass
class Cluster:
    """Secrets, accounts and a cloud, as far as signing in is concerned."""

    held: dict[str, Mapping[str, bytes]] = field(default_factory=dict)
    accounts: dict[str, tuple[str, ...]] = field(default_factory=dict)
    login: Login | None = None
    dropped: list[Login] = field(default_factory=list)
    asked: list[tuple[str, str, Identity | None]] = field(default_factory=list)

    async def read(self, namespace: str, name: str, *, reason: str) -> Mapping[str, bytes]:
        if name not in self.held:
            raise TransientError(f"Secret '{namespace}/{name}' not found", reason=reason)
        return self.held[name]

    async def pull_secrets(self, namespace: str, name: str) -> tuple[str, ...]:
        del namespace
        return self.accounts[name]

    async def identity(self, namespace: str, account: str) -> Identity | None:
        async def token(*audiences: str) -> str:
            return "/".join(audiences)

        if not account:
            return None
        return Identity(namespace=namespace, name=account, uid="1", annotations={}, token=token)

    async def registry(  # the cloud's signature
        self,
        provider: str,
        host: str,
        who: Identity | None = None,
        *,
        proxy: Proxy | None = None,
        own_ca: bool = False,
    ) -> Login:
        del proxy, own_ca
        self.asked.append((provider, host, who))
        assert self.login is not None
        return self.login

    def drop(self, credential: Login) -> bool:
        self.dropped.append(credential)
        return True


@dataclass
class Verifier:
    """Remembers what it was asked, and answers the same to all."""

    answer: Proof | VerificationError = PROOF
    asked: list[tuple[Subject, Policy]] = field(default_factory=list)

    async def verify(self, subject: Subject, policy: Policy, *, scope: str) -> Proof:
        assert scope
        self.asked.append((subject, policy))
        if isinstance(self.answer, VerificationError):
            raise self.answer
        return self.answer


@dataclass
class Bench:
    """A source, what it stands on, and a directory to fetch into."""

    source: OCIRepositorySource
    cluster: Cluster
    verifier: Verifier
    into: Path

    async def resolve(self, obj: OCIRepository) -> OCIUpstream:
        async with Scratch(self.into.parent) as scratch:
            return await self.source.resolve(obj, scratch)

    async def fetch(self, obj: OCIRepository) -> Fetched:
        return await self.source.fetch(obj, await self.resolve(obj), self.into)

    def files(self) -> dict[str, str]:
        return {
            str(path.relative_to(self.into)): path.read_text()
            for path in self.into.rglob("*")
            if path.is_file()
        }


def make(
    http: Http, tmp_path: Path, *, plain_http: bool = True, verify: Verify | None = None
) -> Bench:
    """Return a bench; ``verify`` verifies instead of its own verifier."""
    cluster, verifier = Cluster(), Verifier()
    registries = Registries(
        http=http,
        tokens=Tokens(),
        secrets=cluster,  # type: ignore[arg-type]  # the one method of Secrets that is used
        pull_secrets=cluster.pull_secrets,
        identity=cluster.identity,
        cloud=cluster,
        plain_http=plain_http,
    )
    into = tmp_path / "scratch" / "into"
    into.mkdir(parents=True)
    source = OCIRepositorySource(
        kind=OCI_REPOSITORY,
        registries=registries,
        secrets=cluster,  # type: ignore[arg-type]  # the one method of Secrets that is used
        verify=verify or verifier.verify,
    )
    return Bench(source, cluster, verifier, into)


def obj(server: FakeRegistry, name: str = NAME, **spec: Any) -> OCIRepository:
    """Return an object as the API server would send it."""
    document = {
        "metadata": {"name": "app", "namespace": "team"},
        "spec": {"url": server.url(name), "interval": "1m", "insecure": True, **spec},
    }
    return msgspec.json.decode(json.dumps(document), type=OCIRepository)
