"""What ``penstock seal`` writes opens to what it was given, and shows nothing else."""

import datetime as dt

import pyrage
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolkit.decrypt import envelope, seal, sops
from toolkit.decrypt.formats import yamlfile
from toolkit.decrypt.keyring import KeyRing
from toolkit.decrypt.tree import Branch

NOW = dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=dt.UTC)
IDENTITY = pyrage.x25519.Identity.generate()
RECIPIENT = str(IDENTITY.to_public())
KEYS = KeyRing.from_secret({"a.agekey": str(IDENTITY).encode()})
TEXTS = st.dictionaries(
    st.from_regex(r"[a-zA-Z0-9._-]{1,20}", fullmatch=True),
    st.text(st.characters(codec="utf-8"), max_size=60),
    max_size=4,
)
MANIFEST = b"""# a comment
apiVersion: v1
kind: Secret
metadata:
  name: db
  namespace: prod
stringData:
  password: hunter2
  empty: ""
"""


def secret(values: dict[str, str]) -> bytes:
    metadata = Branch([("name", "db"), ("namespace", "prod")])
    data = Branch([*values.items()])
    fields = [("apiVersion", "v1"), ("kind", "Secret"), ("metadata", metadata)]
    return yamlfile.dump([Branch([*fields, ("stringData", data)])])


@settings(max_examples=50, deadline=None)
@given(values=TEXTS)
def test_a_sealed_secret_opens_to_what_was_sealed(values: dict[str, str]) -> None:
    manifest = secret(values)

    sealed = seal.seal(manifest, [RECIPIENT], now=NOW)

    opened = sops.decrypt(sealed, sops.Format.YAML, KEYS)
    assert yamlfile.load(opened) == yamlfile.load(manifest)


def test_a_sealed_secret_shows_its_name_and_no_value() -> None:
    sealed = seal.seal(MANIFEST, [RECIPIENT], now=NOW)

    assert b"hunter2" not in sealed
    assert b"a comment" not in sealed
    assert envelope.make(sealed)["metadata"]["name"] == "db"


def test_every_recipient_can_open_it() -> None:
    others = [pyrage.x25519.Identity.generate() for _ in range(2)]
    sealed = seal.seal(MANIFEST, [str(key.to_public()) for key in others], now=NOW)

    plains = [
        sops.decrypt(sealed, sops.Format.YAML, KeyRing.from_secret({"k.agekey": str(k).encode()}))
        for k in others
    ]

    assert plains[0] == plains[1]
    assert b"hunter2" in plains[0]


@pytest.mark.parametrize(
    ("manifest", "says"),
    [
        (b"kind: ConfigMap\napiVersion: v1\n", "not the manifest of a Secret"),
        (MANIFEST + b"---\n" + MANIFEST, "one manifest"),
        (MANIFEST.replace(b"hunter2", b"5432"), r"stringData\.password is not text"),
        (MANIFEST.replace(b"stringData:", b"stringData: {a: b}\ndata:\n- "), "not"),
        (seal.seal(MANIFEST, [RECIPIENT], now=NOW), "encrypted already"),
    ],
)
def test_what_is_no_plain_secret_is_not_sealed(manifest: bytes, says: str) -> None:
    with pytest.raises(seal.DecryptionError, match=says):
        seal.seal(manifest, [RECIPIENT], now=NOW)


@pytest.mark.parametrize("recipients", [[], ["age1nobody"], [str(IDENTITY)], ["ssh-ed25519 AAAA"]])
def test_nothing_is_sealed_for_nobody(recipients: list[str]) -> None:
    with pytest.raises(seal.SealError):
        seal.seal(MANIFEST, recipients, now=NOW)


def test_an_identity_given_as_a_recipient_is_not_repeated() -> None:
    with pytest.raises(seal.SealError) as caught:
        seal.seal(MANIFEST, [str(IDENTITY)], now=NOW)

    assert str(IDENTITY) not in str(caught.value)
