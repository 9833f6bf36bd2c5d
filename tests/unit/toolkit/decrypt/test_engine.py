"""What the engine opens in its real workers, with keys that the real gpg made."""

from collections.abc import Mapping

import pytest

from tests.fakes.opening import Opening
from tests.testdata.secretkeys.generate import KeyPair
from tests.unit.toolkit.decrypt.reference import Reference
from toolkit.decrypt.errors import DecryptionError
from toolkit.decrypt.keyring import KeyRing
from toolkit.decrypt.keys import Recipient

KEY = bytes(range(32))


def message(pair: KeyPair, *options: str, plain: bytes = KEY) -> Recipient:
    return Recipient(kind="pgp", name=pair.fingerprint, encrypted=pair.encrypt(plain, *options))


def opened(opener: Opening, ring: KeyRing, *group: Recipient) -> bytes:
    return opener.open(lambda ring: ring.data_key([group], 0), ring)


@pytest.mark.parametrize("name", ["recipe", "curve25519", "brainpool", "expired", "subkeys"])
def test_a_key_opens_its_data_key(opener: Opening, pairs: Mapping[str, KeyPair], name: str) -> None:
    ring = KeyRing.from_secret({"a.asc": pairs[name].secret})

    assert opened(opener, ring, message(pairs[name])) == KEY


def test_what_is_for_the_primary_key_is_opened_too(
    opener: Opening, pairs: Mapping[str, KeyPair]
) -> None:
    recipe = pairs["recipe"]
    ring = KeyRing.from_secret({"a.asc": recipe.secret})
    encrypted = recipe.encrypt(KEY, "--recipient", f"{recipe.fingerprint}!")

    assert opened(opener, ring, Recipient(kind="pgp", name="", encrypted=encrypted)) == KEY


def test_a_message_that_does_not_name_its_recipient_is_opened(
    opener: Opening, pairs: Mapping[str, KeyPair]
) -> None:
    ring = KeyRing.from_secret({"a.asc": pairs["curve25519"].secret})

    assert opened(opener, ring, message(pairs["curve25519"], "--throw-keyids")) == KEY


@pytest.mark.parametrize("name", ["recipe", "curve25519"])
def test_several_keys_may_be_in_one_entry_and_in_several(
    opener: Opening, pairs: Mapping[str, KeyPair], name: str
) -> None:
    both = {"all.asc": pairs["recipe"].secret + pairs["curve25519"].secret}
    apart = {"a.asc": pairs["recipe"].secret, "b.asc": pairs["curve25519"].secret}

    for secret in (both, apart):
        assert opened(opener, KeyRing.from_secret(secret), message(pairs[name])) == KEY


@pytest.mark.parametrize(
    ("entry", "finding"),
    [
        (lambda _: b"nonsense", "it is not an OpenPGP key"),
        (lambda pairs: pairs["curve25519"].public, "has no secret part"),
        (lambda pairs: pairs["protected"].secret, "has a passphrase"),
        (lambda pairs: pairs["curve25519"].secret[:300], "it is not an OpenPGP key"),
    ],
    ids=["nonsense", "public", "protected", "cut"],
)
def test_a_useless_key_hides_no_other_and_is_named(
    opener: Opening, pairs: Mapping[str, KeyPair], entry: object, finding: str
) -> None:
    assert callable(entry)
    ring = KeyRing.from_secret({"a.asc": entry(pairs), "b.asc": pairs["recipe"].secret})

    assert opened(opener, ring, message(pairs["recipe"])) == KEY
    (skipped,) = opener.skipped(ring)
    assert skipped.entry == "a.asc"
    assert finding in skipped.finding


def test_where_no_key_fits_recipient_and_useless_keys_are_named(
    opener: Opening, pairs: Mapping[str, KeyPair]
) -> None:
    stranger, locked = pairs["recipe"], pairs["protected"]
    ring = KeyRing.from_secret({"a.asc": locked.secret, "b.asc": pairs["curve25519"].secret})

    with pytest.raises(DecryptionError) as caught:
        opened(opener, ring, message(stranger))

    assert str(caught.value) == (
        f"no key opens the data key, which is encrypted for OpenPGP {stranger.fingerprint}; "
        f"skipped keys: 'a.asc': key {locked.fingerprint} has a passphrase, and nobody to ask for "
        "it: export it without one"
    )


def test_the_keys_at_hand_open_a_document_without_the_engine(
    pairs: Mapping[str, KeyPair],
) -> None:
    author = Reference()
    entry = author.wrap(KEY)
    own = Recipient(kind="age", name=entry["recipient"], encrypted=entry["enc"])
    ring = KeyRing.from_secret({"a.asc": pairs["recipe"].secret, **author.secret})

    assert ring.data_key([[message(pairs["recipe"]), own]], 0) == KEY


def test_no_secret_key_shows_in_a_ring(pairs: Mapping[str, KeyPair]) -> None:
    ring = KeyRing.from_secret({"a.asc": pairs["recipe"].secret})

    assert repr(ring) == str(ring) == "KeyRing(age=0, pgp=1)"
