"""Who is asked for a data key, how often, with whose credentials, and what is kept of it."""

import asyncio

import pytest

from tests.fakes import kmsaws
from tests.fakes.keyscene import WORD, Scene
from tests.unit.toolkit.decrypt.reference import Reference
from toolkit.decrypt import sops
from toolkit.decrypt.errors import DecryptionError, UnreachableError
from toolkit.decrypt.keyring import KeyRing
from toolkit.decrypt.kms import logins
from toolkit.decrypt.kms import services as keyservices
from toolkit.decrypt.kms.opened import OpenedKeys
from toolkit.decrypt.kms.services import MAX_QUESTIONS, KeyServices
from toolkit.decrypt.kms.ways import Access

CLEAR = f"word: {WORD}\n".encode()


async def test_every_service_opens_what_it_encrypted(scene: Scene) -> None:
    documents = [
        (scene.document(kms=[scene.kms()]), scene.aws_secret),
        (scene.document(gcp_kms=[scene.gcp_kms()]), scene.gcp_secret),
        (scene.document(azure_kv=[scene.azure_kv()]), scene.azure_secret),
        (scene.document(hc_vault=[scene.hc_vault()]), scene.vault_secret()),
    ]

    assert [await scene.read(*each) for each in documents] == [CLEAR] * 4


async def test_a_key_at_hand_is_enough_and_nobody_is_asked(scene: Scene) -> None:
    wrapped = [scene.sops.wrap(scene.sops.key)]
    document = scene.document(age=wrapped, kms=[scene.kms()], hc_vault=[scene.hc_vault()])

    clear = await scene.read(document, {**scene.sops.secret, **scene.vault_secret()})

    assert clear == CLEAR
    assert (scene.aws.asked, scene.vault.requests, scene.accessed) == (0, [], 0)


async def test_only_one_recipient_of_a_group_is_asked_if_it_answers(scene: Scene) -> None:
    document = scene.document(hc_vault=[scene.hc_vault(), scene.hc_vault()])

    await scene.read(document, scene.vault_secret())

    assert len(scene.vault.requests) == 1


async def test_the_next_recipient_is_asked_if_one_fails(scene: Scene) -> None:
    document = scene.document(
        kms=[scene.kms(role="arn:aws:iam::111122223333:role/other")],
        hc_vault=[scene.hc_vault()],
    )

    clear = await scene.read(document, {**scene.aws_secret, **scene.vault_secret()})

    assert clear == CLEAR


async def test_groups_are_opened_by_keys_and_services_together(scene: Scene) -> None:
    # A line through the secret at zero: its value at 1 and at 2.
    slope, key = bytes(range(7, 39)), scene.sops.key
    at = {
        1: bytes(a ^ b for a, b in zip(key, slope, strict=True)) + b"\x01",
        2: bytes(a ^ _twice(b) for a, b in zip(key, slope, strict=True)) + b"\x02",
    }
    groups = [
        {"age": [scene.sops.wrap(at[1])]},
        {"hc_vault": [scene.hc_vault(at[2])]},
        {"kms": [scene.kms(bytes(32) + b"\x03")]},
    ]
    document = scene.document(key_groups=groups, shamir_threshold=2)

    clear = await scene.read(
        document, {**scene.sops.secret, **scene.vault_secret(), **scene.aws_secret}
    )

    assert clear == CLEAR
    assert len(scene.vault.requests) == 1
    assert scene.aws.asked == 0  # two of three were enough


def _twice(value: int) -> int:
    return (value << 1 ^ (0x11B if value & 0x80 else 0)) & 0xFF


async def test_nobody_is_asked_where_the_answers_could_not_suffice(scene: Scene) -> None:
    groups = [
        {"age": [Reference().wrap(bytes(33))]},
        {"age": [Reference().wrap(bytes(33))]},
        {"hc_vault": [scene.hc_vault(bytes(33))]},
    ]

    await scene.refused(scene.document(key_groups=groups, shamir_threshold=2), scene.vault_secret())

    assert scene.vault.requests == []


async def test_a_second_reading_asks_nobody(scene: Scene) -> None:
    document, secret = scene.document(kms=[scene.kms()]), scene.aws_secret

    await scene.read(document, secret)
    await scene.read(document, secret)

    assert scene.aws.asked == 1


async def test_what_one_may_open_is_not_kept_for_another(scene: Scene) -> None:
    document, stranger = scene.document(kms=[scene.kms()]), scene.aws.user("arn:stranger")
    await scene.read(document, scene.aws_secret)

    error = await scene.refused(document, {"sops.aws-kms": repr(stranger).encode()})

    assert "AccessDeniedException" in str(error)
    assert scene.aws.asked == 2


async def test_the_same_question_of_many_is_asked_once(scene: Scene) -> None:
    document, secret = scene.document(kms=[scene.kms()]), scene.aws_secret

    found = await asyncio.gather(*(scene.read(document, secret) for _ in range(5)))

    assert found == [CLEAR] * 5
    assert scene.aws.asked == 1


async def test_a_right_that_is_taken_away_counts_when_the_time_is_over(scene: Scene) -> None:
    now = [0.0]
    scene.opened = OpenedKeys(clock=lambda: now[0], seconds=60)
    document, secret = scene.document(kms=[scene.kms()]), scene.aws_secret
    await scene.read(document, secret)
    scene.aws.allowed.clear()

    still = await scene.read(document, secret)
    now[0] = 60.0

    assert still == CLEAR
    await scene.refused(document, secret)


async def test_a_refusal_is_not_kept(scene: Scene) -> None:
    document, secret = scene.document(kms=[scene.kms()]), scene.aws_secret
    scene.aws.allowed.clear()
    await scene.refused(document, secret)

    scene.aws.allowed.add(kmsaws.USER)

    assert await scene.read(document, secret) == CLEAR


async def test_what_is_kept_is_bounded_and_shows_nothing() -> None:
    opened = OpenedKeys(size=2)

    async def key() -> bytes:
        return b"secret"

    for name in "abc":
        await opened.get(name, key)

    assert repr(opened) == "OpenedKeys(2)"


async def test_whoever_gives_up_does_not_take_the_others_along() -> None:
    opened, started = OpenedKeys(), asyncio.Event()

    async def never() -> bytes:
        started.set()
        await asyncio.Event().wait()
        raise AssertionError

    async def key() -> bytes:
        return b"key"

    first = asyncio.create_task(opened.get("a", never))
    await started.wait()
    second = asyncio.create_task(opened.get("a", key))
    await asyncio.sleep(0)
    first.cancel()

    assert await second == b"key"


async def test_a_document_cannot_make_us_ask_without_end(scene: Scene) -> None:
    foreign = [scene.hc_vault(engine_path=f"e{n}") for n in range(MAX_QUESTIONS + 20)]

    error = await scene.refused(scene.document(hc_vault=foreign), scene.vault_secret())

    assert len(scene.vault.requests) == MAX_QUESTIONS
    assert not isinstance(error, UnreachableError)


async def test_documents_inside_a_document_share_the_bound(scene: Scene) -> None:
    parts = [
        scene.document(hc_vault=[scene.hc_vault(engine_path=f"e{n}")])
        for n in range(MAX_QUESTIONS + 5)
    ]
    refused = 0

    def work(ring: KeyRing) -> None:
        nonlocal refused
        refused = 0
        for part in parts:
            try:
                decrypted(part, ring)
            except DecryptionError:
                refused += 1

    async def access() -> Access:
        return Access(logins=(_logins(scene),))

    await KeyServices(scene.cloud, engine=scene.engine).open(work, KeyRing(), access, flow="team")

    assert refused == len(parts)
    assert len(scene.vault.requests) == MAX_QUESTIONS


def decrypted(document: bytes, ring: KeyRing) -> bytes:
    return sops.decrypt(document, sops.Format.YAML, ring)


async def test_a_server_that_never_answers_ends_in_a_message_that_says_so(scene: Scene) -> None:
    scene.clouds.slow = asyncio.Event()
    document = scene.document(kms=[scene.kms()])

    error = await scene.refused(document, scene.aws_secret, seconds=0.2)

    assert isinstance(error, UnreachableError)
    assert "did not respond within" in str(error)
    assert kmsaws.ARN in str(error)


@pytest.mark.parametrize("kind", ["kms", "gcp_kms", "azure_kv", "hc_vault"])
async def test_without_credentials_the_message_names_service_entry_and_key(
    scene: Scene, kind: str
) -> None:
    recipient = getattr(scene, kind)()

    error = await scene.refused(scene.document(**{kind: [recipient]}))

    entries = {"kms": "sops.aws-kms", "gcp_kms": "sops.gcp-kms", "azure_kv": "sops.azure-kv"}
    assert f"add the entry '{entries.get(kind, 'sops.vault-token')}' to the Secret" in str(error)
    assert ("serviceAccountName" in str(error)) == (kind != "hc_vault")


async def test_a_service_that_nobody_speaks_is_refused_by_name(scene: Scene) -> None:
    document = scene.document(hckms=[{"key_id": "eu:1", "enc": "AQID"}])

    error = await scene.refused(document, scene.aws_secret)

    assert "Huawei Cloud KMS (eu:1), which is not available" in str(error)


async def test_a_wrong_answer_of_a_service_does_not_pass_the_mac(scene: Scene) -> None:
    document = scene.document(hc_vault=[scene.hc_vault(bytes(32))])

    await scene.refused(document, scene.vault_secret())


async def test_several_documents_are_opened_in_order_and_one_failure_is_told(
    scene: Scene,
) -> None:
    good = scene.document(hc_vault=[scene.hc_vault()])
    bad = scene.document(hc_vault=[scene.hc_vault(key_name="other")])
    services = KeyServices(scene.cloud, engine=scene.engine)

    async def access() -> Access:
        return Access(logins=(_logins(scene),))

    def works(*documents: bytes) -> list[keyservices.Work[bytes]]:
        return [lambda ring, d=d: decrypted(d, ring) for d in documents]

    assert await services.each(works(good, good), KeyRing(), access, flow="team") == [CLEAR, CLEAR]
    with pytest.raises(DecryptionError, match="does not exist"):
        await services.each(works(good, bad), KeyRing(), access, flow="team")


async def test_a_failure_is_told_while_another_document_still_waits(scene: Scene) -> None:
    scene.clouds.slow = asyncio.Event()
    waiting = scene.document(kms=[scene.kms()])
    bad = scene.document(hc_vault=[scene.hc_vault(key_name="other")])
    services = KeyServices(scene.cloud, engine=scene.engine, seconds=60)

    async def access() -> Access:
        return Access(logins=(logins.from_secret({**scene.vault_secret(), **scene.aws_secret}),))

    works: list[keyservices.Work[bytes]] = [
        lambda ring, d=d: decrypted(d, ring) for d in (waiting, bad)
    ]

    with pytest.raises(DecryptionError, match="does not exist"):
        await services.each(works, KeyRing(), access, flow="team")


def _logins(scene: Scene) -> logins.Logins:
    return logins.from_secret(scene.vault_secret())
