"""SOPS: what is encrypted in Git is plain in the cluster, and nowhere else."""

import secrets
from pathlib import Path

import pytest
import yaml

from tests.e2e.conftest import (
    CONFIG_MAP,
    GIT_REPOSITORY,
    SECRET,
    Space,
    condition,
    config_map,
)
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

pytestmark = pytest.mark.asyncio(loop_scope="session")

GOLDENS = Path(__file__).parent.parent / "conformance" / "sops"


@pytest.fixture
def sops() -> Reference:
    """Return an encrypter with a key of its own."""
    return Reference()


@pytest.fixture
def word() -> str:
    """Return a secret that stands nowhere by chance."""
    return f"word-{secrets.token_hex(8)}"


def golden_key(name: str) -> dict[str, bytes]:
    return {name: (GOLDENS / "keys" / name).read_bytes()}


async def test_encrypted_file_is_applied_rolled_out_and_stays_secret(
    space: Space, sops: Reference, word: str
) -> None:
    await give_keys(space, sops.secret)
    first = encrypted(sops, secret("s", word="first one"))
    await start(space, {"s.yaml": first, "a.yaml": config_map("a", v="1")})
    await space.ready()

    commit = space.repositories[0].commit({"s.yaml": encrypted(sops, secret("s", word=word))})
    await space.request(GIT_REPOSITORY)
    await space.ready(revision=commit)

    obj = await space.get(SECRET, "s")
    assert await values_of(space, "s") == {"word": word}
    assert "sops" not in obj
    assert (await space.get(CONFIG_MAP, "a"))["data"] == {"v": "1"}
    await assert_unseen(space, word)


async def test_openpgp_key_opens_a_file_that_is_encrypted_throughout(space: Space) -> None:
    """An unusable key beside it is named, and does no harm."""
    await give_keys(space, {"damaged.asc": b"nonsense", **golden_key("golden.asc")})

    await start(space, {"s.yaml": (GOLDENS / "encrypted" / "key-pgp.yaml").read_bytes()})
    await space.ready()

    plain = yaml.safe_load((GOLDENS / "decrypted" / "key-pgp.yaml").read_bytes())
    assert await values_of(space, "database") == plain["stringData"]
    skipped = await space.told("skipped the decryption key 'damaged.asc': it is not an OpenPGP key")
    assert skipped["reason"] == "DecryptionKeySkipped"
    await assert_unseen(space, "p@ss: word #1")


async def test_inputs_of_a_kustomization_are_decrypted(
    space: Space, sops: Reference, word: str
) -> None:
    await give_keys(space, sops.secret)
    kustomization = {
        "resources": ["base.yaml"],
        "secretGenerator": [{"name": "variables", "envs": ["app.env"]}],
        "generatorOptions": {"disableNameSuffixHash": True},
        "patches": [{"path": "patch.yaml"}],
    }
    patch = yaml.safe_load(config_map("base", patched=word))

    await start(
        space,
        {
            "kustomization.yaml": yaml.safe_dump(kustomization),
            "base.yaml": config_map("base", v="1"),
            "app.env": env_file(sops, USER="admin", PASSWORD=word),
            "patch.yaml": encrypted(sops, patch),
        },
    )
    await space.ready()

    assert await values_of(space, "variables") == {"USER": "admin", "PASSWORD": word}
    assert (await space.get(CONFIG_MAP, "base"))["data"] == {"v": "1", "patched": word}
    await assert_unseen(space, word)


async def test_encrypted_object_is_refused_and_named_without_decryption(
    space: Space, sops: Reference, word: str
) -> None:
    await start(space, {"s.yaml": encrypted(sops, secret("s", word=word))}, decryption=None)
    obj = await space.refused(saying="SOPS encrypted")

    message = condition(obj, "Ready")["message"]
    assert message.startswith(
        f"Secret/{space.namespace}/s is SOPS encrypted, configuring decryption is required for "
        "this secret to be reconciled"
    )
    assert "spec.decryption" in message
    assert condition(obj, "Ready")["reason"] == "ReconciliationFailed"
    assert "inventory" not in obj["status"]
    assert not await space.world.exists(SECRET, space.namespace, "s")


async def test_wrong_key_is_told_and_the_right_one_found_by_itself(
    space: Space, sops: Reference, word: str
) -> None:
    await armed(space)
    files = {"deep/s.yaml": encrypted(sops, secret("s", word=word))}
    await start(space, files, retryInterval="500ms")
    absent = await space.refused(saying="sops' not found")
    await give_keys(space, golden_key("third.agekey"))
    wrong = await space.refused(saying="no key opens")
    await give_keys(space, sops.secret)
    await space.ready()

    missing = f"Secret '{space.namespace}/sops' not found: create it, or correct its name"
    assert condition(absent, "Ready")["message"].endswith(missing)
    message = condition(wrong, "Ready")["message"]
    assert f"cannot decrypt Secret/{space.namespace}/s: no key opens the data key" in message
    assert f"age {sops.identity.to_public()}" in message
    await assert_unseen(space, word)


async def test_mistakes_in_plaintext_are_told_without_the_plaintext(
    space: Space, sops: Reference, word: str
) -> None:
    """The API server quotes what it refuses; one message tells of all three objects."""
    await give_keys(space, sops.secret)
    number = str(secrets.randbits(50) + (1 << 50))
    pin = yaml.safe_load(config_map("number")) | {"data": {"pin": int(number)}}
    # All of it is encrypted, the object's name too, which is told all the same.
    labelled = yaml.safe_load(config_map("label"))
    labelled["metadata"]["labels"] = {"password": f"{word}?"}
    tls = secret("certificate", **{"tls.key": word}) | {"type": "kubernetes.io/tls"}

    await start(
        space,
        {
            "number.yaml": encrypted(sops, pin),
            "label.yaml": sops.yaml(labelled),
            "certificate.yaml": encrypted(sops, tls),
        },
    )
    obj = await space.refused(saying="dry-run")

    message = condition(obj, "Ready")["message"]
    for what in ("ConfigMap/{}/number", "ConfigMap/{}/label", "Secret/{}/certificate"):
        assert f"{what.format(space.namespace)} dry-run" in message
    await assert_unseen(space, number)
    await assert_unseen(space, word)


async def test_variable_of_a_secret_is_not_told_where_it_does_not_fit(
    space: Space, word: str
) -> None:
    await space.world.apply(
        secret("variables", port=word)
        | {"metadata": {"name": "variables", "namespace": space.namespace}}
    )
    port = {"name": "${port}?", "port": 80}
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "web"},
        "spec": {"ports": [port]},
    }
    given = {"substituteFrom": [{"kind": "Secret", "name": "variables"}]}

    await start(space, {"s.yaml": yaml.safe_dump(service)}, decryption=None, postBuild=given)
    obj = await space.refused(saying=f"Service/{space.namespace}/web dry-run failed (Invalid)")

    assert 'Invalid value: "***?"' in condition(obj, "Ready")["message"]
    await assert_unseen(space, word)
