"""The ``sops`` block, nested and flattened, as its author and as an attacker write it."""

import pytest

from toolkit.decrypt import metadata
from toolkit.decrypt.errors import DecryptionError
from toolkit.decrypt.formats import envfile, yamlfile
from toolkit.decrypt.metadata import Layout, Metadata

BLOCK = """
  mac: m
  lastmodified: "2026-01-02T03:04:05Z"
  age: [{recipient: age1x, enc: e}]
"""


def of(block: str) -> Metadata:
    return metadata.extract(yamlfile.load(f"a: b\nsops:{block}".encode()), Layout.NESTED)


def flat(text: str) -> Metadata:
    return metadata.extract(envfile.load(text.encode()), Layout.PREFIX)


FLAT = "sops_mac=m\nsops_lastmodified=2026-01-02T03:04:05Z\n"


def test_the_block_is_taken_out_of_every_document() -> None:
    documents = yamlfile.load(f"a: b\nsops:{BLOCK}---\nc: d\nsops:\n  mac: other\n".encode())

    block = metadata.extract(documents, Layout.NESTED)

    assert block.mac == "m"
    assert [list(document.entries()) for document in documents] == [[("a", "b")], [("c", "d")]]


def test_flattened_lists_are_rebuilt() -> None:
    block = flat(
        FLAT
        + "sops_key_groups__list_0__map_age__list_0__map_recipient=age1x\n"
        + "sops_key_groups__list_0__map_age__list_0__map_enc=one\\ntwo\n"
        + "sops_key_groups__list_1__map_pgp__list_0__map_fp=AB\n"
        + "sops_key_groups__list_1__map_pgp__list_0__map_enc=three\n"
        + "sops_shamir_threshold=2\nsops_mac_only_encrypted=true\n"
    )

    assert [[(r.kind, r.name, r.encrypted) for r in group] for group in block.groups] == [
        [("age", "age1x", "one\ntwo")],
        [("pgp", "AB", "three")],
    ]
    assert block.threshold == 2
    assert block.mac_only_encrypted


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("sops_a__map_b=1\nsops_a=2\n", "twice"),
        ("sops_a=1\nsops_a__map_b=2\n", "contradicts"),
        ("sops_a=1\nsops_a=2\n", "twice"),
        ("sops_age=1\n" + FLAT, "recipients"),
        ("sops_" + "__map_a" * 500_000 + "=1\n" + FLAT, "recipients"),
    ],
)
def test_a_flattened_block_that_makes_no_sense_is_refused(text: str, complaint: str) -> None:
    with pytest.raises(DecryptionError, match=complaint):
        flat(text)


@pytest.mark.parametrize(
    ("block", "complaint"),
    [
        (" text", "not a mapping"),
        (" {}", "no sops metadata"),
        ("\n  mac: m\n  lastmodified: '2026-01-02T03:04:05Z'\n", "no recipients"),
        ("\n  mac: m\n  age: [{recipient: x, enc: e}]\n", "lastmodified"),
        ("\n  lastmodified: yesterday\n  age: [{enc: e}]\n", "lastmodified"),
        (f"{BLOCK}  shamir_threshold: -1\n", "threshold"),
        (f"{BLOCK}  shamir_threshold: 99999\n", "threshold"),
        (f"{BLOCK}  pgp: [text]\n", "malformed"),
    ],
)
def test_an_incomplete_block_is_refused(block: str, complaint: str) -> None:
    with pytest.raises(DecryptionError, match=complaint):
        of(block)


@pytest.mark.parametrize(
    ("written", "printed"),
    [
        ('"2026-01-02T03:04:05Z"', "2026-01-02T03:04:05Z"),
        ("2026-01-02T03:04:05Z", "2026-01-02T03:04:05Z"),
        ('"2026-01-02T03:04:05.678+02:00"', "2026-01-02T03:04:05+02:00"),
        ('"2026-01-02T03:04:05+00:00"', "2026-01-02T03:04:05Z"),
    ],
)
def test_the_time_is_printed_as_go_prints_it(written: str, printed: str) -> None:
    block = of(BLOCK.replace('"2026-01-02T03:04:05Z"', written))

    assert block.last_modified == printed


def test_the_length_of_a_recipient_is_limited() -> None:
    block = of(BLOCK.replace("age1x", "x" * 100_000))

    assert len(block.groups[0][0].name) == 200


KMS = """
  mac: m
  lastmodified: "2026-01-02T03:04:05Z"
  kms: [{arn: "arn:x", role: "arn:r", aws_profile: mine, enc: AA==, context: {z: "1", y: "2"}}]
"""
FLAT_KMS = """sops_kms__list_0__map_arn=arn:x
sops_kms__list_0__map_role=arn:r
sops_kms__list_0__map_aws_profile=mine
sops_kms__list_0__map_enc=AA==
sops_kms__list_0__map_context__map_z=1
sops_kms__list_0__map_context__map_y=2
"""


@pytest.mark.parametrize("block", [of(KMS), flat(FLAT + FLAT_KMS)], ids=["nested", "flat"])
def test_what_a_key_service_must_know_is_read_from_every_layout(block: Metadata) -> None:
    ((recipient,),) = block.groups

    assert recipient.fields == (("arn", "arn:x"), ("role", "arn:r"))
    assert recipient.context == (("y", "2"), ("z", "1"))
    assert recipient.encrypted == "AA=="


@pytest.mark.parametrize("context", ["{a: [b]}", "{a: 1}", str({f"k{n}": "x" for n in range(99)})])
def test_an_encryption_context_is_a_short_mapping_of_text(context: str) -> None:
    block = KMS.replace('{z: "1", y: "2"}', context)

    with pytest.raises(DecryptionError, match="encryption context"):
        of(block)
