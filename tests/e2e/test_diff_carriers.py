"""A diff of local files knows what admission makes of encrypted Secrets, and needs no key."""

import asyncio
import secrets
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from tests.e2e.conftest import SECRET, Space, config_map
from tests.e2e.decryption import armed, encrypted, env_file, give_keys, secret, start
from tests.unit.toolkit.decrypt.reference import Reference
from toolkit.decrypt import envelope
from toolkit.objects import Json

pytestmark = pytest.mark.asyncio(loop_scope="session")

GENERATED = {
    "resources": ["s.yaml", "a.yaml"],
    "secretGenerator": [
        {"name": "files", "files": ["app.yaml", "plain.txt"]},
        {"name": "env", "envs": ["b.env"]},
    ],
    "generatorOptions": {"disableNameSuffixHash": True},
}
PATCHED = {**GENERATED, "patches": [{"patch": yaml.safe_dump(secret("s", extra="1"))}]}


@pytest.fixture
def sops() -> Reference:
    return Reference()


@pytest.fixture
def word() -> str:
    """Return a secret that stands nowhere by chance."""
    return f"word-{secrets.token_hex(8)}"


@dataclass(frozen=True)
class Ended:
    """How the command ended, and what it said."""

    code: int
    out: str
    err: str


async def penstock(space: Space, *arguments: str) -> Ended:
    """Run the command as the cluster's administrator."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "cli", *arguments),
        *("-n", space.namespace, "--kubeconfig", str(space.world.plane.kubeconfig)),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    return Ended(process.returncode or 0, out.decode(), err.decode())


def files_of(sops: Reference, word: str, kustomization: Json) -> dict[str, str | bytes]:
    """Return an application with encrypted Secrets of every kind."""
    return {
        "kustomization.yaml": yaml.safe_dump(kustomization),
        "s.yaml": encrypted(sops, secret("s", word=word)),
        "app.yaml": sops.yaml({"user": word}),
        "plain.txt": "as it is",
        "b.env": env_file(sops, PASSWORD=word),
        "a.yaml": config_map("a", v="1"),
    }


def write(folder: Path, files: Mapping[str, str | bytes]) -> Path:
    for name, content in files.items():
        raw = content if isinstance(content, bytes) else content.encode()
        (folder / name).write_bytes(raw)
    return folder


@pytest.mark.parametrize(
    ("kustomization", "carriers"),
    [(GENERATED, {"s", "files"}), (PATCHED, set())],
    ids=["admission", "clear"],
)
async def test_what_is_applied_shows_no_difference(
    space: Space,
    sops: Reference,
    word: str,
    tmp_path: Path,
    *,
    kustomization: Json,
    carriers: set[str],
) -> None:
    await armed(space)
    await give_keys(space, sops.secret)
    files = files_of(sops, word, kustomization)
    await start(space, files)
    await space.ready()
    folder = write(tmp_path, files)

    ended = await penstock(space, "diff", "ks", "app", "--path", str(folder))

    live = {name: await space.get(SECRET, name) for name in ("s", "files", "env")}
    assert {name for name, obj in live.items() if envelope.opted_in(obj)} == carriers
    assert (ended.code, ended.out, ended.err) == (0, "", "")


async def test_carrier_without_drift_shows_none(
    space: Space, sops: Reference, word: str, tmp_path: Path
) -> None:
    await armed(space)
    await give_keys(space, sops.secret)
    files = {"s.yaml": encrypted(sops, secret("s", word=word))}
    await start(space, files, commonMetadata={"labels": {"team": "a"}}, namePrefix="big-")
    await space.ready()

    folder = write(tmp_path, files)
    ended = await penstock(space, "diff", "ks", "app", "--path", str(folder))

    assert envelope.opted_in(await space.get(SECRET, "big-s"))
    assert (ended.code, ended.out, ended.err) == (0, "", "")


async def test_changed_document_is_told_without_its_values(
    space: Space, sops: Reference, word: str, tmp_path: Path
) -> None:
    await armed(space)
    await give_keys(space, sops.secret)
    await start(space, {"s.yaml": encrypted(sops, secret("s", word="before", gone="x"))})
    await space.ready()
    before = await space.get(SECRET, "s")

    changed = {
        "s.yaml": encrypted(sops, secret("s", word=word, fresh="y")),
        "new.yaml": encrypted(sops, secret("new", word=word)),
    }
    ended = await penstock(space, "diff", "ks", "app", "--path", str(write(tmp_path, changed)))

    drifted, created = f"► Secret/{space.namespace}/s drifted", f"► Secret/{space.namespace}/new"
    lines = ended.out.splitlines()
    assert ended.code == 1
    assert drifted in lines
    assert f"{created} created" in lines
    assert "  + data.fresh: ***" in lines
    assert "  - data.gone: ***" in lines
    assert any(f'~ metadata.annotations."{envelope.DOCUMENT}"' in line for line in lines)
    assert not any("data.word" in line for line in lines)
    assert envelope.LABEL not in ended.out
    assert word not in ended.out + ended.err
    assert (await space.get(SECRET, "s")) == before


async def test_build_shows_masks_in_place_of_carriers(
    space: Space, sops: Reference, word: str, tmp_path: Path
) -> None:
    files = {"s.yaml": encrypted(sops, secret("s", word=word))}
    await give_keys(space, sops.secret)
    await start(space, files)
    await space.ready()

    folder = write(tmp_path, files)
    ended = await penstock(space, "build", "ks", "app", "--path", str(folder))

    (built,) = yaml.safe_load_all(ended.out)
    assert set(built["data"]) == {"word"}
    assert "ENC[" not in ended.out
    assert "sops" not in ended.out
