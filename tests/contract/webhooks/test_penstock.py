"""``penstock seal``, ``apply`` and ``secrets``: the way of people without a Kustomization."""

import asyncio
import contextlib
import io
import json
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path

import pyrage
import pytest
import pytest_asyncio

from cli.__main__ import main
from controlplane.plane import ControlPlane
from tests.contract.webhooks import vaults
from tests.contract.webhooks.conftest import Gate
from tests.contract.webhooks.vaults import Vault, values
from toolkit.decrypt import envelope
from toolkit.objects import dig

pytestmark = pytest.mark.asyncio(loop_scope="module")

MANIFEST = """\
apiVersion: v1
kind: Secret
metadata:
  name: db
  namespace: {namespace}
stringData:
  password: hunter2
"""


@dataclass(frozen=True)
class Said:
    """What one run of the command gave."""

    code: int
    out: str
    err: str


Penstock = Callable[..., Coroutine[None, None, Said]]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gate(control_plane: ControlPlane, definitions: None) -> AsyncIterator[Gate]:
    del definitions
    async with vaults.installed(control_plane) as vault:
        yield vault.gate


@pytest_asyncio.fixture(loop_scope="module")
async def vault(gate: Gate) -> Vault:
    made = Vault(gate, (await gate.beside()).namespace)
    await made.keys("sops")
    return made


@pytest.fixture
def penstock(control_plane: ControlPlane, monkeypatch: pytest.MonkeyPatch) -> Penstock:
    monkeypatch.setenv("KUBECONFIG", str(control_plane.kubeconfig))

    async def run(*arguments: str) -> Said:
        out, err = io.TextIOWrapper(io.BytesIO()), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = await asyncio.to_thread(main, arguments)
        out.flush()
        out.seek(0)
        return Said(code, out.read(), err.getvalue())

    return run


@pytest.fixture
def manifest(tmp_path: Path, vault: Vault) -> Path:
    path = tmp_path / "db.yaml"
    path.write_text(MANIFEST.format(namespace=vault.namespace))
    return path


def recipient() -> str:
    return str(vaults.SOPS.identity.to_public())


async def test_what_was_sealed_is_applied_and_decrypted(
    vault: Vault, penstock: Penstock, manifest: Path, tmp_path: Path
) -> None:
    sealed = tmp_path / "sealed" / "db.yaml"
    sealed.parent.mkdir()

    written = await penstock("seal", "-f", str(manifest), "--age", recipient(), "-o", str(sealed))
    dry = await penstock("apply", "-f", str(sealed), "--dry-run")
    created = await penstock("apply", "-f", str(sealed.parent))
    again = await penstock("apply", "-f", str(sealed))

    assert (written.code, written.out, written.err) == (0, "", "")
    assert "hunter2" not in sealed.read_text()
    assert dry.out == f"Secret/{vault.namespace}/db created (server dry run)\n"
    assert created.out == f"Secret/{vault.namespace}/db created\n"
    assert again.out == f"Secret/{vault.namespace}/db unchanged\n"
    assert values(await vault.stored()) == {"password": "hunter2"}


async def test_unsealed_manifests_are_applied_as_they_are(
    vault: Vault, penstock: Penstock, manifest: Path
) -> None:
    said = await penstock("apply", "-f", str(manifest))

    assert said.out == f"Secret/{vault.namespace}/db created\n"
    assert values(await vault.stored()) == {"password": "hunter2"}
    assert dig(await vault.stored(), "metadata", "labels") is None


async def test_what_was_sealed_for_another_namespace_is_refused(
    vault: Vault, penstock: Penstock, tmp_path: Path
) -> None:
    stolen = vault.document(namespace="production").replace(b'"production"', b'"elsewhere1"')
    path = tmp_path / "stolen.json"
    path.write_bytes(stolen.replace(b'"elsewhere1"', f'"{vault.namespace}"'.encode()))

    said = await penstock("apply", "-f", str(path))

    assert said.code == 1
    assert "cannot decrypt Secret" in said.err
    assert "word-" not in said.err


async def test_secrets_that_a_retired_key_still_opens_are_listed(
    vault: Vault, penstock: Penstock, manifest: Path, tmp_path: Path
) -> None:
    retired = pyrage.x25519.Identity.generate()
    sealed = tmp_path / "sealed.yaml"
    both = ("--age", recipient(), "--age", str(retired.to_public()))
    await penstock("seal", "-f", str(manifest), *both, "-o", str(sealed))
    await penstock("apply", "-f", str(sealed))
    await vault.apply(vault.carrier("new"))
    asked = ("-n", vault.namespace, "--no-header")

    every = await penstock("secrets", *asked)
    old = await penstock("secrets", *asked, "--retired", str(retired.to_public()))

    assert [line.split()[1] for line in every.out.splitlines()] == ["db", "new"]
    assert [line.split()[1] for line in old.out.splitlines()] == ["db"]
    assert f"age:{retired.to_public()}" in old.out
    await penstock("seal", "-f", str(manifest), *both[:2], "-o", str(sealed))
    await penstock("apply", "-f", str(sealed))
    none = await penstock("secrets", *asked, "--retired", str(retired.to_public()))
    assert (none.out, none.err) == ("", "no Secret is encrypted for them\n")


async def test_a_forgotten_label_is_told_with_its_remedy(
    vault: Vault, penstock: Penstock, tmp_path: Path
) -> None:
    unlabelled = vault.carrier()
    unlabelled["metadata"]["labels"] = {envelope.LABEL: "no"}
    raw = tmp_path / "raw.json"
    raw.write_text(json.dumps(unlabelled))

    said = await penstock("apply", "-f", str(raw))

    assert said.code == 1
    assert f"SOPS ciphertext: label it {envelope.LABEL}=true" in said.err
