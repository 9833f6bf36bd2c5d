"""Encrypted Secrets through a real API server: what is stored, who may, and what is told."""

import base64
import gzip
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from controllers.helm.deciding import orders
from controlplane.plane import ControlPlane
from tests.contract.helm.world import World
from tests.contract.webhooks.conftest import Gate
from tests.contract.webhooks.vaults import (
    SECRET_KIND,
    SOPS,
    WORD,
    Vault,
    installed,
    values,
)
from tests.fakes.releases import release
from tests.tools.administrator import Administrator
from tests.unit.toolkit.decrypt.reference import Reference
from toolkit.decrypt import envelope
from toolkit.helm import actions
from toolkit.kube import impersonation
from toolkit.kube.errors import ApiError, ForbiddenError, InvalidError
from toolkit.kube.secrets import SECRET
from toolkit.native import build
from toolkit.native.pool import WorkerPool
from toolkit.objects import Json, dig
from toolkit.policy import claims

pytestmark = pytest.mark.asyncio(loop_scope="module")

VALUE = """\
apiVersion: v1
kind: Secret
metadata: {name: value}
stringData:
  db.json: {{ .Values.db | quote }}
"""
WHOLE = '{{ .Files.Get "files/whole.yaml" }}'


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pool(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[WorkerPool]:
    build.build()
    started = actions.start(size=1, reads=(tmp_path_factory.getbasetemp(),))
    yield started
    await started.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gate(control_plane: ControlPlane, definitions: None) -> AsyncIterator[Gate]:
    del definitions
    async with installed(control_plane) as vault:
        yield vault.gate


@pytest_asyncio.fixture(loop_scope="module")
async def vault(gate: Gate) -> Vault:
    made = Vault(gate, (await gate.beside()).namespace)
    await made.keys("sops")
    return made


def version(secret: Json) -> str:
    return str(dig(secret, "metadata", "resourceVersion"))


async def test_what_is_stored_is_what_the_document_decrypts_to(vault: Vault) -> None:
    await vault.admin.create(vault.carrier("created", a="1", b="2"))
    await vault.apply(vault.carrier("applied", a="1"))

    assert values(await vault.stored("created")) == {"a": "1", "b": "2"}
    assert values(await vault.stored("applied")) == {"a": "1"}


async def test_applying_again_writes_nothing(vault: Vault) -> None:
    carrier = vault.carrier()
    first = await vault.apply(carrier)

    again = await vault.apply(carrier)
    dry = await vault.apply(carrier, dry_run=True)

    assert version(first) == version(again) == version(dry)
    assert dig(first, "metadata", "managedFields") == dig(again, "metadata", "managedFields")


async def test_kubectl_users_get_the_same(vault: Vault) -> None:
    carrier = vault.carrier(a="1")

    created = await vault.kubectl.run("apply", obj=carrier)
    first = await vault.stored()
    await vault.kubectl.run("apply", obj=carrier)
    changed = await vault.kubectl.run("apply", obj=vault.carrier(a="2"))

    assert created == "secret/db created\n"
    assert version(first) != version(await vault.stored())
    assert changed == "secret/db configured\n"
    assert values(await vault.stored()) == {"a": "2"}


async def test_a_key_removed_from_the_document_vanishes(vault: Vault) -> None:
    await vault.apply(vault.carrier(keep="1", drop="2"))

    await vault.apply(vault.carrier(keep="1"))

    assert values(await vault.stored()) == {"keep": "1"}


async def test_a_dry_run_shows_and_stores_nothing(vault: Vault) -> None:
    shown = await vault.apply(vault.carrier(), dry_run=True)

    assert values(shown) == {"word": WORD}
    with pytest.raises(ApiError, match="not found"):
        await vault.stored()


async def test_a_dry_run_is_no_oracle(vault: Vault) -> None:
    writer = await vault.person("writer", "create", "patch", "get")

    for dry_run in (True, False):
        with pytest.raises(ForbiddenError, match="verb 'decrypt'") as caught:
            await vault.apply(vault.carrier(), api=writer, dry_run=dry_run)
        assert WORD not in str(caught.value)


async def test_the_verb_on_the_key_lets_a_person_in(vault: Vault) -> None:
    person = await vault.person("trusted", "create", "patch", decrypt="sops")

    await vault.apply(vault.carrier(), api=person)

    assert values(await vault.stored()) == {"word": WORD}


async def test_ciphertext_is_not_replayed_in_another_namespace(vault: Vault) -> None:
    stolen = envelope.make(vault.document(namespace="production"))
    stolen["metadata"]["namespace"] = vault.namespace

    with pytest.raises(ForbiddenError, match=r"metadata\.namespace of the encrypted manifest"):
        await vault.apply(stolen)


async def test_ciphertext_is_not_replayed_under_another_name(vault: Vault) -> None:
    stolen = vault.carrier()
    stolen["metadata"]["name"] = "mine"

    with pytest.raises(ForbiddenError, match=r"metadata\.name of the encrypted manifest"):
        await vault.apply(stolen)


async def test_generated_names_bind_nothing(vault: Vault) -> None:
    secret = vault.carrier()
    secret["metadata"]["generateName"] = f"{secret['metadata'].pop('name')}-"

    with pytest.raises(ForbiddenError, match=r"metadata\.name of the encrypted manifest"):
        await vault.admin.request(
            "POST", f"/api/v1/namespaces/{vault.namespace}/secrets", body=secret
        )


async def test_the_data_change_only_with_the_document(vault: Vault) -> None:
    await vault.apply(vault.carrier())
    patch = {"stringData": {"word": "other"}}

    with pytest.raises(ForbiddenError, match="change the document"):
        await vault.admin.patch(SECRET, "db", vault.namespace, patch, strategy="merge")


async def test_metadata_change_without_keys(vault: Vault) -> None:
    await vault.apply(vault.carrier())
    editor = await vault.person("editor", "patch")
    labels = {"metadata": {"labels": {"team": "a"}, "annotations": {envelope.RECIPIENTS: None}}}

    changed = await editor.patch(SECRET, "db", vault.namespace, labels, strategy="merge")

    assert dig(changed, "metadata", "labels", "team") == "a"
    assert envelope.recipients(changed) == (f"age:{SOPS.identity.to_public()}",)
    assert values(changed) == {"word": WORD}


async def test_a_stale_label_is_refused_and_a_removed_one_ends_it(vault: Vault) -> None:
    await vault.apply(vault.carrier())
    stale = envelope.mark(
        {**SECRET_KIND, "metadata": {"name": "plain", "namespace": vault.namespace}}
    )
    with pytest.raises(ForbiddenError, match="no SOPS document"):
        await vault.apply(stale)

    off = {
        "metadata": {"labels": {envelope.LABEL: None}},
        "data": {"word": base64.b64encode(b"free").decode()},
    }
    freed = await vault.admin.patch(SECRET, "db", vault.namespace, off, strategy="merge")

    assert values(freed) == {"word": "free"}
    assert envelope.recipients(freed) == ()


async def test_the_type_cannot_change_and_immutable_ones_stay(vault: Vault) -> None:
    fixed = {**vault.carrier("fixed", a="1"), "immutable": True, "type": "example.com/kind"}
    first = await vault.apply(fixed)

    assert version(await vault.apply(fixed)) == version(first)
    with pytest.raises(InvalidError, match="field is immutable"):
        await vault.apply({**fixed, "type": "example.com/other"})
    with pytest.raises(InvalidError, match="immutable"):
        await vault.apply({**fixed, "data": vault.carrier("fixed", a="2")["data"]})


SPECS: dict[str, Json] = {
    "Kustomization": {"prune": True, "sourceRef": {"kind": "GitRepository", "name": "app"}},
    "HelmRelease": {"chartRef": {"kind": "OCIRepository", "name": "app"}},
}


@pytest.mark.parametrize("kind", SPECS)
async def test_an_applier_vouches_for_what_it_moved_until_it_is_gone(
    vault: Vault, kind: str
) -> None:
    user = await vault.account("deployer", "create", "patch")
    app = await vault.applier(kind, user, **SPECS[kind])
    moved = vault.carrier()
    moved["metadata"]["name"] = "prefix-db"

    with pytest.raises(ForbiddenError, match="may not decrypt"):
        await vault.apply(moved, api=vault.admin.impersonating(user))
    await vault.apply(moved, api=app)
    await vault.admin.delete(claims.APPLIERS[kind], "app", vault.namespace)

    assert values(await vault.stored("prefix-db")) == {"word": WORD}
    with pytest.raises(ForbiddenError, match=f"{kind}/{vault.namespace}/app does not exist"):
        await vault.apply(moved, api=app)


@pytest.mark.parametrize("kind", SPECS)
async def test_an_applier_does_not_open_what_is_for_other_keys(
    gate: Gate, vault: Vault, kind: str
) -> None:
    """Neither the keys of the namespace that it writes to, nor its document, help it."""
    victim = Vault(gate, (await gate.beside()).namespace)
    others = Reference()
    await victim.keys("sops", others)
    user = await vault.account("deployer", "create", "patch")
    app = await vault.applier(kind, user, targetNamespace=victim.namespace, **SPECS[kind])
    await victim.person("deployer", "create", "patch", user=user)
    stolen = envelope.make(victim.document(sops=others))

    with pytest.raises(ForbiddenError, match="no key opens the data key"):
        await victim.apply(stolen, api=app)


@pytest.mark.parametrize("kind", SPECS)
async def test_a_forged_claim_is_refused(vault: Vault, kind: str) -> None:
    user = await vault.account("deployer", "create", "patch")
    await vault.applier(kind, user, **SPECS[kind])
    rule = {"apiGroups": [""], "resources": ["serviceaccounts"], "verbs": ["impersonate"]}
    forger = await vault.account("forger", "create", "patch", also=[rule])
    claim = impersonation.provenance(applier=f"{kind}/{vault.namespace}/app")

    # As the account of the applier, which it may be: the claim only controllers may make.
    async with vault.with_token("forger") as api:
        with pytest.raises(ForbiddenError, match=r"userextras/provenance\.penstock\.dev/applier"):
            await vault.apply(vault.carrier(), api=api.impersonating(user, extra=claim))
        with pytest.raises(ForbiddenError, match="may not decrypt"):
            await vault.apply(vault.carrier(), api=api.impersonating(user))
    # Even if it could make the claim, it is not the account of the applier.
    with pytest.raises(ForbiddenError, match=f"does not act as '{forger}'"):
        await vault.apply(vault.carrier(), api=vault.claiming(kind, forger))


@pytest.mark.parametrize("on_server", ["true", "false"])
async def test_helm_writes_what_did_not_change_once_and_records_ciphertext(
    vault: Vault,
    pool: WorkerPool,
    administrator: Administrator,
    tmp_path: Path,
    on_server: str,
) -> None:
    user = await vault.account("deployer", "create", "get", "list", "patch", "update", "delete")
    app = await vault.applier("HelmRelease", user, **SPECS["HelmRelease"])
    world = World(
        pool=pool,
        api=vault.admin,
        namespace=vault.namespace,
        administrator=administrator,
        directory=tmp_path,
        acting=app,
    )
    obj = release(spec={"decryption": {"provider": "sops", "secretRef": {"name": "sops"}}})
    options = orders.rendering(obj) | {"serverSideApply": on_server}
    given = {"db": SOPS.json({"user": WORD}).decode()}

    def chart(*, word: str = WORD) -> Path:
        whole = SOPS.manifest(
            {**SECRET_KIND, "metadata": {"name": "whole"}, "stringData": {"word": word}}
        )
        files = {"files__whole_yaml": whole.decode(), "templates__value_yaml": VALUE}
        return world.chart(templates__configmap_yaml=WHOLE, **files)

    first_chart = chart()
    await world.run("install", first_chart, values=given, **options)
    first = [await vault.stored(name) for name in ("whole", "value")]
    await world.run("upgrade", first_chart, values=given, **options)
    second = [await vault.stored(name) for name in ("whole", "value")]
    await world.run("upgrade", chart(word="other"), values=given, **options)
    third = await vault.stored("whole")
    await world.run("rollback", **options)

    assert list(map(values, first)) == [
        {"word": WORD},
        {"db.json": f'{{\n\t"user": "{WORD}"\n}}\n'},
    ]
    assert list(map(version, second)) == list(map(version, first))
    assert values(third) == {"word": "other"}
    assert values(await vault.stored("whole")) == {"word": WORD}
    records = await vault.admin.list(SECRET, vault.namespace, label_selector="owner=helm")
    assert len(records) == 4
    for each in records:
        record = gzip.decompress(base64.b64decode(base64.b64decode(each["data"]["release"])))
        assert envelope.CARRIER.encode() in record
        assert WORD.encode() not in record
        assert base64.b64encode(WORD.encode()[:12]) not in record


async def test_stray_ciphertext_is_refused_and_the_rest_is_nobodys_business(vault: Vault) -> None:
    metadata = {"name": "raw", "namespace": vault.namespace}
    raw = {**SECRET_KIND, "metadata": metadata, "stringData": {"f": vault.document().decode()}}

    with pytest.raises(ForbiddenError, match="SOPS ciphertext at data"):
        await vault.admin.create(raw)
    # as large as Secrets may be: what the API server looks for must not be too costly
    large = {"data": {"f": base64.b64encode(b"ENC[" * (255 << 10)).decode()}}
    obj = {**SECRET_KIND, "metadata": metadata, **large}
    said = await vault.kubectl.run("create", obj=obj)
    assert said == "secret/raw created\n"


async def test_an_object_of_three_mebibytes_is_refused(vault: Vault) -> None:
    secret = vault.carrier()
    secret["data"] = {envelope.CARRIER: base64.b64encode(b"x" * (3 << 20)).decode()}

    assert "too large" in await vault.kubectl.refused("create", obj=secret)


async def test_a_document_that_decrypts_to_too_much_is_refused(vault: Vault) -> None:
    fits, too_much = ("x" * (size << 10) for size in (1000, 1025))

    said = await vault.kubectl.run("create", obj=vault.carrier("fits", big=fits))
    assert said == "secret/fits created\n"
    much = vault.carrier("much", big=too_much)
    assert "Too long" in await vault.kubectl.refused("create", obj=much)


@pytest.mark.parametrize("entries", [4096, 4097, 40_000])
async def test_secret_of_many_entries_is_stored_unless_one_is_ciphertext(
    vault: Vault, entries: int
) -> None:
    value = base64.b64encode(b"y" * 8).decode()
    data = {f"k{number:05d}": value for number in range(entries)}
    stray = base64.b64encode(b"ENC[AES256_GCM,data:YQ==,iv:YQ==,tag:YQ==,type:str]").decode()

    def secret(name: str, **more: str) -> Json:
        metadata = {"name": name, "namespace": vault.namespace}
        return {**SECRET_KIND, "metadata": metadata, "data": {**data, **more}}

    await vault.admin.create(secret("plain"))

    with pytest.raises(ForbiddenError, match="SOPS ciphertext"):
        await vault.admin.create(secret("stray", k00000=stray))
