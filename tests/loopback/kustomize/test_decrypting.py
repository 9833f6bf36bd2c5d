"""SOPS in a build: what is encrypted becomes objects in clear, and stays off disk and messages."""

import base64
import json
import secrets
from pathlib import Path

import pytest
import yaml

from tests.loopback.kustomize.conftest import NAMESPACE, Builds
from tests.unit.toolkit.decrypt.reference import Reference
from toolkit.errors import TransientError
from toolkit.objects import Json

pytestmark = pytest.mark.asyncio(loop_scope="module")

GOLDEN = Path(__file__).parents[2] / "conformance" / "sops"
"""Files that sops has encrypted, and decrypted."""


@pytest.fixture
def sops() -> Reference:
    """Return an encrypter with a key of its own."""
    return Reference()


@pytest.fixture
def word() -> str:
    """Return a secret that stands nowhere by chance."""
    return f"word-{secrets.token_hex(8)}"


def config_map(name: str, **data: str) -> Json:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def secret(name: str, **values: str) -> Json:
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": values}


def values_of(obj: Json) -> dict[str, str]:
    """Return the data of a Secret, decoded."""
    return {key: base64.b64decode(value).decode() for key, value in obj["data"].items()}


async def refused(builds: Builds, files: dict[str, str | bytes], sops: Reference) -> str:
    """Return why a build that may decrypt failed."""
    with pytest.raises(TransientError) as caught:
        await builds.render(files, keys=sops.secret)
    assert caught.value.reason == "BuildFailed"
    return str(caught.value)


async def test_inputs_of_a_kustomization_are_decrypted_and_never_on_disk(
    builds: Builds, sops: Reference, word: str
) -> None:
    kustomization = {
        "resources": ["base.yaml"],
        "secretGenerator": [
            {"name": "files", "files": ["app.yaml", "plain=blob.bin"]},
            {"name": "variables", "envs": ["app.env"]},
        ],
        "generatorOptions": {"disableNameSuffixHash": True},
        "patches": [{"path": "patch.yaml"}],
    }
    files: dict[str, str | bytes] = {
        "kustomization.yaml": yaml.safe_dump(kustomization),
        "base.yaml": yaml.safe_dump(config_map("base", v="1")),
        "app.yaml": sops.yaml({"password": word}),
        "blob.bin": sops.binary(f"blob {word}\n"),
        "app.env": sops.env(USER="admin", PASSWORD=word),
        "patch.yaml": sops.manifest(config_map("base", patched=word)),
    }

    rendered = await builds.render(files, keys=sops.secret)

    found = {obj["metadata"]["name"]: obj for obj in rendered.objects}
    inputs = values_of(found["files"])
    assert yaml.safe_load(inputs["app.yaml"]) == {"password": word}
    assert inputs["plain"] == f"blob {word}\n"
    assert values_of(found["variables"]) == {"USER": "admin", "PASSWORD": word}
    assert found["base"]["data"] == {"v": "1", "patched": word}
    assert rendered.redaction.text(f"no {word}") == "no ***"
    assert builds.holders("ENC[")
    assert builds.holders(word) == []


async def test_documents_among_the_values_of_a_secret_are_decrypted(
    builds: Builds, sops: Reference, word: str
) -> None:
    nested = base64.b64encode(sops.json({"inner": word})).decode()
    obj = {k: v for k, v in secret("s").items() if k != "stringData"} | {"data": {"x.json": nested}}

    rendered = await builds.render({"s.yaml": yaml.safe_dump(obj)}, keys=sops.secret)

    assert json.loads(values_of(rendered.objects[0])["x.json"]) == {"inner": word}


async def test_decryption_comes_before_substitution(
    builds: Builds, sops: Reference, word: str
) -> None:
    rendered = await builds.render(
        {"s.yaml": sops.manifest(secret("s", url="https://${host}/" + word))},
        keys=sops.secret,
        postBuild={"substitute": {"host": "example.org"}},
        variables={"host": "example.org"},
    )

    assert values_of(rendered.objects[0]) == {"url": f"https://example.org/{word}"}


@pytest.mark.parametrize("form", ["file", "generated"])
async def test_encrypted_object_is_refused_and_named_without_decryption(
    builds: Builds, sops: Reference, word: str, form: str
) -> None:
    files: dict[str, str | bytes] = {"s.yaml": sops.manifest(secret("s", word=word))}
    if form == "generated":
        options = {"disableNameSuffixHash": True}
        generator = [{"name": "s", "files": ["app.yaml"]}]
        kustomization = {"secretGenerator": generator, "generatorOptions": options}
        files = {
            "kustomization.yaml": yaml.safe_dump(kustomization),
            "app.yaml": sops.yaml({"word": word}),
        }

    with pytest.raises(TransientError) as caught:
        await builds.render(files)

    assert str(caught.value).startswith(f"Secret/{NAMESPACE}/s is SOPS encrypted, configur")
    assert "spec.decryption" in str(caught.value)
    assert caught.value.reason == "ReconciliationFailed"


async def test_files_that_become_values_are_what_sops_writes(builds: Builds) -> None:
    names = {"user-data": "userdata.yaml", "blocks.yaml": "blocks.yaml", "big.json": "numbers.json"}
    generator = {"name": "files", "files": [f"{key}={name}" for key, name in names.items()]}
    kustomization = {
        "secretGenerator": [generator],
        "generatorOptions": {"disableNameSuffixHash": True},
    }
    files: dict[str, str | bytes] = {"kustomization.yaml": yaml.safe_dump(kustomization)}
    files |= {name: (GOLDEN / "encrypted" / name).read_bytes() for name in names.values()}
    keys = {"first.agekey": (GOLDEN / "keys" / "first.agekey").read_bytes()}

    rendered = await builds.render(files, keys=keys)

    wanted = {key: (GOLDEN / "decrypted" / name).read_text() for key, name in names.items()}
    assert values_of(rendered.objects[0]) == wanted


async def test_ciphertext_is_applied_where_an_object_asks_for_it(
    builds: Builds, sops: Reference, word: str
) -> None:
    obj = secret("s", blob=sops.json({"word": word}).decode())
    obj["metadata"]["annotations"] = {"kustomize.toolkit.fluxcd.io/decrypt": "Disabled"}

    rendered = await builds.render({"s.yaml": yaml.safe_dump(obj)})

    assert values_of(rendered.objects[0])["blob"].startswith('{"word": "ENC[')


async def test_tampered_file_is_refused_and_named(
    builds: Builds, sops: Reference, word: str
) -> None:
    tampered = sops.manifest(secret("s", word=word)).replace(b"name: s", b"name: t")

    message = await refused(builds, {"s.yaml": tampered}, sops)

    assert message.startswith("cannot decrypt 's.yaml': ")
    assert "MAC" in message
    assert word not in message


async def test_patch_that_is_wrong_in_clear_is_told_without_its_text(
    builds: Builds, sops: Reference, word: str
) -> None:
    resources = {"resources": ["a.yaml"], "patches": [{"path": "patch.yaml"}]}
    files: dict[str, str | bytes] = {
        "kustomization.yaml": yaml.safe_dump(resources),
        "a.yaml": yaml.safe_dump(config_map("a")),
        "patch.yaml": sops.yaml({"password": word}),
    }

    message = await refused(builds, files, sops)

    assert "patch.yaml" in message
    assert word not in message


async def test_resource_that_is_wrong_in_clear_is_told_without_its_text(
    builds: Builds, sops: Reference, word: str
) -> None:
    files: dict[str, str | bytes] = {
        "kustomization.yaml": yaml.safe_dump({"resources": ["a.yaml", "b.yaml"]}),
        "a.yaml": sops.yaml({"kind": "Kustomization", "resources": [word]}),
        "b.yaml": yaml.safe_dump(config_map("b")),
    }

    message = await refused(builds, files, sops)

    assert "build failed" in message
    assert word not in message
