"""What admission makes of an encrypted Secret is told without a key, and without its values."""

import base64
import json
from typing import Any

import msgspec
import pytest

from cli.local import encrypted
from crds.kustomize import Kustomization
from tests.unit.toolkit.decrypt.reference import Reference
from toolkit.decrypt import envelope
from toolkit.decrypt.keyring import KeyRing
from toolkit.objects import Json

LABEL = {envelope.LABEL: envelope.ENABLED}


@pytest.fixture
def sops() -> Reference:
    return Reference()


def document(sops: Reference, **values: str) -> bytes:
    manifest = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "s", "namespace": "team"},
        "stringData": values,
    }
    return sops.yaml(
        manifest, plain=lambda path: path[0] != "stringData", encrypted_regex="^stringData$"
    )


def generated(sops: Reference, **values: str) -> Json:
    """Return a Secret as secretGenerator makes it of an encrypted file, beside a plain one."""
    files = {"app.json": sops.json(values), "plain": b"p"}
    data = {name: base64.b64encode(content).decode() for name, content in files.items()}
    metadata = {"name": "s", "namespace": "team"}
    return envelope.mark({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data})


def live_of(secret: Json, sops: Reference) -> Json:
    """Return the Secret as admission stores it."""
    ring = KeyRing.from_secret(sops.secret)
    carried = envelope.CARRIER in secret["data"]
    opened = (
        envelope.open_carrier(secret, ring, bound=True)
        if carried
        else envelope.open_values(secret, ring)
    )
    return envelope.filled(secret, opened)


@pytest.mark.parametrize("form", ["carrier", "values"])
def test_unchanged_secret_is_what_admission_stored(sops: Reference, form: str) -> None:
    carrier = envelope.make(document(sops, user="u", word="w"))
    secret = carrier if form == "carrier" else generated(sops, word="w")
    live = live_of(secret, sops)

    sent = encrypted.stand_in(secret, live)
    told = encrypted.admitted(sent, secret, live)

    assert told == live
    assert sent["data"] == live["data"]
    assert envelope.LABEL not in sent["metadata"]["labels"]


def test_changed_document_is_told_by_its_digest_and_its_keys(sops: Reference) -> None:
    live = live_of(envelope.make(document(sops, user="u", word="w")), sops)
    secret = envelope.make(document(sops, user="u", more="m"))

    told = encrypted.admitted(encrypted.stand_in(secret, live), secret, live)

    notes, before = told["metadata"]["annotations"], live["metadata"]["annotations"]
    assert notes[envelope.DOCUMENT] != before[envelope.DOCUMENT]
    assert notes[envelope.RECIPIENTS] == before[envelope.RECIPIENTS]
    assert told["data"].keys() == {"user", "more"}
    assert told["data"]["user"] == live["data"]["user"]


def test_secret_that_was_applied_in_clear_is_compared_as_such(sops: Reference) -> None:
    secret = envelope.make(document(sops, word="w"))
    live: Json = {"metadata": {"name": "s", "namespace": "team"}, "data": {"word": "dw=="}}
    answer: Json = {"metadata": {"name": "s"}, "data": {"word": "dw=="}}

    assert encrypted.admitted(answer, secret, live) == answer


def test_new_secret_is_shown_with_masks_and_without_ciphertext(sops: Reference) -> None:
    secret = envelope.make(document(sops, word="w"))

    shown: Any = encrypted.stand_in(secret)

    assert base64.b64decode(shown["data"]["word"]).decode() == encrypted.MASK
    assert "ENC[" not in json.dumps(shown)
    assert envelope.CARRIER not in shown["data"]


def test_generated_values_that_need_a_key_are_masked(sops: Reference) -> None:
    secret: Json = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "env"},
        "data": {"WORD": encoded("ENC[AES256_GCM,data:x]"), "sops_mac": encoded("m"), "A": "YQ=="},
        "stringData": {"more": sops.json({"word": "w"}).decode(), "plain": "p"},
    }

    shown: Any = encrypted.mask(secret)

    assert shown["data"] == {"WORD": encoded(encrypted.MASK), "A": "YQ=="}
    assert shown["stringData"] == {"more": encrypted.MASK, "plain": "p"}


def test_secret_that_asks_to_stay_encrypted_is_left_alone(sops: Reference) -> None:
    note = {"kustomize.toolkit.fluxcd.io/decrypt": "Disabled"}
    secret: Json = {
        "kind": "Secret",
        "metadata": {"name": "s", "annotations": note},
        "stringData": {"word": sops.json({"word": "w"}).decode()},
    }

    assert encrypted.mask(secret) == secret


@pytest.mark.parametrize(
    ("spec", "admissible"),
    [
        ({}, False),
        ({"decryption": {"provider": "sops", "secretRef": {"name": "keys"}}}, True),
        ({"decryption": {"provider": "sops", "serviceAccountName": "kms"}}, True),
        (
            {
                "decryption": {"provider": "sops", "secretRef": {"name": "keys"}},
                "kubeConfig": {"secretRef": {"name": "elsewhere"}},
            },
            False,
        ),
    ],
)
def test_admission_decrypts_on_this_cluster_whatever_the_key(
    spec: Json, *, admissible: bool
) -> None:
    needed = {"interval": "1m", "prune": True, "sourceRef": {"kind": "Bucket", "name": "b"}}
    body = {"metadata": {"name": "app", "namespace": "team"}, "spec": {**needed, **spec}}

    assert encrypted.admissible(msgspec.convert(body, Kustomization)) == admissible


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
