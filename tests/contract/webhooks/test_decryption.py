"""Encrypted Secrets through a real API server: what is stored, who may, and what is told."""

import asyncio
import base64
import contextlib
import json
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

import crds
from controlplane import plane
from controlplane.plane import ControlPlane
from tests.contract.webhooks.conftest import Gate, opened
from tests.tools import definitions as kinds
from tests.tools import kubectl, rights
from tests.unit.toolkit.decrypt.reference import Reference
from toolkit.decrypt import envelope
from toolkit.kube import impersonation
from toolkit.kube.client import Client
from toolkit.kube.errors import ApiError, ForbiddenError, InvalidError
from toolkit.kube.secrets import SECRET
from toolkit.objects import GroupVersionKind, Json, dig
from webhooks import ciphertextguard, decryption

pytestmark = pytest.mark.asyncio(loop_scope="module")

ROWS = (decryption.ROW, ciphertextguard.ROW)
KUSTOMIZATION = GroupVersionKind(*crds.KUSTOMIZATION.gvk)
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

    async def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        """Run kubectl as administrator; a failure is an answer too."""
        line = (*arguments, f"--namespace={self.namespace}")
        return await kubectl.answer(self.gate.control_plane, *line, stdin=stdin)

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

    async def kubectl_apply(self, obj: Json) -> str:
        return await self.kubectl("apply", "-f", "-", stdin=json.dumps(obj))

    async def create(self, obj: Json) -> str:
        """``kubectl create``, which takes large objects too."""
        return await self.kubectl("create", "-f", "-", stdin=json.dumps(obj))

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
        person = self.admin.impersonating(name)
        for verb, secret in [
            *((verb, "") for verb in verbs),
            *([("decrypt", decrypt)] * bool(decrypt)),
        ]:
            await self.gate.until(lambda verb=verb, secret=secret: self.may(person, verb, secret))
        return person

    async def may(self, person: Client, verb: str, secret: str) -> bool:
        """Tell whether RBAC has taken notice."""
        what = {"verb": verb, "resource": "secrets", "name": secret, "namespace": self.namespace}
        review = await person.request(
            "POST",
            "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
            body={
                "apiVersion": "authorization.k8s.io/v1",
                "kind": "SelfSubjectAccessReview",
                "spec": {"resourceAttributes": what},
            },
        )
        return bool(dig(review, "status", "allowed"))


@asynccontextmanager
async def installed(control_plane: ControlPlane) -> AsyncIterator[Vault]:
    """Run the process in a namespace of its own."""
    namespace = f"gate-{secrets.token_hex(4)}"
    await asyncio.to_thread(control_plane.kubectl, "create", "namespace", namespace)
    async with opened(control_plane, namespace) as gate:
        vault = Vault(gate, namespace)
        await vault.open()
        yield vault
    await asyncio.to_thread(control_plane.kubectl, "delete", "namespace", namespace, "--wait=false")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gate(control_plane: ControlPlane, definitions: None) -> AsyncIterator[Gate]:
    del definitions
    async with installed(control_plane) as vault:
        yield vault.gate


@pytest_asyncio.fixture(loop_scope="module")
async def vault(gate: Gate, namespace: str) -> Vault:
    made = Vault(gate, namespace)
    await made.keys("sops")
    return made


def values(secret: Json) -> dict[str, str]:
    data = secret.get("data") or {}
    return {name: base64.b64decode(value).decode() for name, value in data.items()}


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

    created = await vault.kubectl_apply(carrier)
    first = await vault.stored()
    again = await vault.kubectl_apply(carrier)
    changed = await vault.kubectl_apply(vault.carrier(a="2"))

    assert created == "secret/db created\n"
    assert not again.startswith("failed")
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


async def test_a_kustomization_vouches_for_what_it_moved(vault: Vault) -> None:
    spec: Json = {
        "interval": "1h",
        "prune": True,
        "serviceAccountName": "deployer",
        "sourceRef": {"kind": "GitRepository", "name": "app"},
        "decryption": {"provider": "sops", "secretRef": {"name": "sops"}},
    }
    metadata = {"name": "app", "namespace": vault.namespace}
    kind = {"apiVersion": KUSTOMIZATION.api_version, "kind": "Kustomization"}
    await vault.admin.apply({**kind, "metadata": metadata, "spec": spec}, manager="test")
    await vault.person("deployer", "create", "patch")
    subject = {"kind": "ServiceAccount", "name": "deployer", "namespace": vault.namespace}
    await vault.admin.patch(
        GroupVersionKind("rbac.authorization.k8s.io", "v1", "RoleBinding"),
        *("deployer", vault.namespace, {"subjects": [subject]}),
        strategy="merge",
    )
    account = impersonation.service_account(vault.namespace, "deployer")
    for verb in ("create", "patch"):
        rule = {"apiGroups": [""], "resources": ["secrets"], "verbs": [verb]}
        await rights.noticed(vault.admin, account, rule, namespace=vault.namespace)
    claims = impersonation.provenance(
        applier=f"Kustomization/{vault.namespace}/app",
        source="s",
        revision="r",
        digest="d",
        verified="",
    )
    moved_secret = vault.carrier()
    moved_secret["metadata"]["name"] = "prefix-db"

    with pytest.raises(ForbiddenError, match="may not decrypt"):
        await vault.apply(moved_secret, api=vault.admin.impersonating(account))
    await vault.apply(moved_secret, api=vault.admin.impersonating(account, extra=claims))

    assert values(await vault.stored("prefix-db")) == {"word": WORD}


async def test_stray_ciphertext_is_refused_and_the_rest_is_nobodys_business(vault: Vault) -> None:
    metadata = {"name": "raw", "namespace": vault.namespace}
    raw = {**SECRET_KIND, "metadata": metadata, "stringData": {"f": vault.document().decode()}}

    with pytest.raises(ForbiddenError, match="SOPS ciphertext at data"):
        await vault.admin.create(raw)
    # as large as Secrets may be: what the API server looks for must not be too costly
    large = {"data": {"f": base64.b64encode(b"ENC[" * (255 << 10)).decode()}}
    said = await vault.create({**SECRET_KIND, "metadata": metadata, **large})
    assert said == "secret/raw created\n"


async def test_an_object_of_three_mebibytes_is_refused(vault: Vault) -> None:
    secret = vault.carrier()
    secret["data"] = {envelope.CARRIER: base64.b64encode(b"x" * (3 << 20)).decode()}

    assert "too large" in await vault.create(secret)


async def test_a_document_that_decrypts_to_too_much_is_refused(vault: Vault) -> None:
    fits, too_much = ("x" * (size << 10) for size in (1000, 1025))

    assert await vault.create(vault.carrier("fits", big=fits)) == "secret/fits created\n"
    assert "Too long" in await vault.create(vault.carrier("much", big=too_much))


AUDIT = """
apiVersion: audit.k8s.io/v1
kind: Policy
rules:
  - level: Metadata
    resources: [{group: "", resources: [secrets]}]
  - level: RequestResponse
"""


async def test_plaintext_reaches_neither_the_audit_log_nor_ours(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level("DEBUG")
    policy, log = tmp_path / "policy.yaml", tmp_path / "audit.log"
    policy.write_text(AUDIT)
    flags = {"kube-apiserver": [f"--audit-policy-file={policy}", f"--audit-log-path={log}"]}

    with plane.start("pytest-audit", alternatives=8, flags=flags) as audited:
        await asyncio.to_thread(kinds.install, audited)
        refusal = await _audited(audited)

    events = [json.loads(line) for line in log.read_text().splitlines()]
    noted = [event["annotations"] for event in events if _document(event)]
    assert len(noted) >= 1
    told = log.read_text() + caplog.text + "".join(capsys.readouterr()) + refusal
    assert WORD not in told
    # whole groups of three bytes look the same wherever the base64 begins with them
    assert base64.b64encode(WORD[: len(WORD) // 3 * 3].encode()).decode() not in told


async def _audited(audited: ControlPlane) -> str:
    """Decrypt, fail to, and be refused, in a namespace of that cluster."""
    async with installed(audited) as vault:
        await vault.apply(vault.carrier())
        broken = vault.carrier("other")
        document = base64.b64decode(broken["data"][envelope.CARRIER])
        tampered = document.replace(b'"name": "other"', b'"name": "third"')
        broken["data"][envelope.CARRIER] = base64.b64encode(tampered).decode()
        with pytest.raises(ForbiddenError) as caught:
            await vault.apply(broken)
    return str(caught.value)


def _document(event: dict[str, Any]) -> str:
    found = event.get("annotations") or {}
    return str(found.get(f"{envelope.WEBHOOK}/document", ""))


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
