"""Key services as one cluster knows them: a Vault, and AWS behind one address for KMS and STS.

They check what comes as the real ones do: tokens, SigV4 signatures, tokens of ServiceAccounts
against the keys that the cluster's issuer publishes.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import yaml
from aiohttp import web

from tests.fakes import kmsaws
from tests.fakes.clouds import FakeClouds
from tests.fakes.issuer import RefusedError
from tests.fakes.kmsaws import AwsKms
from tests.fakes.kmsvault import TOKEN, FakeVault
from tests.fakes.serving import serving
from tests.unit.toolkit.decrypt.reference import Reference
from toolkit.objects import Json

ROLE: Final = "arn:aws:iam::111122223333:role/team"


@dataclass
class KeyServices:
    """A Vault and AWS, and what is encrypted for them."""

    vault: FakeVault
    clouds: FakeClouds = field(default_factory=FakeClouds)
    sops: Reference = field(default_factory=Reference)
    address: str = ""

    def __post_init__(self) -> None:
        self.aws = AwsKms(self.clouds.aws, allowed={kmsaws.USER})

    @classmethod
    @asynccontextmanager
    async def running(cls, issuer: str, keys: Json) -> AsyncIterator["KeyServices"]:
        """Run services that believe the tokens that an issuer signs with these keys."""
        async with FakeVault().running() as vault:
            made = cls(vault)
            made.clouds.issuers[issuer] = keys
            async with serving(made._answer) as port:
                made.address = f"http://127.0.0.1:{port}"
                yield made

    async def _answer(self, request: web.BaseRequest) -> web.Response:
        body = await request.read()
        answer = self.aws.answer if "X-Amz-Target" in request.headers else self.aws.sts
        try:
            return await answer(request, body)
        except RefusedError as error:
            return web.json_response({"message": str(error)}, status=403)

    def for_vault(self, obj: Json) -> bytes:
        """Encrypt the values of an object for Vault alone."""
        return self._encrypted(obj, hc_vault=[self.vault.recipient(self.sops.key)])

    def for_aws(self, obj: Json, **context: str) -> bytes:
        """Encrypt the values of an object for AWS alone."""
        enc = self.aws.encrypt(self.sops.key, kmsaws.ARN, context)
        entry = {"arn": kmsaws.ARN, "enc": enc, "aws_profile": "", "context": context}
        return self._encrypted(obj, kms=[entry])

    def _encrypted(self, obj: Json, **recipients: list[dict[str, Any]]) -> bytes:
        return self.sops.yaml(
            obj,
            plain=lambda path: path[0] not in ("data", "stringData"),
            encrypted_regex="^(data|stringData)$",
            **{"age": [], **recipients},
        )

    @property
    def vault_entries(self) -> Mapping[str, bytes]:
        """What a Secret with decryption keys holds for Vault."""
        address = self.vault.address.encode()
        return {"sops.vault-token": TOKEN.encode(), "sops.vault-address": address}

    @property
    def aws_entries(self) -> Mapping[str, bytes]:
        """What a Secret with decryption keys holds for AWS."""
        return {"sops.aws-kms": yaml.safe_dump(self.aws.user()).encode()}

    def trust(self, namespace: str, name: str) -> None:
        """Let an account assume the role that may decrypt, and nobody else."""
        subject = f"system:serviceaccount:{namespace}:{name}"
        issuer = next(iter(self.clouds.issuers))
        self.clouds.aws.roles[ROLE] = (issuer, subject)
        self.aws.allowed = {ROLE}
