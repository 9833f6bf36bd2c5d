"""What sops 3.13 encrypted decrypts here to what sops 3.13 decrypts it to."""

import base64
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fakes.opening import Opening
from toolkit.decrypt import objects, sops
from toolkit.decrypt.errors import DecryptionError
from toolkit.decrypt.formats import envfile, inifile, jsonfile, yamlfile
from toolkit.decrypt.keyring import KeyRing
from toolkit.decrypt.tree import Branch, Comment, Value, mac_bytes

HERE = Path(__file__).parent
CASES = sorted(path.name for path in (HERE / "encrypted").iterdir())
GROUPS = [name for name in CASES if name.startswith("groups.")]
SEALED = "sealed.yaml"
"""What `penstock seal` has encrypted."""


def ring(*names: str) -> KeyRing:
    return KeyRing.from_secret({name: (HERE / "keys" / name).read_bytes() for name in names})


ALL_KEYS = ring("first.agekey", "ssh.agekey", "golden.asc")
AGE_KEYS = ring("first.agekey", "second.agekey", "ssh.agekey")


def encrypted(case: str) -> bytes:
    return (HERE / "encrypted" / case).read_bytes()


def test_the_goldens_cover_every_format_and_kind_of_key() -> None:
    endings = {Path(case).suffix for case in CASES}

    assert endings == {".yaml", ".json", ".env", ".ini", ".bin", ".txt"}
    assert {"key-pgp.yaml", "key-ssh.yaml", "key-several.yaml", "groups.yaml"} <= set(CASES)


@pytest.mark.parametrize("case", CASES)
def test_a_golden_document_decrypts_as_sops_decrypts_it(case: str, opener: Opening) -> None:
    expected = (HERE / "decrypted" / case).read_bytes()

    plain = opener.decrypt(encrypted(case), sops.format_of(case), ALL_KEYS)

    if case == SEALED:  # SOPS gives it another layout
        assert repr(yamlfile.load(plain)) == repr(yamlfile.load(expected))
    else:
        assert plain == expected


@pytest.mark.parametrize("case", CASES)
def test_a_golden_document_is_recognised_by_its_content(case: str) -> None:
    form = sops.format_of(case)
    seen = sops.Format.JSON if form is sops.Format.BINARY else form

    assert sops.detect(encrypted(case)) is seen
    assert not sops.is_encrypted((HERE / "decrypted" / case).read_bytes())


@pytest.mark.parametrize("case", CASES)
def test_a_golden_document_does_not_open_with_a_foreign_key(case: str) -> None:
    with pytest.raises(DecryptionError, match="no key opens the data key"):
        sops.decrypt(encrypted(case), sops.format_of(case), ring("third.agekey"))


@pytest.mark.parametrize(
    "key", ["first.agekey", "second.agekey", "golden.asc"], ids=lambda name: name.split(".")[0]
)
def test_any_of_several_recipients_opens_the_document(key: str, opener: Opening) -> None:
    plain = opener.decrypt(encrypted("key-several.yaml"), sops.Format.YAML, ring(key))

    assert b"p@ss: word #1" in plain


@pytest.mark.parametrize("case", GROUPS)
@pytest.mark.parametrize(
    "held",
    [
        ("first.agekey", "second.agekey"),
        ("first.agekey", "golden.asc"),
        ("second.agekey", "golden.asc"),
        ("first.agekey", "second.agekey", "golden.asc"),
    ],
    ids="+".join,
)
def test_two_of_three_key_groups_open_the_document(
    case: str, held: tuple[str, ...], opener: Opening
) -> None:
    plain = opener.decrypt(encrypted(case), sops.format_of(case), ring(*held))

    assert plain == sops.decrypt(encrypted(case), sops.format_of(case), AGE_KEYS)


@pytest.mark.parametrize("case", GROUPS)
def test_one_of_three_key_groups_is_not_enough(case: str) -> None:
    with pytest.raises(DecryptionError, match="1 of 2 key groups opened"):
        sops.decrypt(encrypted(case), sops.format_of(case), ring("second.agekey"))


def test_comments_are_kept() -> None:
    plain = sops.decrypt(encrypted("userdata.yaml"), sops.Format.YAML, ALL_KEYS)

    assert plain.startswith(b"#cloud-config\n")


LOADERS = {
    sops.Format.YAML: yamlfile.load,
    sops.Format.JSON: jsonfile.load,
    sops.Format.DOTENV: envfile.load,
    sops.Format.INI: inifile.load,
}
WHOLE_MAC = [case for case in CASES if "mac-only" not in case and not case.startswith("key-pgp")]


def values(plain: bytes, form: sops.Format) -> bytes:
    """Return what the MAC covers: the values one after the other, without keys and structure."""
    if form is sops.Format.BINARY:
        return plain

    def leaves(value: Value) -> bytes:
        if isinstance(value, Branch):
            return b"".join(leaves(child) for _, child in value.entries())
        if isinstance(value, list):
            return b"".join(map(leaves, value))
        return b"" if isinstance(value, Comment) else mac_bytes(value)

    return b"".join(map(leaves, LOADERS[form](plain)))


@settings(max_examples=100, deadline=None)
@given(case=st.sampled_from(WHOLE_MAC), data=st.data())
def test_no_change_of_a_byte_changes_a_value(case: str, data: st.DataObject) -> None:
    document = bytearray(encrypted(case))
    at = data.draw(st.integers(0, len(document) - 1))
    document[at] = data.draw(st.integers(0, 255))
    form = sops.format_of(case)

    try:
        plain = sops.decrypt(bytes(document), form, AGE_KEYS)
    except DecryptionError:
        return  # Refused, as nearly every change is.

    assert values(plain, form) == values(sops.decrypt(encrypted(case), form, AGE_KEYS), form)


@pytest.mark.parametrize("name", ["user-data", "user-data.yaml"])
def test_value_of_a_secret_is_what_sops_writes(name: str) -> None:
    value = base64.b64encode(encrypted("userdata.yaml")).decode()
    secret = {"apiVersion": "v1", "kind": "Secret", "data": {name: value}}

    opened = objects.decrypt_object(secret, ALL_KEYS)

    expected = (HERE / "decrypted" / "userdata.yaml").read_bytes()
    assert base64.b64decode(opened["data"][name]) == expected
