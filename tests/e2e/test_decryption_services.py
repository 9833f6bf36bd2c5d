"""Secrets that are encrypted for key services: opened at admission, and in the controller.

Vault and AWS are stand-ins that check what comes as the real ones do: tokens, SigV4 signatures,
tokens of ServiceAccounts against the keys that this cluster's issuer publishes.
"""

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import yaml
from aiohttp import web

from controlplane.plane import ControlPlane
from tests.e2e.conftest import (
    CONFIG_MAP,
    SECRET,
    Space,
    World,
    build_world,
    condition,
    config_map,
)
from tests.e2e.test_admission_decryption import owned
from tests.e2e.test_decryption import armed, assert_unseen, give_keys, secret, start, values_of
from tests.fakes import kmsaws
from tests.fakes.clouds import FakeClouds
from tests.fakes.issuer import RefusedError
from tests.fakes.kmsaws import AwsKms
from tests.fakes.kmsvault import TOKEN, FakeVault
from tests.fakes.serving import serving
from tests.unit.toolkit.decrypt.reference import Reference
from toolkit.decrypt import envelope
from toolkit.objects import Json

pytestmark = pytest.mark.asyncio(loop_scope="session")

WORD = "word-59ad0c7e21"
ROLE = "arn:aws:iam::111122223333:role/team"
GATE = "--feature-gates=ObjectLevelWorkloadIdentity=true"
COMPONENT = Path(__file__).parents[2] / "deploy/components/workload-identity/webhook.yaml"


@dataclass
class Services:
    """A Vault, and AWS behind one address for KMS and STS."""

    vault: FakeVault
    clouds: FakeClouds = field(default_factory=FakeClouds)
    sops: Reference = field(default_factory=Reference)
    address: str = ""

    def __post_init__(self) -> None:
        self.aws = AwsKms(self.clouds.aws, allowed={kmsaws.USER})

    @asynccontextmanager
    async def running(self) -> AsyncIterator["Services"]:
        async with serving(self._answer) as port:
            self.address = f"http://127.0.0.1:{port}"
            yield self

    async def _answer(self, request: web.BaseRequest) -> web.Response:
        body = await request.read()
        answer = self.aws.answer if "X-Amz-Target" in request.headers else self.aws.sts
        try:
            return await answer(request, body)
        except RefusedError as error:
            return web.json_response({"message": str(error)}, status=403)

    def encrypted(self, obj: Json, **recipients: list[dict[str, Any]]) -> bytes:
        """Encrypt the values of an object for key services alone."""
        return self.sops.yaml(
            obj,
            plain=lambda path: path[0] not in ("data", "stringData"),
            encrypted_regex="^(data|stringData)$",
            **{"age": [], **recipients},
        )

    def for_vault(self, obj: Json) -> bytes:
        return self.encrypted(obj, hc_vault=[self.vault.recipient(self.sops.key)])

    def for_aws(self, obj: Json, **context: str) -> bytes:
        enc = self.aws.encrypt(self.sops.key, kmsaws.ARN, context)
        entry = {"arn": kmsaws.ARN, "enc": enc, "aws_profile": "", "context": context}
        return self.encrypted(obj, kms=[entry])

    @property
    def vault_entries(self) -> Mapping[str, bytes]:
        address = self.vault.address.encode()
        return {"sops.vault-token": TOKEN.encode(), "sops.vault-address": address}

    @property
    def aws_entries(self) -> Mapping[str, bytes]:
        return {"sops.aws-kms": yaml.safe_dump(self.aws.user()).encode()}

    def trust(self, namespace: str, name: str) -> None:
        """Let an account assume the role that may decrypt, and nobody else."""
        subject = f"system:serviceaccount:{namespace}:{name}"
        issuer = next(iter(self.clouds.issuers))
        self.clouds.aws.roles[ROLE] = (issuer, subject)
        self.aws.allowed = {ROLE}


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def services(second_control_plane: ControlPlane) -> AsyncIterator[Services]:
    """Run the services, which know this cluster's issuer."""
    get = ("get", "--raw")
    issuer = json.loads(second_control_plane.kubectl(*get, "/.well-known/openid-configuration"))
    keys = json.loads(second_control_plane.kubectl(*get, "/openid/v1/jwks"))
    async with FakeVault().running() as vault, Services(vault).running() as made:
        made.clouds.issuers[issuer["issuer"]] = keys
        yield made


@pytest.fixture(scope="module")
def control_plane(second_control_plane: ControlPlane) -> ControlPlane:
    """Return the one on which our own processes run, beside those of the other tests."""
    return second_control_plane


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def world(
    control_plane: ControlPlane, services: Services, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[World]:
    """Run processes that look for AWS where our stand-in is."""
    env = {"AWS_ENDPOINT_URL": services.address}
    flags = {"kustomize": [GATE], "webhooks": [GATE]}
    directory = tmp_path_factory.mktemp("services")
    control_plane.kubectl("apply", "-f", str(COMPONENT))
    async with build_world(control_plane, directory, flags=flags, env=env) as built:
        yield built


@pytest.fixture(autouse=True)
def allowed(services: Services) -> None:
    """Let every test begin with a user who may decrypt."""
    services.aws.allowed = {kmsaws.USER}


async def test_vault_opens_a_secret_at_admission(space: Space, services: Services) -> None:
    await armed(space)
    await give_keys(space, services.vault_entries)

    await start(space, {"s.yaml": services.for_vault(secret("s", word=WORD))})
    await space.ready()

    stored = await space.get(SECRET, "s")
    assert await values_of(space, "s") == {"word": WORD}
    assert owned(stored) == [f"f:{envelope.CARRIER}"]
    assert envelope.recipients(stored) == (f"hc_vault:{services.vault.address}/transit/sops",)
    await assert_unseen(space, WORD)
    await assert_unseen(space, TOKEN)


async def test_aws_opens_a_secret_at_admission(space: Space, services: Services) -> None:
    await armed(space)
    await give_keys(space, services.aws_entries)

    await start(space, {"s.yaml": services.for_aws(secret("s", word=WORD), app="db")})
    await space.ready()

    assert await values_of(space, "s") == {"word": WORD}
    assert owned(await space.get(SECRET, "s")) == [f"f:{envelope.CARRIER}"]
    await assert_unseen(space, WORD)


async def test_the_controller_opens_what_cannot_travel_encrypted(
    space: Space, services: Services
) -> None:
    await give_keys(space, {**services.vault_entries, **services.aws_entries})
    files: dict[str, str | bytes] = {
        "a.yaml": services.for_vault(yaml.safe_load(config_map("a", word=WORD))),
        "b.yaml": services.for_aws(yaml.safe_load(config_map("b", word=WORD))),
    }

    await start(space, files)
    await space.ready()

    for name in ("a", "b"):
        assert (await space.get(CONFIG_MAP, name))["data"] == {"word": WORD}
    await assert_unseen(space, WORD)


async def test_an_account_opens_at_admission_and_in_the_controller_without_a_secret(
    space: Space, services: Services
) -> None:
    await armed(space)
    services.trust(space.namespace, "team")
    metadata = {
        "name": "team",
        "namespace": space.namespace,
        "annotations": {"eks.amazonaws.com/role-arn": ROLE},
    }
    await space.world.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata})
    files: dict[str, str | bytes] = {
        "s.yaml": services.for_aws(secret("s", word=WORD)),
        "c.yaml": services.for_aws(yaml.safe_load(config_map("c", word=WORD))),
    }

    await start(space, files, decryption={"provider": "sops", "serviceAccountName": "team"})
    await space.ready()

    assert await values_of(space, "s") == {"word": WORD}
    assert owned(await space.get(SECRET, "s")) == [f"f:{envelope.CARRIER}"]
    assert (await space.get(CONFIG_MAP, "c"))["data"] == {"word": WORD}


async def test_a_right_that_is_missing_is_told_and_its_grant_is_noticed(
    space: Space, services: Services
) -> None:
    await armed(space)
    await give_keys(space, services.aws_entries)
    services.aws.allowed = set()

    files = {"s.yaml": services.for_aws(secret("s", word=WORD))}
    await start(space, files, retryInterval="500ms")
    obj = await space.refused(saying="AccessDeniedException")
    services.aws.allowed = {kmsaws.USER}
    await space.ready()

    message = condition(obj, "Ready")["message"]
    assert f"AWS KMS key '{kmsaws.ARN}' refuses entry 'sops.aws-kms'" in message
    assert "allow it kms:Decrypt on the key" in message
    assert await values_of(space, "s") == {"word": WORD}


async def test_this_process_lends_nobody_its_own_identity(space: Space, services: Services) -> None:
    await give_keys(space, {})
    asked = services.aws.asked

    await start(space, {"c.yaml": services.for_aws(yaml.safe_load(config_map("c", word=WORD)))})
    await space.refused(saying="there are no credentials to ask it with")

    assert services.aws.asked == asked
