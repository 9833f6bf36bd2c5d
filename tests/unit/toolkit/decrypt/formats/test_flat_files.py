"""Dotenv and INI: what is read is written back as sops writes it."""

from collections.abc import Callable

import pytest

from toolkit.decrypt.errors import DecryptionError
from toolkit.decrypt.formats import envfile, inifile
from toolkit.decrypt.tree import MAX_NODES, Branch, Comment


def test_a_dotenv_file_comes_back_byte_for_byte() -> None:
    text = b"#comment\nA=1\nB=\nC=x=y\\nz\nA=again\nBYTES=\xff\n"

    assert envfile.dump(envfile.load(text)) == text


def test_a_dotenv_line_without_assignment_is_refused() -> None:
    with pytest.raises(DecryptionError, match="line 2"):
        envfile.load(b"A=1\nnonsense\n")


def test_a_nested_value_has_no_place_in_a_dotenv_file() -> None:
    with pytest.raises(DecryptionError, match="nested"):
        envfile.dump([Branch([("a", Branch([]))])])


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("a = b", "b"), ("a=b", "b"), ("a : b", "b"), ("a = 'b c'", "b c"), ('a = "b"', "b"),
        ('a = "b" c"', '"b" c"'), ("a = `b;c`", "b;c"), ('a = """b"""', "b"), ("a = b ; note", "b"),
        ("a = b#note", "b"), ("a =", ""), ("a = one\\\n two", "onetwo"),
        ('a = """one\ntwo"""', "one\ntwo"), ("`a` = b", "b"), ('"a" = b', "b"),
    ],
)  # fmt: skip
def test_an_ini_value_is_read_as_ini_v1_reads_it(line: str, value: str) -> None:
    (document,) = inifile.load(f"[s]\n{line}\n".encode())
    section = document.get("s")

    assert isinstance(section, Branch)
    assert section.get("a") == value


def test_an_ini_file_is_written_aligned_with_its_comments() -> None:
    text = "; top\n[one]\n# of a\n# and more\na = `x;y`\nlonger=1 ; inline\n\n[two]\nb=' c '\n"

    written = inifile.dump(inifile.load(text.encode())).decode()

    assert written == (
        "; top\n[one]\n; of a\n# and more\na      = `x;y`\n; inline\nlonger = 1\n\n"
        '[two]\nb = " c "\n'
    )
    assert inifile.dump(inifile.load(written.encode())).decode() == written


def test_keys_before_the_first_section_are_written_without_a_header() -> None:
    assert inifile.dump(inifile.load(b"a = 1\n[s]\nb = 2\n")) == b"a = 1\n\n[s]\nb = 2\n"


@pytest.mark.parametrize(
    "text", [b"[]\n", b"[open\n", b"a\n", b"a = 1\na = 2\n", b'a = """x\n', b"= 1\n", b'"a = 1\n']
)
def test_what_is_no_ini_file_is_refused(text: bytes) -> None:
    with pytest.raises(DecryptionError):
        inifile.load(text)


@pytest.mark.parametrize("value", ["plain", Branch([("k", [])])])
def test_what_is_no_section_cannot_be_written_as_ini(value: Branch | str) -> None:
    with pytest.raises(DecryptionError):
        inifile.dump([Branch([("s", value)])])


def test_a_comment_keeps_its_own_mark_beyond_the_first() -> None:
    (document,) = inifile.load(b"; one\n; two\n[s]\n")
    section = document.get("s")

    assert isinstance(section, Branch)
    assert section.items == [(Comment("one\n; two"), None)]


@pytest.mark.parametrize("load", [envfile.load, inifile.load])
@pytest.mark.parametrize("line", [b"A=1\n", b"#\n", b"\n"])
def test_the_number_of_lines_is_limited(load: Callable[[bytes], list[Branch]], line: bytes) -> None:
    text = line if line != b"A=1\n" else b"".join(b"A%d=1\n" % i for i in range(MAX_NODES + 1))

    with pytest.raises(DecryptionError, match="lines"):
        load(text * (MAX_NODES + 1 if text is line else 1))


@pytest.mark.parametrize("text", [b'a = """' + b"x\n" * 200_000, b"a = x\\\n" + b"y\\\n" * 200_000])
def test_a_value_over_many_lines_is_limited(text: bytes) -> None:
    with pytest.raises(DecryptionError, match="lines"):
        inifile.load(text)
