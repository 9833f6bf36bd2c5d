"""Key services that run, documents that are encrypted for them, and who reads those."""

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
import yaml

from tests.fakes import kmsaws, kmsazure, kmsgcp
from tests.fakes.clouds import FakeClouds
from tests.fakes.issuer import Issuer
from tests.fakes.kmsaws import AwsKms
from tests.fakes.kmsazure import AzureVault
from tests.fakes.kmsgcp import GcpKms
from tests.fakes.kmsvault import TOKEN, FakeVault
from tests.unit.toolkit.decrypt.reference import Reference
from toolkit.decrypt import engine, sops
from toolkit.decrypt.engine import EngineKeys
from toolkit.decrypt.errors import DecryptionError
from toolkit.decrypt.keyring import KeyRing
from toolkit.decrypt.kms import logins
from toolkit.decrypt.kms.opened import OpenedKeys
from toolkit.decrypt.kms.services import KeyServices
from toolkit.decrypt.kms.ways import Access
from toolkit.remote.cloud.cache import TokenCache
from toolkit.remote.cloud.cloud import Cloud
from toolkit.remote.cloud.identity import Identity
from toolkit.remote.http.http import Http

ISSUER = Issuer()
WORD = "word-b7e1c0d94f"


@dataclass
class Scene:
    """The services, one author of documents, and readers with different credentials."""

    clouds: FakeClouds
    http: Http
    vault: FakeVault
    engine: EngineKeys
    sops: Reference = field(default_factory=Reference)
    opened: OpenedKeys = field(default_factory=OpenedKeys)
    accessed: int = 0

    def __post_init__(self) -> None:
        self.aws = AwsKms(self.clouds.aws, allowed={kmsaws.USER})
        self.azure = AzureVault(self.clouds.azure)
        self.gcp = GcpKms(self.clouds.gcp)
        self.clouds.more.update(
            {
                "kms.": self.aws.answer,
                "sts.eu-west-1": self.aws.sts,
                ".vault.azure.net": self.azure.answer,
                "login.microsoftonline.com": self.azure.enter,
                "cloudkms.googleapis.com": self.gcp.answer,
                "oauth2.googleapis.com": self.gcp.tokens,
            }
        )
        self.cloud = self.process()

    def process(self, **environment: str) -> Cloud:
        """Return the way in to clouds for a process with these environment variables."""
        node = {
            "AWS_EC2_METADATA_SERVICE_ENDPOINT": self.clouds.node,
            "AZURE_POD_IDENTITY_AUTHORITY_HOST": self.clouds.node,
            "GCE_METADATA_HOST": self.clouds.node.removeprefix("http://"),
            **environment,
        }
        return Cloud(self.http, cache=TokenCache(), environment=node, trust=self.clouds.trust)

    # Recipients, as the block lists them.

    def kms(self, key: bytes | None = None, **changes: Any) -> dict[str, Any]:
        context = changes.get("context")
        enc = self.aws.encrypt(key or self.sops.key, changes.get("arn", kmsaws.ARN), context)
        return {"arn": kmsaws.ARN, "enc": enc, "aws_profile": "", **changes}

    def gcp_kms(self, key: bytes | None = None, **changes: Any) -> dict[str, Any]:
        enc = self.gcp.encrypt(key or self.sops.key)
        return {"resource_id": kmsgcp.KEY, "enc": enc, **changes}

    def azure_kv(self, key: bytes | None = None, **changes: Any) -> dict[str, Any]:
        names = {"vault_url": kmsazure.VAULT, "name": "sops", "version": kmsazure.VERSION}
        return {**names, "enc": self.azure.encrypt(key or self.sops.key), **changes}

    def hc_vault(self, key: bytes | None = None, **changes: Any) -> dict[str, Any]:
        return self.vault.recipient(key or self.sops.key, **changes)

    def document(self, **metadata: Any) -> bytes:
        """Encrypt for these recipients, and for nobody's age key unless told so."""
        return self.sops.yaml({"word": WORD}, **{"age": [], **metadata})

    # Secrets.

    @property
    def aws_secret(self) -> dict[str, bytes]:
        return {logins.AWS: yaml.safe_dump(self.aws.user()).encode()}

    @property
    def gcp_secret(self) -> dict[str, bytes]:
        return {logins.GOOGLE: json.dumps(self.gcp.account()).encode()}

    @property
    def azure_secret(self) -> dict[str, bytes]:
        return {logins.AZURE: yaml.safe_dump(self.azure.application()).encode()}

    def vault_secret(self, **changes: bytes) -> dict[str, bytes]:
        entries = {"token": TOKEN.encode(), "address": self.vault.address.encode(), **changes}
        return {f"sops.vault-{name}": value for name, value in entries.items() if value}

    # Readers.

    async def read(
        self,
        document: bytes,
        secret: Mapping[str, bytes] | None = None,
        *,
        account: Identity | None = None,
        own: bool = False,
        listed: bool = False,
        cloud: Cloud | None = None,
        seconds: float = 60.0,
    ) -> bytes:
        """Decrypt as the owner of the Secret, the account, or this process' identity."""
        held = dict(secret or {})

        async def access() -> Access:
            self.accessed += 1
            entries = (logins.from_secret(held),)
            return Access(logins=entries, account=account, own=own, listed=listed)

        def work(ring: KeyRing) -> bytes:
            return sops.decrypt(document, sops.Format.YAML, ring)

        services = KeyServices(
            cloud or self.cloud, engine=self.engine, opened=self.opened, seconds=seconds
        )
        return await services.open(work, KeyRing.from_secret(held), access, flow="team")

    async def refused(self, document: bytes, *args: Any, **how: Any) -> DecryptionError:
        """Return why it was not decrypted; nothing secret is in the message."""
        with pytest.raises(DecryptionError) as caught:
            await self.read(document, *args, **how)
        message = str(caught.value)
        for secret in (TOKEN, self.azure.secret, WORD, "PRIVATE KEY", "sentence"):
            assert secret not in message
        return caught.value


@asynccontextmanager
async def running() -> AsyncIterator[Scene]:
    """Run every service until the block ends."""
    async with AsyncExitStack() as stack:
        http = await stack.enter_async_context(Http())
        clouds = FakeClouds()
        clouds.believe(ISSUER)
        await stack.enter_async_context(clouds.running())
        vault = await stack.enter_async_context(FakeVault().running())
        pool = engine.start()
        stack.push_async_callback(pool.close)
        yield Scene(clouds=clouds, http=http, vault=vault, engine=EngineKeys(pool))
