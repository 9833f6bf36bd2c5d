"""Documents inside Secrets are opened; ciphertext that stays is found."""

import base64
import copy
from typing import Any

import pytest

from tests.unit.toolkit.decrypt.reference import Reference
from toolkit.decrypt import objects
from toolkit.decrypt.errors import DecryptionError
from toolkit.decrypt.keyring import KeyRing

AUTHOR = Reference()
RING = KeyRing.from_secret(AUTHOR.secret)


def secret(data: dict[str, bytes], **more: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "s", "namespace": "apps"},
        "data": {name: base64.b64encode(value).decode() for name, value in data.items()},
        **more,
    }


def data_of(obj: dict[str, Any]) -> dict[str, bytes]:
    return {name: base64.b64decode(value) for name, value in obj["data"].items()}


@pytest.mark.parametrize(
    ("name", "value", "plain"),
    [
        ("config.yaml", AUTHOR.yaml({"a": "b"}), b"a: b\n"),
        ("config.json", AUTHOR.json({"a": "b"}), b'{\n\t"a": "b"\n}\n'),
        (".dockerconfigjson", AUTHOR.json({"data": "x"}), b'{\n\t"data": "x"\n}\n'),
        ("token", AUTHOR.binary("t0ken"), b"t0ken"),
        ("values", AUTHOR.yaml({"a": "b"}), b"a: b\n"),
        ("blob", AUTHOR.json({"a": "b"}), b'{\n\t"a": "b"\n}\n'),
    ],
)
def test_a_document_among_the_values_is_decrypted(name: str, value: bytes, plain: bytes) -> None:
    obj = secret({name: value, "other": b"as it was"})

    opened = objects.decrypt_object(obj, RING)

    assert data_of(opened) == {name: plain, "other": b"as it was"}
    assert objects.find_ciphertext(opened) is None


def test_a_value_that_is_broken_into_lines_is_read_as_one() -> None:
    obj = secret({})
    obj["data"] = {"a.yaml": base64.encodebytes(AUTHOR.yaml({"a": "b"})).decode()}

    assert objects.find_ciphertext(obj) == "data.a.yaml"
    assert data_of(objects.decrypt_object(obj, RING)) == {"a.yaml": b"a: b\n"}


def test_a_document_in_string_data_moves_to_data() -> None:
    obj = secret({}, stringData={"a.yaml": AUTHOR.yaml({"a": "b"}).decode(), "plain": "x"})

    opened = objects.decrypt_object(obj, RING)

    assert data_of(opened) == {"a.yaml": b"a: b\n"}
    assert opened["stringData"] == {"plain": "x"}


def test_a_document_inside_a_document_is_decrypted_too() -> None:
    inner = AUTHOR.binary("inner text").decode()
    obj = secret({"token": AUTHOR.binary(inner)})

    assert data_of(objects.decrypt_object(obj, RING)) == {"token": b"inner text"}


def test_the_object_given_is_not_changed() -> None:
    obj = secret({"a.yaml": AUTHOR.yaml({"a": "b"})})
    before = copy.deepcopy(obj)

    objects.decrypt_object(obj, RING)

    assert obj == before


@pytest.mark.parametrize(
    "obj",
    [
        secret({"a": b"plain"}),
        secret({"a.yaml": AUTHOR.yaml({"a": "b"})}, kind="ConfigMap"),
        {"kind": "Secret", "data": None},
        {"kind": "Secret", "data": {"a": "not base64", "b": 7}},
        {"kind": "List"},
    ],
)
def test_what_holds_no_document_is_returned_itself(obj: dict[str, Any]) -> None:
    assert objects.decrypt_object(obj, RING) is obj


def test_an_object_may_keep_its_ciphertext() -> None:
    obj = secret({"a.yaml": AUTHOR.yaml({"a": "b"})})
    obj["metadata"]["annotations"] = {objects.OPT_OUT: "Disabled"}

    assert objects.decrypt_object(obj, RING) is obj
    assert objects.find_ciphertext(obj) is None


def test_a_failure_names_the_key() -> None:
    stranger = KeyRing.from_secret(Reference().secret)
    obj = secret({"a.yaml": AUTHOR.yaml({"a": "b"})})

    with pytest.raises(DecryptionError, match=r"the value of 'a\.yaml': no key"):
        objects.decrypt_object(obj, stranger)


@pytest.mark.parametrize(
    ("obj", "place"),
    [
        ({"kind": "Secret", "sops": {"mac": "ENC[…]"}, "data": {}}, "sops"),
        ({"kind": "ConfigMap", "data": {"a": AUTHOR.seal("x", "data:a:")}}, "data.a"),
        ({"kind": "X", "spec": {"l": [{"v": AUTHOR.seal("x", "")}]}}, "spec.l[0].v"),
        (secret({"token": AUTHOR.seal("x", "").encode()}), "data.token"),
        (secret({"a.yaml": AUTHOR.yaml({"a": "b"})}), "data.a.yaml"),
        ({"kind": "Secret", "stringData": {"x": AUTHOR.binary("x").decode()}}, "data.x"),
        ({"kind": "Secret", "stringData": {"x": AUTHOR.seal("x", "")}}, "stringData.x"),
    ],
)
def test_ciphertext_is_found(obj: dict[str, Any], place: str) -> None:
    assert objects.find_ciphertext(obj) == place


@pytest.mark.parametrize(
    "obj",
    [
        {"kind": "ConfigMap", "data": {"doc": "values look like ENC[AES256_GCM,data:…]"}},
        {"kind": "ConfigMap", "data": {"a.yaml": AUTHOR.yaml({"a": "b"}).decode()}},
        {"kind": "Tool", "sops": {"enabled": True}},
        secret({"a": b"plain"}),
    ],
)
def test_what_only_mentions_ciphertext_is_not_reported(obj: dict[str, Any]) -> None:
    found = objects.find_ciphertext(obj)

    assert found is None
