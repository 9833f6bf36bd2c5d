"""Encrypted Secrets of a Kustomization are opened at admission, and everything else as before."""

import base64
import json
import secrets

import pytest
import yaml

from tests.e2e.conftest import CONFIG_MAP, KUSTOMIZATION, SECRET, Space, config_map, owned
from tests.e2e.decryption import (
    armed,
    assert_unseen,
    encrypted,
    env_file,
    give_keys,
    secret,
    start,
    values_of,
)
from tests.unit.toolkit.decrypt.reference import Reference
from toolkit.decrypt import envelope
from toolkit.kube.errors import ForbiddenError
from toolkit.objects import dig

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest.fixture
def sops() -> Reference:
    """Return an encrypter with a key of its own."""
    return Reference()


@pytest.fixture
def word() -> str:
    """Return a secret that stands nowhere by chance."""
    return f"word-{secrets.token_hex(8)}"


async def test_a_secret_is_opened_at_admission_and_stays_untouched(
    space: Space, sops: Reference, word: str
) -> None:
    await armed(space)
    await give_keys(space, sops.secret)
    await start(space, {"s.yaml": encrypted(sops, secret("s", word=word))})
    await space.ready()

    first = await space.get(SECRET, "s")
    await space.request()
    again = await space.get(SECRET, "s")

    assert await values_of(space, "s") == {"word": word}
    assert owned(first) == [f"f:{envelope.CARRIER}"]
    assert envelope.recipients(first) == (f"age:{sops.identity.to_public()}",)
    assert dig(again, "metadata", "resourceVersion") == dig(first, "metadata", "resourceVersion")
    await assert_unseen(space, word)


async def test_transformers_change_what_is_still_encrypted(
    space: Space, sops: Reference, word: str
) -> None:
    await armed(space)
    await give_keys(space, sops.secret)
    patch = [{"op": "add", "path": "/metadata/annotations", "value": {"patched": "yes"}}]

    await start(
        space,
        {"s.yaml": encrypted(sops, secret("s", word=word))},
        namePrefix="big-",
        commonMetadata={"labels": {"team": "a"}},
        patches=[{"target": {"kind": "Secret"}, "patch": json.dumps(patch)}],
    )
    await space.ready()

    obj = await space.get(SECRET, "big-s")
    assert await values_of(space, "big-s") == {"word": word}
    assert owned(obj) == [f"f:{envelope.CARRIER}"]
    assert dig(obj, "metadata", "annotations", "patched") == "yes"
    assert dig(obj, "metadata", "labels", "team") == "a"


async def test_a_patch_of_the_values_is_built_in_clear(
    space: Space, sops: Reference, word: str
) -> None:
    await armed(space)
    await give_keys(space, sops.secret)
    patch = {**secret("s", extra="1"), "metadata": {"name": "s"}}

    await start(
        space,
        {"s.yaml": encrypted(sops, secret("s", word=word))},
        patches=[{"patch": yaml.safe_dump(patch)}],
    )
    await space.ready()

    assert await values_of(space, "s") == {"word": word, "extra": "1"}
    assert envelope.LABEL not in dig(await space.get(SECRET, "s"), "metadata", "labels")


async def test_generated_values_that_are_documents_are_opened_at_admission(
    space: Space, sops: Reference, word: str
) -> None:
    await armed(space)
    await give_keys(space, sops.secret)
    kustomization = {
        "secretGenerator": [
            {"name": "files", "files": ["a.yaml"], "options": {"disableNameSuffixHash": True}},
            {"name": "env", "envs": ["b.env"], "options": {"disableNameSuffixHash": True}},
        ],
        "resources": ["s.yaml", "c.yaml"],
    }

    await start(
        space,
        {
            "kustomization.yaml": yaml.safe_dump(kustomization),
            "a.yaml": sops.yaml({"user": word}),
            "b.env": env_file(sops, PASSWORD=word),
            "s.yaml": encrypted(sops, secret("s", word=word)),
            "c.yaml": config_map("c", v="1"),
        },
    )
    await space.ready()

    assert await values_of(space, "files") == {"a.yaml": f"user: {word}\n"}
    assert await values_of(space, "env") == {"PASSWORD": word}
    assert await values_of(space, "s") == {"word": word}
    marked = [
        name for name in ("files", "env", "s") if envelope.opted_in(await space.get(SECRET, name))
    ]
    assert marked == ["files", "s"]
    assert (await space.get(CONFIG_MAP, "c"))["data"] == {"v": "1"}


async def test_variables_in_encrypted_text_are_still_replaced(
    space: Space, sops: Reference, word: str
) -> None:
    await armed(space)
    await give_keys(space, sops.secret)

    await start(
        space,
        {"s.yaml": encrypted(sops, secret("s", word=f"{word} ${{who}}"))},
        postBuild={"substitute": {"who": "me"}},
    )
    await space.ready()

    assert await values_of(space, "s") == {"word": f"{word} me"}


async def test_tampering_is_refused_or_undone(space: Space, sops: Reference, word: str) -> None:
    await armed(space)
    await give_keys(space, sops.secret)
    await start(space, {"s.yaml": encrypted(sops, secret("s", word=word))})
    await space.ready()
    api = space.world.api
    data = {"data": {"word": base64.b64encode(b"other").decode()}}

    with pytest.raises(ForbiddenError, match="change the document"):
        await api.patch(SECRET, "s", space.namespace, data, strategy="merge")
    freed = {**data, "metadata": {"labels": {envelope.LABEL: None}}}
    await api.patch(SECRET, "s", space.namespace, freed, strategy="merge")
    await space.world.until(SECRET, space.namespace, "s", envelope.opted_in)

    assert await values_of(space, "s") == {"word": word}


async def test_a_document_without_a_key_says_so(space: Space, sops: Reference, word: str) -> None:
    await armed(space)
    await give_keys(space, Reference().secret)
    await start(space, {"s.yaml": encrypted(sops, secret("s", word=word))})

    obj = await space.refused(saying="no key opens the data key")

    assert f"Secret/{space.namespace}/s" in str(obj["status"])
    assert not dig(await space.get(KUSTOMIZATION, "app"), "status", "inventory", "entries")
    await assert_unseen(space, word)
