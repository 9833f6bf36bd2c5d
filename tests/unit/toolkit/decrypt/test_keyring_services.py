"""What a ring says it lacks, and what it makes of what key services answered."""

import pytest

from tests.unit.toolkit.decrypt.reference import Reference
from toolkit.decrypt.errors import DecryptionError, UnreachableError
from toolkit.decrypt.keyring import MAX_ENCRYPTED, KeyRing
from toolkit.decrypt.keys import Recipient, Refusal, UnaskedError

KEY = bytes(range(32))
RING = KeyRing().asking({"kms", "hc_vault"})


def at(kind: str, name: str = "one", encrypted: str = "AAAA") -> Recipient:
    return Recipient(kind=kind, name=name, encrypted=encrypted)


def lacking(ring: KeyRing, groups: list[list[Recipient]], threshold: int = 0) -> UnaskedError:
    with pytest.raises(UnaskedError) as caught:
        ring.data_key(groups, threshold)
    return caught.value


def test_a_ring_with_services_behind_it_names_whom_it_lacks_in_order() -> None:
    first, second = at("kms"), at("hc_vault")

    found = lacking(RING, [[at("age"), first, second]])

    assert (found.groups, found.needed) == (((first, second),), 1)


def test_a_ring_without_services_refuses() -> None:
    with pytest.raises(DecryptionError, match="which is not available"):
        KeyRing().data_key([[at("kms")]], 0)


def test_an_answer_opens() -> None:
    assert RING.told({at("kms"): KEY}).data_key([[at("kms")]], 0) == KEY


def test_a_key_at_hand_counts_before_any_answer() -> None:
    author = Reference()
    entry = author.wrap(KEY)
    ours = Recipient(kind="age", name=entry["recipient"], encrypted=entry["enc"])
    ring = KeyRing.from_secret(author.secret).asking({"kms"})

    assert ring.told({at("kms"): bytes(32)}).data_key([[at("kms"), ours]], 0) == KEY


def test_an_answer_about_another_recipient_does_not_open() -> None:
    ring = RING.told({at("kms", encrypted="BBBB"): KEY})

    assert lacking(ring, [[at("kms")]]).needed == 1


def test_only_what_is_missing_is_asked_for() -> None:
    ring = RING.told({at("kms", "a"): bytes(33)})

    found = lacking(ring, [[at("kms", "a")], [at("kms", "b")], [at("kms", "c")]], threshold=2)

    assert (len(found.groups), found.needed) == (2, 1)


def test_nobody_is_asked_if_that_could_not_suffice() -> None:
    with pytest.raises(DecryptionError, match="0 of 2 key groups"):
        RING.data_key([[at("kms")], [at("age")], [at("age", "b")]], 2)


def test_a_refusal_is_told_and_not_asked_again() -> None:
    ring = RING.told({at("kms"): Refusal(message="no right to it")})

    with pytest.raises(DecryptionError, match="no right to it") as caught:
        ring.data_key([[at("kms")]], 0)
    assert not isinstance(caught.value, UnreachableError)


def test_one_that_may_pass_makes_all_of_it_pass() -> None:
    refusals = {
        at("kms"): Refusal(message="no"),
        at("hc_vault"): Refusal(message="late", passing=True),
    }

    with pytest.raises(UnreachableError, match="no; late"):
        RING.told(refusals).data_key([[at("kms"), at("hc_vault")]], 0)


def test_what_is_far_too_long_is_not_asked_about() -> None:
    with pytest.raises(DecryptionError):
        RING.data_key([[at("kms", encrypted="A" * (MAX_ENCRYPTED + 1))]], 0)


def test_an_answer_of_the_wrong_size_is_no_key() -> None:
    with pytest.raises(DecryptionError, match="does not have 32 bytes"):
        RING.told({at("kms"): bytes(16)}).data_key([[at("kms")]], 0)


def test_a_ring_shows_no_answers() -> None:
    assert repr(RING.told({at("kms"): b"secret"})) == "KeyRing(age=0, pgp=0)"
