"""SOPS: what is encrypted in Git is plain in the cluster, and nowhere else."""

import asyncio
import base64
import json
import os
import secrets
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.conftest import (
    CONFIG_MAP,
    EVENT,
    GIT_REPOSITORY,
    KUSTOMIZATION,
    SECRET,
    Space,
    condition,
    config_map,
)
from tests.unit.toolkit.decrypt.reference import Reference
from toolkit.artifact import scratch
from toolkit.decrypt import envelope
from toolkit.objects import GroupVersionKind, Json

REGISTRATION = GroupVersionKind(
    "admissionregistration.k8s.io", "v1", "MutatingWebhookConfiguration"
)

pytestmark = pytest.mark.asyncio(loop_scope="session")

GOLDENS = Path(__file__).parent.parent / "conformance" / "sops"
SOPS = {"provider": "sops", "secretRef": {"name": "sops"}}


@pytest.fixture
def sops() -> Reference:
    """Return an encrypter with a key of its own."""
    return Reference()


@pytest.fixture
def word() -> str:
    """Return a secret that stands nowhere by chance."""
    return f"word-{secrets.token_hex(8)}"


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


def golden_key(name: str) -> dict[str, bytes]:
    return {name: (GOLDENS / "keys" / name).read_bytes()}


def secret(name: str, **values: str) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name},
        "stringData": values,
    }


def encrypted(sops: Reference, obj: Json) -> bytes:
    """Encrypt the values of an object as the SOPS guide for Flux has it."""
    values = ("data", "stringData", "spec")
    return sops.yaml(
        obj, plain=lambda path: path[0] not in values, encrypted_regex="^(data|stringData|spec)$"
    )


def env_file(sops: Reference, **values: str) -> bytes:
    """Encrypt a dotenv file; its metadata are flat."""
    tree = sops.encrypt([values])[0]
    block = tree.pop("sops")
    recipient = block.pop("age")[0]
    flat = {f"sops_{key}": value for key, value in block.items()}
    flat |= {f"sops_age__list_0__map_{key}": value for key, value in recipient.items()}
    lines = [
        f"{key}={str(value).replace(chr(10), chr(92) + 'n')}"
        for key, value in (tree | flat).items()
    ]
    return "\n".join(lines).encode() + b"\n"


async def values_of(space: Space, name: str) -> dict[str, str]:
    """Return the decoded data of a Secret."""
    data = (await space.get(SECRET, name))["data"]
    return {key: base64.b64decode(value).decode() for key, value in data.items()}


async def assert_unseen(space: Space, word: str) -> None:
    """Look for a secret wherever it must not be: our objects, events, logs and files."""
    api = space.world.api
    told = [await api.list(gvk, space.namespace) for gvk in (KUSTOMIZATION, GIT_REPOSITORY, EVENT)]
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


async def test_encrypted_file_is_applied_and_stays_secret(
    space: Space, sops: Reference, word: str
) -> None:
    await give_keys(space, sops.secret)

    await start(
        space,
        {"s.yaml": encrypted(sops, secret("s", word=word)), "a.yaml": config_map("a", v="1")},
    )
    await space.ready()

    obj = await space.get(SECRET, "s")
    assert await values_of(space, "s") == {"word": word}
    assert "sops" not in obj
    assert (await space.get(CONFIG_MAP, "a"))["data"] == {"v": "1"}
    await assert_unseen(space, word)


async def test_rotated_secret_is_rolled_out(space: Space, sops: Reference, word: str) -> None:
    await give_keys(space, sops.secret)
    await start(space, {"s.yaml": encrypted(sops, secret("s", word="first one"))})
    await space.ready()

    commit = space.repositories[0].commit({"s.yaml": encrypted(sops, secret("s", word=word))})
    await space.request(GIT_REPOSITORY)
    await space.ready(revision=commit)

    assert await values_of(space, "s") == {"word": word}
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
        "secretGenerator": [
            {"name": "files", "files": ["app.yaml", "plain=blob.bin"]},
            {"name": "variables", "envs": ["app.env"]},
        ],
        "generatorOptions": {"disableNameSuffixHash": True},
        "patches": [{"path": "patch.yaml"}],
    }
    patch = yaml.safe_load(config_map("base", patched=word))

    await start(
        space,
        {
            "kustomization.yaml": yaml.safe_dump(kustomization),
            "base.yaml": config_map("base", v="1"),
            "app.yaml": sops.yaml({"password": word}),
            "blob.bin": sops.binary(f"blob {word}\n"),
            "app.env": env_file(sops, USER="admin", PASSWORD=word),
            "patch.yaml": encrypted(sops, patch),
        },
    )
    await space.ready()

    files = await values_of(space, "files")
    assert yaml.safe_load(files["app.yaml"]) == {"password": word}
    assert files["plain"] == f"blob {word}\n"
    assert await values_of(space, "variables") == {"USER": "admin", "PASSWORD": word}
    assert (await space.get(CONFIG_MAP, "base"))["data"] == {"v": "1", "patched": word}
    await assert_unseen(space, word)


async def test_documents_among_the_values_of_a_secret_are_decrypted(
    space: Space, sops: Reference, word: str
) -> None:
    await give_keys(space, sops.secret)
    nested = base64.b64encode(sops.json({"inner": word})).decode()
    obj = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "s"},
        "data": {"x.json": nested},
    }

    await start(space, {"s.yaml": yaml.safe_dump(obj)})
    await space.ready()

    assert json.loads((await values_of(space, "s"))["x.json"]) == {"inner": word}
    await assert_unseen(space, word)


async def test_decryption_comes_before_substitution(
    space: Space, sops: Reference, word: str
) -> None:
    await give_keys(space, sops.secret)

    await start(
        space,
        {"s.yaml": encrypted(sops, secret("s", url="https://${host}/" + word))},
        postBuild={"substitute": {"host": "example.org"}},
    )
    await space.ready()

    assert await values_of(space, "s") == {"url": f"https://example.org/{word}"}
    await assert_unseen(space, word)


@pytest.mark.parametrize("form", ["file", "generated"])
async def test_encrypted_object_is_refused_and_named_without_decryption(
    space: Space, sops: Reference, word: str, form: str
) -> None:
    files: dict[str, str | bytes] = {"s.yaml": encrypted(sops, secret("s", word=word))}
    if form == "generated":
        options = {"disableNameSuffixHash": True}
        generator = [{"name": "s", "files": ["app.yaml"]}]
        kustomization = {"secretGenerator": generator, "generatorOptions": options}
        files = {
            "kustomization.yaml": yaml.safe_dump(kustomization),
            "app.yaml": sops.yaml({"word": word}),
        }

    await start(space, {**files}, decryption=None)
    obj = await space.refused(saying="SOPS encrypted")

    message = condition(obj, "Ready")["message"]
    assert message.startswith(f"Secret/{space.namespace}/s is SOPS encrypted at ")
    assert "spec.decryption" in message
    assert condition(obj, "Ready")["reason"] == "BuildFailed"
    assert not await space.world.exists(SECRET, space.namespace, "s")


async def test_ciphertext_is_applied_where_an_object_asks_for_it(
    space: Space, sops: Reference, word: str
) -> None:
    obj = secret("s", blob=sops.json({"word": word}).decode())
    obj["metadata"]["annotations"] = {"kustomize.toolkit.fluxcd.io/decrypt": "Disabled"}

    await start(space, {"s.yaml": yaml.safe_dump(obj)}, decryption=None)
    await space.ready()

    assert (await values_of(space, "s"))["blob"].startswith('{"word": "ENC[')


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

    missing = f"Secret '{space.namespace}/sops' not found"
    assert condition(absent, "Ready")["message"].endswith(missing)
    message = condition(wrong, "Ready")["message"]
    assert f"cannot decrypt Secret/{space.namespace}/s: no key opens the data key" in message
    assert f"age {sops.identity.to_public()}" in message
    await assert_unseen(space, word)


async def test_tampered_file_is_refused(space: Space, sops: Reference, word: str) -> None:
    await armed(space)
    await give_keys(space, sops.secret)
    tampered = encrypted(sops, secret("s", word=word)).replace(b"name: s", b"name: t")

    await start(space, {"s.yaml": tampered})
    obj = await space.refused(saying=f"cannot decrypt Secret/{space.namespace}/t")

    assert "MAC" in condition(obj, "Ready")["message"]
    assert not await space.world.exists(SECRET, space.namespace, "t")
    await assert_unseen(space, word)


@pytest.mark.parametrize("mistake", ["number", "value", "certificate", "patch", "syntax"])
async def test_mistake_in_plaintext_is_told_without_the_plaintext(
    space: Space, sops: Reference, word: str, mistake: str
) -> None:
    await give_keys(space, sops.secret)
    files: dict[str, str | bytes]
    match mistake:
        case "number":  # the API server quotes what it cannot convert
            word = str(secrets.randbits(50))
            pin = yaml.safe_load(config_map("a")) | {"data": {"pin": int(word)}}
            files, where = (
                {"a.yaml": encrypted(sops, pin)},
                f"ConfigMap/{space.namespace}/a dry-run",
            )
        case "value":  # all is encrypted, the object's name too, which is told all the same
            labelled = yaml.safe_load(config_map("a"))
            labelled["metadata"]["labels"] = {"password": f"{word}?"}
            files, where = {"a.yaml": sops.yaml(labelled)}, f"ConfigMap/{space.namespace}/a dry-run"
        case "certificate":
            tls = secret("s", **{"tls.key": word}) | {"type": "kubernetes.io/tls"}
            files, where = {"s.yaml": encrypted(sops, tls)}, f"Secret/{space.namespace}/s dry-run"
        case "patch":
            resources = {"resources": ["a.yaml"], "patches": [{"path": "patch.yaml"}]}
            files = {
                "kustomization.yaml": yaml.safe_dump(resources),
                "a.yaml": config_map("a"),
                "patch.yaml": sops.yaml({"password": word}),
            }
            where = "patch.yaml"
        case _:
            files = {
                "kustomization.yaml": yaml.safe_dump({"resources": ["a.yaml", "b.yaml"]}),
                "a.yaml": sops.yaml({"kind": "Kustomization", "resources": [word]}),
                "b.yaml": config_map("b"),
            }
            where = "build failed"

    await start(space, files)
    await space.refused(saying=where)

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
