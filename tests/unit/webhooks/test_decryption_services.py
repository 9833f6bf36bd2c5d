"""Key services at admission: whose credentials are used, for whom, and what a failure answers."""

import base64
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
import pytest_asyncio

from tests.fakes import keyscene, kmsaws
from tests.fakes.accounts import FakeAccounts
from tests.fakes.decryptionscene import Cluster, applier, manifest, request, values
from tests.fakes.keyscene import ISSUER, Scene
from tests.fakes.kmsvault import TOKEN, FakeVault
from toolkit.decrypt import envelope
from toolkit.decrypt.kms.services import KeyServices
from toolkit.errors import StalledError, TransientError
from toolkit.kube.tokens import ServiceAccountTokens
from toolkit.objects import Json
from toolkit.remote.cloud.cache import TokenCache
from toolkit.remote.cloud.cloud import Cloud
from webhooks.decryption import SignIns
from webhooks.plugin import Answer, DeniedError
from webhooks.request import Request

ROLE = "arn:aws:iam::111122223333:role/team"
CLEAR = {"password": "hunter2"}


@dataclass
class Gate:
    """The webhook's plugin between a cluster and the key services."""

    scene: Scene
    cluster: Cluster = field(default_factory=Cluster)
    accounts: FakeAccounts = field(default_factory=lambda: FakeAccounts(issuer=ISSUER))
    object_level: bool = True
    default_account: str = ""
    own: bool = False
    cloud: Cloud | None = None

    def carrier(self, **metadata: Any) -> Json:
        """Return a carrier whose document is encrypted for these recipients alone."""
        document = self.scene.sops.yaml(
            manifest(),
            plain=lambda path: path[0] != "stringData",
            encrypted_regex="^(data|stringData)$",
            **{"age": [], **metadata},
        )
        made = envelope.make(document)
        return {**made, "metadata": {**made["metadata"], "namespace": "prod"}}

    def secret(self, held: Mapping[str, bytes]) -> None:
        self.cluster.entries("sops", held)

    async def review(self, asked: Request) -> Answer:
        async with self._sign_ins() as sign_ins, self.cluster.server.running() as client:
            return await self.cluster.decide(asked, client, sign_ins)

    async def denied(self, asked: Request) -> DeniedError:
        with pytest.raises(DeniedError) as caught:
            await self.review(asked)
        assert "hunter2" not in str(caught.value)
        assert TOKEN not in str(caught.value)
        return caught.value

    @asynccontextmanager
    async def _sign_ins(self) -> AsyncIterator[SignIns]:
        async with self.accounts.running() as client:
            yield SignIns(
                services=KeyServices(self.cloud or self.scene.cloud, engine=self.scene.engine),
                tokens=ServiceAccountTokens(
                    client, cache=TokenCache(), object_level=self.object_level
                ),
                default_account=self.default_account,
                own=self.own,
            )


@pytest_asyncio.fixture
async def gate() -> AsyncIterator[Gate]:
    """Run the services."""
    async with keyscene.running() as scene:
        yield Gate(scene)


def team(gate: Gate) -> None:
    """Let the account ``team`` of the namespace open what is for AWS."""
    gate.accounts.put("prod", "team", **{"eks.amazonaws.com/role-arn": ROLE})
    gate.scene.clouds.aws.roles[ROLE] = (ISSUER.url, "system:serviceaccount:prod:team")
    gate.scene.aws.allowed = {ROLE}


@pytest.mark.parametrize("kind", ["kms", "gcp_kms", "azure_kv", "hc_vault"])
async def test_a_kustomization_lends_the_entries_of_its_secret(gate: Gate, kind: str) -> None:
    scene = gate.scene
    secrets = {
        "kms": scene.aws_secret,
        "gcp_kms": scene.gcp_secret,
        "azure_kv": scene.azure_secret,
        "hc_vault": scene.vault_secret(),
    }
    gate.secret(secrets[kind])
    gate.cluster.kustomization(serviceAccountName="deployer")

    recipient = getattr(scene, kind)()
    answer = await gate.review(request(gate.carrier(**{kind: [recipient]}), user=applier()))

    assert values(answer) == CLEAR
    assert answer.audit["vouched-by"] == "Kustomization/prod/app"
    assert TOKEN not in str(answer)


async def test_a_kustomization_lends_its_account_and_needs_no_secret(gate: Gate) -> None:
    team(gate)
    decryption = {"provider": "sops", "serviceAccountName": "team"}
    gate.cluster.kustomization(serviceAccountName="deployer", decryption=decryption)

    carrier = gate.carrier(kms=[gate.scene.kms()])
    answer = await gate.review(request(carrier, user=applier()))

    assert values(answer) == CLEAR
    assert gate.accounts.tokens[0]["audiences"] == ["sts.amazonaws.com"]
    assert answer.audit["account"] == "prod/team"


async def test_the_default_account_is_one_of_the_kustomizations_namespace(gate: Gate) -> None:
    team(gate)
    gate.default_account = "team"
    gate.cluster.kustomization(serviceAccountName="deployer")

    carrier = gate.carrier(kms=[gate.scene.kms()])

    assert values(await gate.review(request(carrier, user=applier()))) == CLEAR


async def test_an_account_is_not_used_while_the_feature_is_off(gate: Gate) -> None:
    team(gate)
    gate.object_level = False
    decryption = {"provider": "sops", "serviceAccountName": "team"}
    gate.cluster.kustomization(serviceAccountName="deployer", decryption=decryption)

    with pytest.raises(StalledError, match="ObjectLevelWorkloadIdentity"):
        await gate.review(request(gate.carrier(kms=[gate.scene.kms()]), user=applier()))

    assert gate.scene.aws.asked == 0


async def test_an_account_that_is_not_there_is_named(gate: Gate) -> None:
    decryption = {"provider": "sops", "serviceAccountName": "team"}
    gate.cluster.kustomization(serviceAccountName="deployer", decryption=decryption)

    with pytest.raises(TransientError, match="ServiceAccount 'prod/team' not found"):
        await gate.review(request(gate.carrier(kms=[gate.scene.kms()]), user=applier()))


async def test_a_webhook_that_may_not_make_tokens_says_so(gate: Gate) -> None:
    team(gate)
    gate.accounts.forbidden = {"create"}
    decryption = {"provider": "sops", "serviceAccountName": "team"}
    gate.cluster.kustomization(serviceAccountName="deployer", decryption=decryption)

    error = await gate.denied(request(gate.carrier(kms=[gate.scene.kms()]), user=applier()))

    assert error.code == 403
    assert "needs the right to create serviceaccounts/token" in str(error)


async def test_another_account_than_the_appliers_gets_nothing(gate: Gate) -> None:
    team(gate)
    decryption = {"provider": "sops", "serviceAccountName": "team"}
    gate.cluster.kustomization(serviceAccountName="deployer", decryption=decryption)

    carrier = gate.carrier(kms=[gate.scene.kms()])
    error = await gate.denied(request(carrier, user=applier(account="intruder")))

    assert "may not decrypt with" in str(error)
    assert (gate.scene.aws.asked, gate.accounts.requests) == (0, [])


@pytest.mark.parametrize("dry_run", [False, True])
async def test_without_the_verb_nobody_is_asked(gate: Gate, *, dry_run: bool) -> None:
    gate.secret({**gate.scene.aws_secret, **gate.scene.vault_secret()})
    carrier = gate.carrier(kms=[gate.scene.kms()], hc_vault=[gate.scene.hc_vault()])

    await gate.denied(request(carrier, dry_run=dry_run))

    assert (gate.scene.aws.asked, gate.scene.vault.requests) == (0, [])


async def test_whoever_has_the_verb_may_use_the_entries(gate: Gate) -> None:
    gate.secret(gate.scene.aws_secret)
    gate.cluster.grant()

    answer = await gate.review(request(gate.carrier(kms=[gate.scene.kms()])))

    assert values(answer) == CLEAR


async def test_entries_of_several_secrets_are_tried(gate: Gate) -> None:
    stranger = gate.scene.aws.user("arn:aws:iam::111122223333:user/stranger")
    gate.secret({"sops.aws-kms": json.dumps(stranger).encode()})
    gate.cluster.entries("other", gate.scene.aws_secret)
    gate.cluster.grant("sops", "other")

    answer = await gate.review(request(gate.carrier(kms=[gate.scene.kms()])))

    assert values(answer) == CLEAR


async def test_the_verb_alone_does_not_get_the_token_sent_to_ones_own_server(gate: Gate) -> None:
    async with FakeVault().running(tls=True) as mine:
        gate.secret({"sops.vault-token": TOKEN.encode(), "sops.vault-ca": mine.ca})
        gate.cluster.grant()

        carrier = gate.carrier(hc_vault=[mine.recipient(gate.scene.sops.key)])
        error = await gate.denied(request(carrier))

    assert "list the address under 'sops.vault-address'" in str(error)
    assert mine.requests == []


@pytest.mark.parametrize("vouched", [False, True])
async def test_this_process_is_lent_by_kustomizations_alone_and_only_if_allowed(
    gate: Gate, *, vouched: bool
) -> None:
    user = gate.scene.aws.user()
    gate.cloud = gate.scene.process(
        AWS_ACCESS_KEY_ID=user["aws_access_key_id"],
        AWS_SECRET_ACCESS_KEY=user["aws_secret_access_key"],
    )
    gate.cluster.kustomization(serviceAccountName="deployer")
    gate.cluster.grant()
    who = {"user": applier()} if vouched else {}
    asked = request(gate.carrier(kms=[gate.scene.kms()]), **who)

    error = await gate.denied(asked)
    gate.own = True

    assert "there are no credentials for it" in str(error)
    if vouched:
        assert values(await gate.review(asked)) == CLEAR
    else:
        await gate.denied(asked)
        assert gate.scene.aws.asked == 0


async def test_a_refusal_denies_and_an_outage_asks_to_try_again(gate: Gate) -> None:
    gate.secret(gate.scene.aws_secret)
    gate.cluster.grant()
    asked = request(gate.carrier(kms=[gate.scene.kms()]))

    gate.scene.aws.allowed.clear()
    refused = await gate.denied(asked)
    gate.scene.aws.fault = (500, "KMSInternalException")
    outage = await gate.denied(asked)

    assert (refused.code, outage.code) == (403, 503)
    assert f"AWS KMS key '{kmsaws.ARN}' refuses entry 'sops.aws-kms'" in str(refused)


async def test_documents_inside_the_document_are_opened_too(gate: Gate) -> None:
    scene = gate.scene
    inner = scene.sops.json({"inner": "hunter2"}, age=[], hc_vault=[scene.hc_vault()]).decode()
    outer = scene.sops.yaml(
        manifest(**{"x.json": inner}),
        plain=lambda path: path[0] != "stringData",
        encrypted_regex="^(data|stringData)$",
        age=[],
        kms=[scene.kms()],
    )
    made = envelope.make(outer)
    made["metadata"]["namespace"] = "prod"
    gate.secret({**scene.aws_secret, **scene.vault_secret()})
    gate.cluster.grant()

    answer = await gate.review(request(made))

    assert json.loads(values(answer)["x.json"]) == {"inner": "hunter2"}
    assert envelope.recipients(answer.object or {}) == (f"kms:{kmsaws.ARN}",)


async def test_a_malformed_entry_is_named(gate: Gate) -> None:
    gate.secret({"sops.aws-kms": base64.b64encode(b"x")})
    gate.cluster.grant()

    error = await gate.denied(request(gate.carrier(kms=[gate.scene.kms()])))

    assert "cannot use the entry 'sops.aws-kms' of the Secret" in str(error)
