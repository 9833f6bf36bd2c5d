"""What a Kustomization lends to its build, and when it is read."""

import base64
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import pytest
import pytest_asyncio

from controllers.kustomize import inputs
from controllers.kustomize.decryption import Decryption, Keys
from crds.kustomize import Kustomization
from tests.fakes import keyscene
from tests.fakes.accounts import FakeAccounts
from tests.fakes.apiserver import FakeApiServer
from tests.fakes.keyscene import ISSUER, WORD, Scene
from tests.fakes.kustomizations import kustomization
from toolkit.decrypt import sops
from toolkit.decrypt.errors import DecryptionError
from toolkit.decrypt.kms.services import KeyServices
from toolkit.errors import TransientError
from toolkit.kube.client import Client
from toolkit.kube.secrets import Secrets
from toolkit.kube.tokens import ServiceAccountTokens
from toolkit.remote.cloud.cache import TokenCache

CLEAR = f"word: {WORD}\n".encode()
ROLE = "arn:aws:iam::111122223333:role/team"


@dataclass
class Build:
    """A Kustomization that decrypts, in a cluster with one key Secret."""

    scene: Scene
    server: FakeApiServer
    client: Client
    accounts: FakeAccounts
    account_client: Client
    versions: list[str] = field(default_factory=list)

    def secret(self, **held: bytes) -> None:
        data = {key: base64.b64encode(value).decode() for key, value in held.items()}
        self.server.put("secrets", "sops", "prod", data=data)

    def decryption(self, **flags: Any) -> Decryption:
        tokens = ServiceAccountTokens(self.account_client, cache=TokenCache(), object_level=True)
        return Decryption(
            secrets=Secrets(self.client),
            services=KeyServices(self.scene.cloud, engine=self.scene.engine),
            tokens=tokens,
            **flags,
        )

    def keys(self, *, account: str = "", secret: bool = True, **flags: Any) -> Keys:
        return self.decryption(**flags).keys(decrypting(account, secret=secret), self.versions)


def decrypting(account: str = "", *, secret: bool = True) -> Kustomization:
    decryption: dict[str, Any] = {"provider": "sops", "serviceAccountName": account}
    if secret:
        decryption["secretRef"] = {"name": "sops"}
    return kustomization(decryption=decryption)


@pytest_asyncio.fixture
async def build() -> AsyncIterator[Build]:
    """Run the services and the API server."""
    server, accounts = FakeApiServer(), FakeAccounts(issuer=ISSUER)
    async with (
        keyscene.running() as scene,
        server.running() as client,
        accounts.running() as account_client,
    ):
        yield Build(scene, server, client, accounts, account_client)


def work(document: bytes) -> Any:
    return lambda ring: sops.decrypt(document, sops.Format.YAML, ring)


async def test_entries_of_the_secret_open_several_documents_and_it_is_read_once(
    build: Build,
) -> None:
    build.secret(**build.scene.vault_secret())
    works = [work(build.scene.document(hc_vault=[build.scene.hc_vault()])) for _ in range(3)]

    keys = build.keys()
    found = [*await keys.each(works), *await keys.each(works[:1])]

    assert found == [CLEAR] * 4
    assert build.server.count("GET", "/secrets/sops") == 1
    assert len(build.versions) == 1


async def test_a_build_without_documents_reads_nothing(build: Build) -> None:
    assert await build.keys().each([]) == []
    assert build.server.count("GET", "/secrets/sops") == 0


async def test_the_account_is_one_of_the_kustomizations_namespace(build: Build) -> None:
    build.accounts.put("prod", "team", **{"eks.amazonaws.com/role-arn": ROLE})
    build.scene.clouds.aws.roles[ROLE] = (ISSUER.url, "system:serviceaccount:prod:team")
    build.scene.aws.allowed = {ROLE}
    works = [work(build.scene.document(kms=[build.scene.kms()]))]

    named = await build.keys(account="team", secret=False).each(works)
    default = await build.keys(secret=False, default_account="team").each(works)

    assert (named, default) == ([CLEAR], [CLEAR])


async def test_an_account_is_not_looked_at_unless_a_service_is_asked(build: Build) -> None:
    build.secret(**build.scene.sops.secret)
    wrapped = [build.scene.sops.wrap(build.scene.sops.key)]

    found = await build.keys(account="nobody").each([work(build.scene.document(age=wrapped))])

    assert found == [CLEAR]
    assert build.accounts.requests == []


async def test_this_process_lends_itself_only_by_the_flag(build: Build) -> None:
    user = build.scene.aws.user()
    build.scene.cloud = build.scene.process(
        AWS_ACCESS_KEY_ID=user["aws_access_key_id"],
        AWS_SECRET_ACCESS_KEY=user["aws_secret_access_key"],
    )
    works = [work(build.scene.document(kms=[build.scene.kms()]))]

    with pytest.raises(DecryptionError, match="there are no credentials"):
        await build.keys(secret=False).each(works)
    assert build.scene.aws.asked == 0
    assert await build.keys(secret=False, own=True).each(works) == [CLEAR]


async def test_a_secret_that_is_missing_or_malformed_is_named_before_the_build(
    build: Build,
) -> None:
    secrets = Secrets(build.client)
    with pytest.raises(TransientError, match="Secret 'prod/sops' not found"):
        await inputs.gather(decrypting(), secrets, build.decryption())

    build.secret(**{"sops.aws-kms": b"nonsense"})

    with pytest.raises(TransientError, match=r"cannot use the entry 'sops\.aws-kms'"):
        await inputs.gather(decrypting(), secrets, build.decryption())


@pytest.mark.parametrize(
    ("account", "secret", "sent"),
    [("", True, True), ("team", False, True), ("team", True, True), ("", False, False)],
)
async def test_secrets_are_sent_encrypted_where_the_webhook_is_lent_something(
    build: Build, account: str, *, secret: bool, sent: bool
) -> None:
    obj = decrypting(account, secret=secret)

    given = await inputs.gather(obj, Secrets(build.client), build.decryption(), admission=True)

    assert given.admission == sent
    assert build.server.count("GET", "/secrets/sops") == 0


async def test_a_build_that_decrypts_nothing_reads_no_keys(build: Build) -> None:
    given = await inputs.gather(decrypting(), Secrets(build.client))

    assert given.keys is None
