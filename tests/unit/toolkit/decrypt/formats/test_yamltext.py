"""The text of a decrypted file: as SOPS writes it, or written anew if it is not laid out so."""

import time
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolkit.decrypt.formats import yamlfile, yamltext
from toolkit.decrypt.tree import Branch, Comment, Path, Scalar, Value

SEALED = "ENC[AES256_GCM,data:YQ==,iv:YQ==,tag:YQ==,type:str]"
NOTE = "ENC[AES256_GCM,data:Yg==,iv:Yg==,tag:Yg==,type:comment]"
BLOCK = f"sops:\n    mac: {SEALED}\n"


def tree(**entries: Value) -> list[Branch]:
    return [Branch(list(entries.items()))]


def opens(text: str, *paths: Path) -> Callable[[str, Path], str | None]:
    """Return a function that opens every comment, below these paths alone."""
    return lambda _, path: text if not paths or path in paths else None


def rewritten(source: str, plain: list[Branch], comment: str = "note") -> str | None:
    found = yamltext.rewrite(source.encode(), plain, opens(comment))
    return None if found is None else found.decode()


def test_ciphertext_is_exchanged_and_all_else_stays() -> None:
    source = f"# head\na: {SEALED}\nb: 'as it is'   # beside\n{BLOCK}"

    assert rewritten(source, tree(a="1", b="as it is")) == (
        "# head\na: \"1\"\nb: 'as it is'   # beside\n"
    )


def test_encrypted_comment_beside_a_value_comes_before_its_line() -> None:
    source = f"a:\n    - k: {SEALED} #{NOTE}\n{BLOCK}"

    assert rewritten(source, tree(a=[Branch([("k", "v")])])) == "a:\n    #note\n    - k: v\n"


def test_comment_in_a_list_becomes_a_line() -> None:
    source = f"a:\n    - {NOTE}\n    - {SEALED}\n{BLOCK}"

    assert rewritten(source, tree(a=[Comment(" x"), "v"])) == "a:\n    # x\n    - v\n"


def test_comment_that_is_of_no_place_stays_encrypted() -> None:
    source = f"#{NOTE}\na: {SEALED}\n{BLOCK}"

    found = yamltext.rewrite(source.encode(), tree(a="v"), opens("x", ("elsewhere",)))

    assert found == f"#{NOTE}\na: v\n".encode()


@pytest.mark.parametrize("near", [(), ("a",), ("a", "b")])
def test_comment_is_of_a_mapping_around_it(near: Path) -> None:
    source = f"a:\n    b:\n        #{NOTE}\n        c: {SEALED}\n{BLOCK}"
    plain = tree(a=Branch([("b", Branch([("c", "v")]))]))

    found = yamltext.rewrite(source.encode(), plain, opens("x", near))

    assert found is not None
    assert b"#x\n" in found


@pytest.mark.parametrize(
    ("source", "plain"),
    [
        pytest.param(f"a: [{SEALED}]\n{BLOCK}", tree(a=["x"]), id="flow"),
        pytest.param(f"a:\n    {SEALED}\n{BLOCK}", tree(a="x"), id="a line of its own"),
        pytest.param(f"a: {SEALED}\r\n{BLOCK}", tree(a="x"), id="carriage return"),
        pytest.param(f"a:\n    - - {NOTE}\n{BLOCK}", tree(a=[[Comment("x")]]), id="nested comment"),
        pytest.param(f"a: {SEALED}\n{BLOCK}", tree(b="x"), id="another tree"),
        pytest.param(f"a: {SEALED}\n{BLOCK}", [], id="no tree"),
    ],
)
def test_file_that_is_laid_out_in_another_way_is_written_anew(
    source: str, plain: list[Branch]
) -> None:
    assert rewritten(source, plain) is None


@pytest.mark.parametrize("text", ["x\nevil: 1", "x\n---\nevil: 1", "x\u2028evil: 1", "\x85evil: 1"])
def test_comment_brings_no_data(text: str) -> None:
    found = rewritten(f"#{NOTE}\na: {SEALED}\n{BLOCK}", tree(a="v"), text)

    assert found is None or yamlfile.load(found.encode()) == tree(a="v")


def test_many_comments_that_cannot_be_opened_cost_little() -> None:
    source = "".join(f"#{NOTE}\na{number}: 1\n" for number in range(20_000)) + BLOCK
    plain = [Branch([(f"a{number}", 1) for number in range(20_000)])]
    tried: list[Path] = []

    def refuse(_: str, path: Path) -> None:
        tried.append(path)

    began = time.thread_time()
    assert yamltext.rewrite(source.encode(), plain, refuse) is None
    assert len(tried) <= 10_000
    assert time.thread_time() - began < 5


_TEXTS = st.text(min_size=1)


@given(st.one_of(_TEXTS, st.booleans(), st.integers(-(2**63), 2**63 - 1), st.floats()))
def test_scalar_is_read_as_it_was_or_the_file_is_written_anew(value: Scalar) -> None:
    source = f"a:\n    - k: {SEALED}\nb: 2\n{BLOCK}"
    plain = tree(a=[Branch([("k", value)])], b=2)

    found = yamltext.rewrite(source.encode(), plain, opens(""))

    if found is not None:
        assert repr(_numbers(yamlfile.load(found))) == repr(_numbers(plain))


def _numbers(value: object) -> object:
    """Return whole floats as integers, as Go writes them."""
    if isinstance(value, Branch):
        return [(key, _numbers(child)) for key, child in value.items]
    if isinstance(value, list):
        return [_numbers(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("yes", '"yes"'),
        ("Y", '"Y"'),
        ("null", '"null"'),
        ("1:30", '"1:30"'),
        ("1_000", '"1_000"'),
        ("18446744073709551615", '"18446744073709551615"'),
        ("2001-12-14", '"2001-12-14"'),
        ("a: b", "'a: b'"),
        (" a", "' a'"),
        ("#a", "'#a'"),
        ("plain text", "plain text"),
        ("a\tb", '"a\\tb"'),
        ("a\n", "|\n        a"),
        ("<<", "!!merge <<"),
        ("\udcff", "!!binary /w=="),
    ],
)
def test_text_is_quoted_as_yaml_v3_does(text: str, written: str) -> None:
    assert yamltext.written_scalar(text, 8) == written


@pytest.mark.parametrize(
    ("number", "written"),
    [
        (1.0, "1"),
        (0.5, "0.5"),
        (123456.0, "123456"),
        (1234567.0, "1.234567e+06"),
        (0.0001, "0.0001"),
        (0.00001, "1e-05"),
        (-1e100, "-1e+100"),
        (-0.0, "-0"),
    ],
)
def test_float_is_written_as_go_does(number: float, written: str) -> None:
    assert yamltext.written_scalar(number, 0) == written


def test_time_for_comments_grows_with_the_length_of_the_file_only() -> None:
    source = f"a: {SEALED}\nb: '{'#ENC[AES256_GCM,' * 60_000}'\n{BLOCK}"
    began = time.process_time()

    rewritten(source, tree(a="v", b="#ENC[AES256_GCM," * 60_000))

    assert time.process_time() - began < 3


@pytest.mark.parametrize(
    ("source", "plain"),
    [
        (f"{{a: {SEALED}, sops: {{mac: {SEALED}}}}}\n", tree(a="1")),
        (f"a: {SEALED}\n{BLOCK}", tree(a=None)),
        (f"a:\n    b: x\n{BLOCK}", tree(a="x")),
        (f"a:\n    - x\n{BLOCK}", tree(a="x")),
        (f"- a: {SEALED}\n", tree(a="x")),
        (f"? [a]\n: x\n{BLOCK}", tree(a="x")),
        (f"a: [{NOTE}]\n{BLOCK}", tree(a=[Comment("note")])),
    ],
    ids=["one-line", "null", "mapping", "list", "root", "key", "comment"],
)
def test_what_sops_does_not_lay_out_so_is_written_anew(source: str, plain: list[Branch]) -> None:
    assert rewritten(source, plain) is None
