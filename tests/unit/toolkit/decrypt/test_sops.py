"""Whole documents: what the reference encrypts comes back, what was tampered with is refused."""

import copy
import json
import math
from collections.abc import Callable
from typing import Any

import pyrage
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.toolkit.decrypt.reference import LAST_MODIFIED, Reference, as_yaml
from toolkit.decrypt import sops
from toolkit.decrypt.errors import DecryptionError
from toolkit.decrypt.formats import yamlfile
from toolkit.decrypt.keyring import KeyRing
from toolkit.decrypt.sops import Format
from toolkit.decrypt.tree import Branch, Value

AUTHOR = Reference()
RING = KeyRing.from_secret(AUTHOR.secret)
SECRET: dict[str, Any] = {
    "kind": "Secret",
    "metadata": {"name": "db", "namespace": "apps"},
    "stringData": {"user": "admin", "password": "hunter2", "empty": ""},
    "list": ["one", "two", {"three": 3}],
    "open_unencrypted": "everybody",
    "count_unencrypted": 7,
}

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.integers(-(2**20), 2**20).map(lambda number: (2 * number + 1) / 4)
    | texts
)
trees = st.dictionaries(
    texts.filter(lambda key: key not in ("sops", "<<")),
    st.recursive(
        scalars,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
        max_leaves=8,
    ),
    max_size=5,
)


def as_python(value: Value) -> Any:
    if isinstance(value, Branch):
        return {key: as_python(child) for key, child in value.entries()}
    return [as_python(item) for item in value] if isinstance(value, list) else value


def read(text: bytes) -> list[Any]:
    return [as_python(document) for document in yamlfile.load(text)]


@settings(max_examples=60, deadline=None)
@given(documents=st.lists(trees, min_size=1, max_size=3), mac_only=st.booleans())
def test_a_yaml_stream_comes_back_as_it_was(documents: list[Any], *, mac_only: bool) -> None:
    encrypted = AUTHOR.yaml(*documents, mac_only_encrypted=mac_only)

    plain = sops.decrypt(encrypted, Format.YAML, RING)

    assert repr(read(plain)) == repr(documents)


@settings(max_examples=60, deadline=None)
@given(document=trees)
def test_a_json_document_comes_back_as_it_was(document: dict[str, Any]) -> None:
    encrypted = AUTHOR.json(document)

    plain = sops.decrypt(encrypted, Format.JSON, RING)

    assert json.loads(plain) == document


@settings(max_examples=60, deadline=None)
@given(content=texts)
def test_a_binary_file_comes_back_as_it_was(content: str) -> None:
    encrypted = AUTHOR.binary(content)

    assert sops.decrypt(encrypted, Format.BINARY, RING) == content.encode()


def test_values_that_are_not_to_be_encrypted_are_passed_through() -> None:
    plain = read(sops.decrypt(AUTHOR.yaml(SECRET), Format.YAML, RING))

    assert plain == [SECRET]


@pytest.mark.parametrize(
    ("options", "plain"),
    [
        ({"unencrypted_suffix": "_open"}, lambda path: any(k.endswith("_open") for k in path)),
        ({"encrypted_suffix": "Data"}, lambda path: not any(k.endswith("Data") for k in path)),
        ({"encrypted_regex": "^stringData$"}, lambda path: "stringData" not in path),
        ({"unencrypted_regex": "^(kind|metadata)$"}, lambda p: p[0] in ("kind", "metadata")),
        ({"encrypted_comment_regex": "secret"}, lambda path: path[-1] != "password"),
    ],
)
def test_every_selector_is_followed(
    options: dict[str, Any], plain: Callable[[tuple[str, ...]], bool]
) -> None:
    encrypted = AUTHOR.yaml(SECRET, plain=plain, **options)

    assert read(sops.decrypt(encrypted, Format.YAML, RING)) == [SECRET]


def test_two_selectors_are_refused() -> None:
    encrypted = AUTHOR.yaml(SECRET, encrypted_suffix="x", unencrypted_regex="y")

    with pytest.raises(DecryptionError, match="more than one"):
        sops.decrypt(encrypted, Format.YAML, RING)


def flip(tree: dict[str, Any]) -> None:
    value = tree["stringData"]["password"]
    at = value.index("data:") + 5
    tree["stringData"]["password"] = (
        value[:at] + ("A" if value[at] != "A" else "B") + value[at + 1 :]
    )


def swap_values(tree: dict[str, Any]) -> None:
    data = tree["stringData"]
    data["user"], data["password"] = data["password"], data["user"]


def swap_list_items(tree: dict[str, Any]) -> None:
    tree["list"][0], tree["list"][1] = tree["list"][1], tree["list"][0]


def remove_leaf(tree: dict[str, Any]) -> None:
    del tree["stringData"]["password"]


def remove_list_item(tree: dict[str, Any]) -> None:
    del tree["list"][0]


def reorder_keys(tree: dict[str, Any]) -> None:
    tree["stringData"] = dict(reversed(tree["stringData"].items()))


def change_open_leaf(tree: dict[str, Any]) -> None:
    tree["open_unencrypted"] = "nobody"


def change_open_number(tree: dict[str, Any]) -> None:
    tree["count_unencrypted"] = 8


def add_open_leaf(tree: dict[str, Any]) -> None:
    tree["more_unencrypted"] = "text"


def replace_by_plain_text(tree: dict[str, Any]) -> None:
    tree["stringData"]["password"] = "known to the attacker"


def fill_empty(tree: dict[str, Any]) -> None:
    tree["stringData"]["empty"] = "no longer"


def rename_key(tree: dict[str, Any]) -> None:
    tree["stringData"]["passwort"] = tree["stringData"].pop("password")


def move_deeper(tree: dict[str, Any]) -> None:
    tree["stringData"] = {"inner": tree["stringData"]}


def turn_into_comment(tree: dict[str, Any]) -> None:
    tree["list"][0] = tree["list"][0].replace("type:str", "type:comment")


def drop_mac(tree: dict[str, Any]) -> None:
    del tree["sops"]["mac"]


def empty_mac(tree: dict[str, Any]) -> None:
    tree["sops"]["mac"] = ""


def value_as_mac(tree: dict[str, Any]) -> None:
    tree["sops"]["mac"] = tree["stringData"]["password"]


def change_time(tree: dict[str, Any]) -> None:
    tree["sops"]["lastmodified"] = "2027-01-02T03:04:05Z"


def claim_mac_only(tree: dict[str, Any]) -> None:
    tree["sops"]["mac_only_encrypted"] = True


def widen_selector(tree: dict[str, Any]) -> None:
    tree["sops"]["unencrypted_regex"] = ".*"


def open_everything(tree: dict[str, Any]) -> None:
    tree["sops"]["encrypted_suffix"] = "_none"


def drop_recipients(tree: dict[str, Any]) -> None:
    tree["sops"]["age"] = []


def foreign_data_key(tree: dict[str, Any]) -> None:
    tree["sops"]["age"] = [AUTHOR.wrap(bytes(32))]


def short_data_key(tree: dict[str, Any]) -> None:
    tree["sops"]["age"] = [AUTHOR.wrap(bytes(16))]


def short_tag(tree: dict[str, Any]) -> None:
    value = tree["stringData"]["password"]
    tag = value[value.index("tag:") + 4 : value.index(",type")]
    tree["stringData"]["password"] = value.replace(tag, tag[:4])


TAMPERINGS = [
    flip, swap_values, swap_list_items, remove_leaf, remove_list_item, reorder_keys,
    change_open_leaf, change_open_number, add_open_leaf, replace_by_plain_text, fill_empty,
    rename_key, move_deeper, turn_into_comment, drop_mac, empty_mac, value_as_mac, change_time,
    claim_mac_only, open_everything, drop_recipients, foreign_data_key, short_data_key, short_tag,
]  # fmt: skip


@pytest.mark.parametrize("tamper", TAMPERINGS, ids=lambda change: change.__name__)
def test_a_document_that_was_tampered_with_is_refused(
    tamper: Callable[[dict[str, Any]], None],
) -> None:
    (tree,) = AUTHOR.encrypt([SECRET])
    tamper(tree)

    with pytest.raises(DecryptionError) as error:
        sops.decrypt(as_yaml([tree]), Format.YAML, RING)

    assert_says_nothing(error.value)


def test_a_selector_that_was_changed_does_not_let_a_value_through_undecrypted() -> None:
    (tree,) = AUTHOR.encrypt([SECRET])
    widen_selector(tree)

    plain = sops.decrypt(as_yaml([tree]), Format.YAML, RING)

    assert read(plain) == [SECRET]


@pytest.mark.parametrize("tamper", [swap_values, remove_leaf, reorder_keys, flip])
def test_a_mac_over_encrypted_values_alone_still_holds_these(
    tamper: Callable[[dict[str, Any]], None],
) -> None:
    (tree,) = AUTHOR.encrypt([SECRET], mac_only_encrypted=True)
    tamper(tree)

    with pytest.raises(DecryptionError):
        sops.decrypt(as_yaml([tree]), Format.YAML, RING)


def test_a_mac_over_encrypted_values_alone_leaves_the_others_free() -> None:
    (tree,) = AUTHOR.encrypt([SECRET], mac_only_encrypted=True)
    change_open_leaf(tree)

    plain = sops.decrypt(as_yaml([tree]), Format.YAML, RING)

    assert read(plain)[0]["open_unencrypted"] == "nobody"


def test_a_number_in_place_of_a_ciphertext_is_refused() -> None:
    (tree,) = AUTHOR.encrypt([{"list": [{"port": 5432}]}])
    tree["list"][0]["port"] = 5432

    with pytest.raises(DecryptionError, match=r"the value at 'list\.port' is not encrypted"):
        sops.decrypt(as_yaml([tree]), Format.YAML, RING)


def test_a_document_swapped_in_from_another_stream_is_refused() -> None:
    one = AUTHOR.encrypt([{"a": "1"}, {"b": "2"}])
    other = AUTHOR.encrypt([{"a": "1"}, {"b": "3"}])

    with pytest.raises(DecryptionError, match="MAC does not match"):
        sops.decrypt(as_yaml([one[0], other[1]]), Format.YAML, RING)


@settings(max_examples=80, deadline=None)
@given(cut=st.integers(1, 2000))
def test_a_truncated_document_is_refused(cut: int) -> None:
    encrypted = WHOLE[: max(len(WHOLE) - cut, 0)]

    with pytest.raises(DecryptionError):
        sops.decrypt(encrypted, Format.YAML, RING)


WHOLE = AUTHOR.yaml(SECRET, version="").rstrip().removesuffix(b"version: ''").rstrip()


@settings(max_examples=150, deadline=None)
@given(noise=st.binary(max_size=200), form=st.sampled_from(Format))
def test_noise_is_refused_and_nothing_else_is_raised(noise: bytes, form: Format) -> None:
    with pytest.raises(DecryptionError):
        sops.decrypt(noise, form, RING)


def test_a_foreign_key_is_refused() -> None:
    stranger = KeyRing.from_secret(Reference().secret)

    with pytest.raises(DecryptionError, match=r"no key opens .* age age1"):
        sops.decrypt(AUTHOR.yaml(SECRET), Format.YAML, stranger)


def test_a_document_without_metadata_is_refused() -> None:
    with pytest.raises(DecryptionError, match="no sops metadata"):
        sops.decrypt(b"a: b\n", Format.YAML, RING)


def test_a_document_over_five_mebibytes_is_refused_unread() -> None:
    with pytest.raises(DecryptionError, match="more than 5 MiB"):
        sops.decrypt(b"a" * (sops.MAX_SIZE + 1), Format.YAML, RING)
    with pytest.raises(DecryptionError, match="more than 5 MiB"):
        sops.metadata_of(b"a" * (sops.MAX_SIZE + 1), Format.YAML)


@pytest.mark.parametrize(
    ("path", "form"),
    [
        ("a/secret.yaml", Format.YAML),
        ("a.yml", Format.YAML),
        ("a.json", Format.JSON),
        (".env", Format.BINARY),
        ("prod.env", Format.DOTENV),
        ("a.ini", Format.INI),
        ("tls.key", Format.BINARY),
        ("dir.yaml/noext", Format.BINARY),
        (".dockerconfigjson", Format.JSON),
    ],
)
def test_the_format_follows_the_name(path: str, form: Format) -> None:
    assert sops.format_of(path) is form


def test_ciphertext_without_metadata_is_no_document() -> None:
    assert not sops.is_encrypted(b"a: ENC[AES256_GCM,data:x,iv:x,tag:x,type:str]\n")


def test_a_json_document_can_be_written_as_yaml() -> None:
    plain = sops.decrypt(AUTHOR.json(SECRET), Format.JSON, RING, output=Format.YAML)

    assert plain.startswith(b"kind: Secret\n")


def test_an_envelope_is_unpacked_where_the_name_says_binary() -> None:
    encrypted = AUTHOR.binary("raw text")

    assert sops.decrypt(encrypted, Format.JSON, RING, output=Format.BINARY) == b"raw text"


def test_what_is_no_envelope_stays_what_it_is_where_the_name_says_binary() -> None:
    plain = sops.decrypt(AUTHOR.yaml({"a": "b"}), Format.YAML, RING, output=Format.BINARY)

    assert plain == b"a: b\n"


def test_a_stream_cannot_be_written_as_json() -> None:
    with pytest.raises(DecryptionError, match="several documents"):
        sops.decrypt(AUTHOR.yaml({"a": "b"}, {"c": "d"}), Format.YAML, RING, output=Format.JSON)


def test_the_mac_is_bound_to_the_time_as_go_prints_it() -> None:
    encrypted = AUTHOR.yaml(SECRET).replace(
        LAST_MODIFIED.encode(), b"2026-01-02T03:04:05.000+00:00"
    )

    assert read(sops.decrypt(encrypted, Format.YAML, RING)) == [SECRET]


@pytest.mark.parametrize("kind", ["int", "float", "bool", "time", "nonsense"])
def test_text_that_does_not_fit_its_type_is_refused(kind: str) -> None:
    (tree,) = AUTHOR.encrypt([{"a": "secret text"}])
    tree["a"] = tree["a"].replace("type:str", f"type:{kind}")

    with pytest.raises(DecryptionError, match="does not fit its type") as error:
        sops.decrypt(as_yaml([tree]), Format.YAML, RING)

    assert "secret text" not in chain(error.value)


def test_a_float_beyond_the_largest_is_refused() -> None:
    (tree,) = AUTHOR.encrypt([{"a": "1e999"}])
    tree["a"] = tree["a"].replace("type:str", "type:float")

    with pytest.raises(DecryptionError, match="does not fit its type"):
        sops.decrypt(as_yaml([tree]), Format.YAML, RING)


def test_infinity_is_a_float() -> None:
    (tree,) = AUTHOR.encrypt([{"a": "+Inf"}])
    tree["a"] = tree["a"].replace("type:str", "type:float")

    assert read(sops.decrypt(as_yaml([tree]), Format.YAML, RING)) == [{"a": math.inf}]


def chain(error: BaseException) -> str:
    """Return all that a log might show of an error: messages, arguments, causes, attributes."""
    seen = ""
    link: BaseException | None = error
    while link is not None:
        seen += f"{link}{link!r}{link.args}{vars(link)}"
        link = link.__cause__ or link.__context__
    return seen


def assert_says_nothing(error: BaseException) -> None:
    said = chain(error)
    for secret in ("hunter2", "admin", str(AUTHOR.identity), repr(AUTHOR.key), AUTHOR.key.hex()):
        assert secret not in said


def test_no_failure_tells_a_secret() -> None:
    wrong = Reference(identity=pyrage.x25519.Identity.generate())

    def skipping(**secret: bytes) -> object:
        entries = {name.replace("_", "."): value for name, value in secret.items()}
        return sops.decrypt(AUTHOR.yaml(SECRET), Format.YAML, KeyRing.from_secret(entries))

    attempts: list[Callable[[], object]] = [
        lambda: skipping(a_agekey=str(AUTHOR.identity).replace("1", "0").encode()),
        lambda: skipping(a_agekey=str(AUTHOR.identity)[:-1].encode()),
        lambda: skipping(a_agekey=b"\xff" + str(AUTHOR.identity).encode()),
        lambda: skipping(a_asc=str(AUTHOR.identity).encode()),
        lambda: sops.decrypt(AUTHOR.yaml(SECRET), Format.YAML, KeyRing.from_secret(wrong.secret)),
        lambda: sops.decrypt(as_yaml([SECRET]), Format.YAML, RING),
        lambda: sops.decrypt(as_yaml([SECRET])[:-20] + b"\x00", Format.YAML, RING),
        lambda: sops.decrypt(b'{"hunter2": "admin', Format.JSON, RING),
        lambda: sops.decrypt(b"hunter2 admin", Format.DOTENV, RING),
        lambda: sops.decrypt(b"hunter2 admin", Format.INI, RING),
        lambda: sops.decrypt(b"\xffhunter2", Format.JSON, RING),
    ]
    for attempt in attempts:
        with pytest.raises(DecryptionError) as error:
            attempt()
        assert_says_nothing(error.value)


def test_a_key_ring_prints_as_numbers() -> None:
    shown = f"{RING}{RING!r}{RING.openers}"

    assert repr(RING) == "KeyRing(age=1, pgp=0)"
    assert "AGE-SECRET" not in shown


def test_the_input_is_left_as_it_was() -> None:
    encrypted = AUTHOR.yaml(SECRET)
    before = copy.copy(encrypted)

    sops.decrypt(encrypted, Format.YAML, RING)

    assert encrypted == before
    assert yaml.safe_load(encrypted)["sops"]["lastmodified"] == LAST_MODIFIED
