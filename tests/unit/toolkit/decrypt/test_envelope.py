"""Carriers: what goes into one comes out of it, for the Secret that it was made for alone."""

import base64
from datetime import date
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.toolkit.decrypt.reference import Reference
from toolkit.decrypt import envelope, objects
from toolkit.decrypt.errors import DecryptionError
from toolkit.decrypt.keyring import KeyRing
from toolkit.objects import Json

SOPS = Reference()
KEYS = KeyRing.from_secret(SOPS.secret)
ENCRYPTED = {"encrypted_regex": "^(data|stringData)$"}
NAMES = st.from_regex(r"[a-z][a-z0-9.-]{0,20}", fullmatch=True)
TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\x85\u2028\u2029"), max_size=60)


def manifest(name: str = "db", namespace: str | None = "prod", **fields: Any) -> Json:
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata}
    return {**secret, **(fields or {"stringData": {"password": "hunter2"}})}


def plain(path: tuple[str, ...]) -> bool:
    return path[0] not in ("data", "stringData")


def encrypted(*secrets: Json, **options: Any) -> bytes:
    return SOPS.yaml(*secrets, plain=plain, **ENCRYPTED, **options)


def values(data: Any) -> dict[str, bytes]:
    return {name: base64.b64decode(value) for name, value in data.items()}


def carrier(*, name: str = "db", namespace: str = "prod", document: bytes = b"") -> Json:
    made = envelope.make(document or encrypted(manifest()))
    return {**made, "metadata": {**made["metadata"], "name": name, "namespace": namespace}}


@settings(max_examples=60, deadline=None)
@given(data=st.dictionaries(NAMES, st.binary(max_size=60)), text=st.dictionaries(NAMES, TEXTS))
def test_a_carrier_opens_to_exactly_what_was_encrypted(
    data: dict[str, bytes], text: dict[str, str]
) -> None:
    coded = {key: base64.b64encode(value).decode() for key, value in data.items()}
    whole = manifest(data=coded, stringData=text)
    made = carrier(document=SOPS.json(whole, plain=plain, **ENCRYPTED))

    opened = envelope.open_carrier(made, KEYS, bound=True)

    assert values(opened.data) == data | {key: value.encode() for key, value in text.items()}


def test_a_carrier_has_plain_metadata_and_the_file_byte_for_byte() -> None:
    document = encrypted(
        manifest(type="example.com/login", immutable=True, stringData={"a": "secret"})
    )

    made = envelope.make(document)

    assert made["metadata"] == {
        "name": "db",
        "namespace": "prod",
        "labels": {envelope.LABEL: "true"},
    }
    assert (made["type"], made["immutable"]) == ("example.com/login", True)
    assert values(made["data"]) == {envelope.CARRIER: document}


def test_the_same_carrier_is_filled_the_same_way_every_time() -> None:
    made = carrier()

    first = envelope.filled(made, envelope.open_carrier(made, KEYS, bound=True))
    again = {**first, "data": {**first["data"], **made["data"]}}

    assert envelope.filled(again, envelope.open_carrier(again, KEYS, bound=True)) == first


def test_a_key_that_left_the_document_leaves_the_secret() -> None:
    made = carrier()
    made["data"]["stale"] = base64.b64encode(b"old").decode()

    opened = envelope.open_carrier(made, KEYS, bound=True)

    assert set(opened.data) == {"password"}


@pytest.mark.parametrize("where", [{"name": "other"}, {"namespace": "staging"}])
def test_a_document_does_not_open_in_another_secret(where: dict[str, str]) -> None:
    with pytest.raises(envelope.UnboundError, match=f"metadata.{next(iter(where))}"):
        envelope.open_carrier(carrier(**where), KEYS, bound=True)


def test_a_document_without_a_namespace_binds_nothing() -> None:
    made = carrier(document=encrypted(manifest(namespace=None)))

    with pytest.raises(envelope.UnboundError, match=r"metadata\.namespace"):
        envelope.open_carrier(made, KEYS, bound=True)


def test_a_mac_over_encrypted_values_alone_binds_nothing() -> None:
    made = carrier(document=encrypted(manifest(), mac_only_encrypted=True))

    with pytest.raises(envelope.UnboundError, match="mac_only_encrypted"):
        envelope.open_carrier(made, KEYS, bound=True)


def test_a_vouched_document_opens_wherever_it_was_moved() -> None:
    made = carrier(name="prefix-db", namespace="elsewhere")

    opened = envelope.open_carrier(made, KEYS, bound=False)

    assert values(opened.data) == {"password": b"hunter2"}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"prod", b"evil"),  # another namespace
        (b"name: db", b"name: bd"),
        (b"stringData:", b"data:"),
    ],
)
def test_a_changed_document_is_refused(old: bytes, new: bytes) -> None:
    document = encrypted(manifest()).replace(old, new)
    made = carrier(document=document, namespace="evil", name="bd")

    with pytest.raises(DecryptionError):
        envelope.open_carrier(made, KEYS, bound=True)


@settings(max_examples=150, deadline=None)
@given(at=st.integers(0), byte=st.integers(0, 255))
def test_no_change_of_a_byte_gives_other_values(at: int, byte: int) -> None:
    document = bytearray(DOCUMENT)
    document[at % len(document)] = byte
    secret = carrier(document=DOCUMENT)
    secret["data"] = {envelope.CARRIER: base64.b64encode(document).decode()}

    try:
        opened = envelope.open_carrier(secret, KEYS, bound=True)
    except DecryptionError:
        return

    assert values(opened.data) == {"password": b"hunter2"}


DOCUMENT = encrypted(manifest())


def described(**metadata: Any) -> Json:
    secret = manifest()
    return {**secret, "metadata": {**secret["metadata"], **metadata}}


NAMELESS = {"apiVersion": "v1", "kind": "Secret", "data": {"a": "YQ=="}}
CIPHERTEXT = {"note": SOPS.seal("x", "metadata:annotations:note:")}


@pytest.mark.parametrize(
    ("document", "complaint"),
    [
        (b"plain: text\n", "not a SOPS document in YAML or JSON"),
        (encrypted(manifest("a"), manifest("b")), "holds several documents"),
        (encrypted({**manifest(), "kind": "ConfigMap"}), "not the manifest of a Secret"),
        (encrypted({**manifest(), "unheard": "of"}), "only the usual fields"),
        (encrypted(NAMELESS), "not a Secret manifest with a name"),
        (SOPS.yaml(manifest()), "not the manifest of a Secret"),
        (encrypted(described(annotations=CIPHERTEXT)), "not only its data are encrypted"),
        (encrypted(described(labels=["a"])), "its labels are not a mapping"),
        (encrypted(described(annotations={"on": date(2026, 1, 2)})), "its metadata have a date"),
        (encrypted(manifest(stringData={"a": "x" * (2 << 20)})), "more than 2 MiB"),
    ],
    ids=[
        *("plain", "stream", "kind", "field", "nameless", "whole"),
        *("metadata", "labels", "date", "large"),
    ],
)
def test_what_admission_cannot_decrypt_gets_no_carrier(document: bytes, complaint: str) -> None:
    with pytest.raises(envelope.NoCarrierError, match=complaint):
        envelope.make(document)


@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        (base64.b64encode(bytes((2 << 20) + 1)).decode(), "has more than 2 MiB"),
        (7, "is not text"),
        ("no base64!", "is not base64"),
        ("eA==", "is not a SOPS document in YAML or JSON"),
    ],
    ids=["large", "number", "raw", "plain"],
)
def test_what_is_no_carried_document_is_not_opened(value: Any, complaint: str) -> None:
    secret = manifest(data={envelope.CARRIER: value})

    with pytest.raises(DecryptionError, match=rf"^data\.penstock\.sops\.yaml {complaint}"):
        envelope.open_carrier(secret, KEYS, bound=True)


def test_documents_among_the_values_are_limited_together() -> None:
    padded = base64.b64encode(SOPS.yaml({"a": "b"}) + b"#" * (1 << 20)).decode()
    secret = envelope.mark(manifest(data={"a.yaml": padded, "b.yaml": padded}))

    with pytest.raises(DecryptionError, match="the documents have more than 2 MiB"):
        envelope.open_values(secret, KEYS)


@pytest.mark.parametrize("part", ["data", "stringData"])
def test_data_that_are_no_mapping_are_refused_by_name(part: str) -> None:
    made = carrier(document=encrypted(manifest(**{part: ["a"]})))

    with pytest.raises(DecryptionError, match=f"^{part} of the document is not a mapping"):
        envelope.open_carrier(made, KEYS, bound=True)


def test_documents_among_the_values_are_opened_in_place() -> None:
    inner = SOPS.yaml({"user": "admin"})
    secret = envelope.mark(manifest(data={"a.yaml": base64.b64encode(inner).decode(), "b": "Yg=="}))

    opened = envelope.open_values(secret, KEYS)

    assert values(opened.data) == {"a.yaml": b"user: admin\n", "b": b"b"}
    assert opened.annotations[envelope.RECIPIENTS].startswith("age:age1")


def test_the_annotations_tell_recipients_and_nothing_secret() -> None:
    made = carrier()

    opened = envelope.open_carrier(made, KEYS, bound=True)
    stored = envelope.filled(made, opened)

    assert envelope.recipients(stored) == (f"age:{SOPS.identity.to_public()}",)
    assert "hunter2" not in str(opened)
    assert "hunter2" not in str(opened.annotations)


def test_values_that_are_no_text_are_refused_by_their_key() -> None:
    made = carrier(document=encrypted(manifest(stringData={"port": 5432})))

    with pytest.raises(DecryptionError, match=r"stringData\.port .* quote it") as caught:
        envelope.open_carrier(made, KEYS, bound=True)

    assert "5432" not in str(caught.value)


def test_stray_ciphertext_is_found_where_nobody_asked_for_decryption() -> None:
    value = base64.b64encode(SOPS.seal("x", "data:x:").encode()).decode()

    assert envelope.stray(manifest(data={"ok": "eA==", "x": value})) == "x"
    assert envelope.stray(manifest(data={"f": base64.b64encode(DOCUMENT).decode()})) == "f"
    assert envelope.stray(manifest(data={"x": "eA=="})) is None


def test_a_carrier_that_was_not_opened_is_stray() -> None:
    assert envelope.stray(carrier()) == envelope.CARRIER


def test_stored_ciphertext_does_not_stand_in_the_way() -> None:
    secret = manifest(data={"f": base64.b64encode(DOCUMENT).decode()})

    assert (
        envelope.stray({**secret, "metadata": {"name": "db", "labels": {"a": "b"}}}, secret) is None
    )


def test_ciphertext_on_purpose_is_left_alone() -> None:
    secret = manifest(data={"f": base64.b64encode(DOCUMENT).decode()})
    secret["metadata"]["annotations"] = {objects.OPT_OUT: "disabled"}

    assert envelope.stray(secret) is None


@pytest.mark.parametrize("value", ["TRUE", "yes", "", None])
def test_only_the_exact_label_opts_in(value: str | None) -> None:
    secret = manifest()
    secret["metadata"]["labels"] = {envelope.LABEL: value}

    assert not envelope.opted_in(secret)
    assert envelope.opted_in(envelope.mark(secret))


@pytest.mark.parametrize(
    ("recipient", "wanted"),
    [
        (
            "kms:arn:aws:kms:eu-west-1:111122223333:key/x",
            "arn:aws:kms:eu-west-1:111122223333:key/x",
        ),
        ("hc_vault:https://v:8200/transit/k", "https://v:8200/transit/k"),
        (
            "gcp_kms:projects/p/locations/l/keyRings/r/cryptoKeys/k",
            "gcp_kms:projects/p/locations/l/keyRings/r/cryptoKeys/k",
        ),
        ("azure_kv:https://f.vault.azure.net/sops", "https://f.vault.azure.net/sops"),
    ],
)
def test_a_key_of_a_service_is_found_by_its_address(recipient: str, wanted: str) -> None:
    assert envelope.same_recipient(recipient, wanted)
    assert not envelope.same_recipient(recipient, f"{wanted}2")


@pytest.mark.parametrize("value", [None, 7, True, [], {}])
def test_value_that_is_no_text_is_no_document(value: Any) -> None:
    odd = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {"a": value}}

    assert envelope.stray(odd) is None
    assert envelope.stray(odd, odd) is None
    assert not envelope.carries(odd)
    assert not envelope.carries({**odd, "data": value})
