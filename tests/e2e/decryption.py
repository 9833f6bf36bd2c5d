"""What the tests of decryption share: keys, ciphertext, and where no plaintext may be."""

import asyncio
import base64
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.e2e.conftest import EVENT, GIT_REPOSITORY, KUSTOMIZATION, SECRET, Space
from tests.unit.toolkit.decrypt.reference import Reference
from toolkit.artifact import scratch
from toolkit.decrypt import envelope
from toolkit.objects import GroupVersionKind, Json

REGISTRATION = GroupVersionKind(
    "admissionregistration.k8s.io", "v1", "MutatingWebhookConfiguration"
)
_TELLING = (
    KUSTOMIZATION,
    GIT_REPOSITORY,
    EVENT,
    GroupVersionKind("helm.toolkit.fluxcd.io", "v2", "HelmRelease"),
)
SOPS = {"provider": "sops", "secretRef": {"name": "sops"}}


async def start(space: Space, files: Mapping[str, str | bytes], **spec: Any) -> None:
    """Commit the files and have them applied, with decryption unless told otherwise."""
    repository = space.repository()
    repository.commit(files)
    app = space.kustomization(**{"decryption": SOPS, **spec})
    app["spec"] = {k: v for k, v in app["spec"].items() if v is not None}
    await space.world.apply(space.source(repository), app)


async def give_keys(space: Space, keys: Mapping[str, bytes]) -> None:
    """Make the Secret with the decryption keys."""
    metadata = {"name": "sops", "namespace": space.namespace}
    data = {name: base64.b64encode(key).decode() for name, key in keys.items()}
    await space.world.apply(
        {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data}
    )


async def armed(space: Space) -> None:
    """Wait until this cluster decrypts at admission."""
    await space.world.until(
        REGISTRATION,
        "",
        "penstock",
        lambda obj: envelope.WEBHOOK in [each["name"] for each in obj["webhooks"]],
    )


def secret(name: str, **values: str) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name},
        "stringData": values,
    }


def encrypted(sops: Reference, obj: Json) -> bytes:
    """Encrypt the values of an object as the SOPS guide for Flux has it."""
    return sops.manifest(obj)


def env_file(sops: Reference, **values: str) -> bytes:
    """Encrypt a dotenv file."""
    return sops.env(**values)


async def values_of(space: Space, name: str) -> dict[str, str]:
    """Return the decoded data of a Secret."""
    data = (await space.get(SECRET, name))["data"]
    return {key: base64.b64decode(value).decode() for key, value in data.items()}


async def assert_unseen(space: Space, word: str) -> None:
    """Look for a secret wherever it must not be: our objects, events, logs and files."""
    api = space.world.api
    told = [await api.list(gvk, space.namespace) for gvk in _TELLING]
    layout = space.world.stack.layout
    files = await asyncio.to_thread(files_of, layout.state)
    assert space.world.stack.log("kustomize") in files
    assert any(path.is_relative_to(scratch.parent()) for path in files)
    # whole groups of three bytes look the same wherever the base64 begins with them
    for form in (word, base64.b64encode(word.encode()[: len(word) // 3 * 3]).decode()):
        assert form not in str(told)
        assert [path for path, content in files.items() if form.encode() in content] == []


def files_of(state: Path) -> dict[Path, bytes]:
    """Read all that the processes have on disk: logs, stored artifacts, extracted copies."""
    found = {}
    # Directories may go while we look, which ``rglob`` does not bear; other processes have some.
    walks = (walk for root in (state, scratch.parent()) for walk in os.walk(root))
    for path in (Path(where, name) for where, _, names in walks for name in names):
        with suppress(OSError):  # gone meanwhile
            found[path] = path.read_bytes()
    return found
