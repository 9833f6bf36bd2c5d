"""No message shows what was decrypted."""

import asyncio

import pytest

from controllers.applying.redaction import Redaction, hide, words
from toolkit.objects import Json


def config_map(**data: object) -> Json:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "app"}, "data": data}


def test_decrypted_values_are_hidden_whatever_their_type() -> None:
    clear = config_map(text="hunter2", number=48151623, nested=[{"deep": "swordfish"}])

    hidden = Redaction(clear=(clear,)).text("got 48151623, hunter2 and swordfish-1")

    assert hidden == "got ***, *** and ***-1"


def test_what_the_source_shows_anyway_is_told() -> None:
    redaction = Redaction(
        clear=(config_map(open="port-name", closed="hunter2"),),
        encrypted=(config_map(open="port-name", closed="ENC[AES256_GCM,data:x]"),),
    )

    assert redaction.text("port-name is not hunter2") == "port-name is not ***"


def test_an_object_is_named_even_if_its_name_was_encrypted() -> None:
    message = Redaction(clear=(config_map(a="hunter2"),)).text("ConfigMap/app dry-run failed")

    assert message == "ConfigMap/app dry-run failed"


def test_values_from_secrets_are_hidden_everywhere() -> None:
    assert Redaction(values=frozenset({"hunter2"})).text('value: "hunter2"') == 'value: "***"'


@pytest.mark.parametrize(
    ("value", "message", "told"),
    [
        ("abc", "abc abcd xabc", "*** abcd xabc"),
        ("12", "line 12", "line 12"),
        ("true", "must be true", "must be true"),
        ('say "hello"', 'got "say \\"hello\\""', 'got "***"'),
        ("first\nsecond", "got first\nsecond", "got ***"),
    ],
    ids=["short", "shortest", "literal", "quoted", "lines"],
)
def test_a_value_is_found_as_messages_show_it(value: str, message: str, told: str) -> None:
    assert hide(message, {value}) == told


@pytest.mark.parametrize(
    "value",
    [
        "*hunter2",
        "!tag hunter2",
        "'hunter2'",
        "hunter2 # of the shop",
        '{"password": "hunter2"}',
        "[hunter2]",
        "password: hunter2",
    ],
)
def test_a_part_of_a_value_that_yaml_takes_apart_is_secret(value: str) -> None:
    redaction = Redaction(values=frozenset({value}))

    assert redaction.text("expected integer, got hunter2") == "expected integer, got ***"


def test_words_of_a_plain_value_are_told() -> None:
    redaction = Redaction(values=frozenset({"https://db.prod:5432/shop", "correct horse"}))

    assert (
        redaction.text("cannot reach https on prod, horse") == "cannot reach https on prod, horse"
    )


def test_each_line_of_a_value_is_secret() -> None:
    redaction = Redaction(clear=(config_map(key="-----BEGIN-----\nc2VjcmV0\n"),))

    assert redaction.text("unexpected c2VjcmV0") == "unexpected ***"


def test_words_of_a_decrypted_file_are_those_its_ciphertext_lacks() -> None:
    found = words([b"user: ada\npassword: hunter2\n"], [b"user: ada\npassword: ENC[x]\n"])

    assert found == {"hunter2"}


def test_a_redaction_shows_nothing_when_it_is_printed() -> None:
    redaction = Redaction(clear=(config_map(a="hunter2"),), values=frozenset({"swordfish"}))

    assert repr(redaction) == "Redaction()"


async def test_others_have_their_turn_while_values_are_masked() -> None:
    """64 Secrets may have millions of values, and a failed build says what its author wants."""
    redaction = Redaction(values=frozenset({"hunter2"}))

    assert await redaction.masked("it is hunter2") == "it is ***"
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0):
            await redaction.masked("it is hunter2")
