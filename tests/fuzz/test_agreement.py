"""Where two programs read one text, they must not read it differently: a test is the second one.

What a policy judges is what a client connects to; what is accepted is what others would accept; and
what was made linear or safe by another way gives the result of the plain way.
"""

import json
import re
from fractions import Fraction
from ipaddress import IPv6Address
from urllib.parse import urlsplit

import pytest
import yaml
from dulwich.pack import apply_delta
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from crds.meta import parse_duration
from tests.fuzz import languages, trees
from toolkit import untrusted
from toolkit.artifact import glob
from toolkit.errors import PenstockError
from toolkit.policy import imagereference, urls
from toolkit.policy.imagereference import ImageReferenceError
from toolkit.remote.errors import HttpError
from toolkit.remote.git import delta
from toolkit.remote.git.errors import GitError
from toolkit.remote.git.url import GitUrl
from toolkit.remote.http import rules


def put_together(*parts: tuple[str, ...]) -> st.SearchStrategy[str]:
    """Return texts of one of each of these parts, mostly of the first."""
    weighted = [st.sampled_from((*some[:1] * 2 * len(some), *some)) for some in parts]
    return st.tuples(*weighted).map("".join)


URLS = st.one_of(
    put_together(
        ("https://", "http://", "ssh://", "HTTPS://", "https:/", "https:///", "//"),
        ("", "git@", "u:p@", "@", "a@b@", "u%40:p@", "a.example/@"),
        ("a.example", "A.Example", "10.0.0.1", "[::1]", "0x7f.1", "a.example.", "[::ffff:1.2.3.4]"),
        ("", ":443", ":80", ":8443", ":0", ":", ":99999", ":080", ":+1", "\\"),
        ("/a/b", "", "/", "/a/", "/a.git", "//a", "/..;/a", "/%2e%2e/a", "/\u00e9", "/%41", "/a b"),
        ("", "?c=d", "#e", "@f", "/%", "\n", "\\g", ";h", ":i"),
    ),
    languages.URL().map(bytes.decode),
)
DEFAULTS = {"http": 80, "https": 443, "ssh": 22}


def host(text: str | None) -> str | IPv6Address:
    """Return a host such that two spellings of an address are equal."""
    assert text is not None
    return IPv6Address(text) if ":" in text else text


@given(text=URLS)
@settings(max_examples=400)
def test_clients_connect_to_the_host_that_a_policy_judges(text: str) -> None:
    try:
        judged = urlsplit(urls.canonical(text))
        opened = GitUrl.parse(text)
    except (urls.UnclearURLError, PenstockError):
        return

    assert (judged.scheme, host(judged.hostname)) == (opened.scheme, host(opened.host))
    assert (judged.port or DEFAULTS[judged.scheme]) == opened.port
    assert judged.path == opened.path.rstrip("/") or "%" in opened.path


@given(text=URLS)
@settings(max_examples=400)
def test_both_libraries_of_urls_see_the_same_host(text: str) -> None:
    try:
        opened = rules.parsed(text)
    except HttpError:
        return
    other = urlsplit(text)

    assert (opened.scheme, host(opened.host)) == (other.scheme, host(other.hostname))
    assert opened.port == (other.port or DEFAULTS[other.scheme])
    assert not opened.user
    assert not other.username


_PART = r"[a-z0-9]+(?:(?:[.]|_|__|[-]*)[a-z0-9]+)*"
_DOMAIN = (
    r"(?:(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])"
    r"(?:[.](?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9]))*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?"
)
_REFERENCE = re.compile(
    rf"(?P<name>(?:{_DOMAIN}/)?{_PART}(?:/{_PART})*)"
    r"(?::(?P<tag>\w[\w.-]{0,127}))?"
    r"(?:@(?P<digest>[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}))?",
    re.ASCII,
)
"""The grammar of distribution/reference (``reference.go``)."""


IMAGES = st.one_of(
    put_together(
        (
            "",
            "example.com/",
            "example.com:5000/",
            "localhost/",
            "[::1]/",
            "EX.com/",
            "a:0/",
            "docker.io/",
        ),
        (
            "app",
            "team/app",
            "a__b",
            "a--b",
            "a___b",
            "a.b",
            "-a",
            "A",
            "a//b",
            "library/a",
            "sha256",
        ),
        ("", ":v1.2.3", ":_a", ":-a", ":", ":" + "a" * 129, ":" + "0" * 64),
        ("", "@sha256:" + "0" * 64, "@sha256:" + "0" * 63, "@sha512:" + "0" * 128, "@md5:00", "@"),
    ),
    languages.NAME().map(bytes.decode),
)


@given(text=IMAGES)
@settings(max_examples=400)
def test_names_of_images_are_within_the_grammar_of_runtimes(text: str) -> None:
    try:
        found = imagereference.parse(text)
    except ImageReferenceError:
        return
    read = _REFERENCE.fullmatch(text)

    assert read is not None
    assert (found.tag or imagereference.LATEST) == (read["tag"] or imagereference.LATEST)
    assert found.digest == (read["digest"] or "")
    assert read["name"].endswith(found.name.removeprefix("library/"))


def plainly(pattern: str, name: str) -> bool:
    """Match a glob by trying everything."""
    if not pattern:
        return not name
    if pattern[0] == "*":
        return any(plainly(pattern[1:], name[at:]) for at in range(len(name) + 1))
    return bool(name) and pattern[0] in {"?", name[0]} and plainly(pattern[1:], name[1:])


@given(
    pattern=st.text("ab.?*", min_size=1, max_size=9), name=st.text("ab.", min_size=1, max_size=9)
)
def test_globs_in_linear_time_match_what_trying_everything_matches(pattern: str, name: str) -> None:
    compiled = glob.compile_line(pattern)
    assert compiled is not None

    assert compiled.matches([name], is_directory=False) == plainly(pattern, name)


_UNITS = {"ns": 1, "us": 10**3, "\u00b5s": 10**3, "\u03bcs": 10**3, "ms": 10**6, "s": 10**9}
_UNITS |= {"m": 60 * 10**9, "h": 3600 * 10**9}
_GO = re.compile(r"([0-9]{1,9}\.?[0-9]{0,9}|\.[0-9]{1,9})(ns|us|\u00b5s|\u03bcs|ms|s|m|h)")


@given(
    text=st.one_of(
        st.from_regex(rf"(?:{_GO.pattern})+", fullmatch=True),
        languages.DURATION().map(bytes.decode),
    )
)
def test_durations_are_those_of_go(text: str) -> None:
    try:
        seconds = parse_duration(text)
    except ValueError:
        assert text != "0"
        assert not re.fullmatch(rf"(?:{_GO.pattern})+", text)
        return

    parts = _GO.findall(text)
    assert text == "0" or "".join(number + unit for number, unit in parts) == text
    assert seconds == pytest.approx(
        float(sum(Fraction(number) * _UNITS[unit] for number, unit in parts) / 10**9)
    )


@given(value=trees.VALUES)
def test_what_is_read_of_yaml_is_what_its_library_reads(value: trees.Value) -> None:
    text = trees.to_json(value)
    try:
        found = untrusted.load_yaml(text.encode())
    except untrusted.UntrustedError:
        return

    assert found == _as_written(yaml.load(text, Loader=yaml.CBaseLoader))  # noqa: S506 - texts alone


def _as_written(value: object) -> object:
    """Return the value with the words that are no texts: ours makes them of plain ones."""
    if isinstance(value, dict):
        return {key: _as_written(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_as_written(inner) for inner in value]
    return {"true": True, "false": False, "null": None}.get(str(value), value)


@given(value=trees.VALUES)
def test_what_is_read_of_json_is_what_its_library_reads(value: trees.Value) -> None:
    text = trees.to_json(value)
    try:
        found = untrusted.load_json(text, object, size=1 << 20)
    except untrusted.UntrustedError:
        return

    assert found == json.loads(text)


@given(
    steps=st.lists(
        st.one_of(
            st.binary(min_size=1, max_size=127), st.tuples(st.integers(0, 9), st.integers(0, 9))
        ),
        max_size=5,
    ),
    lie=st.sampled_from((0, 0, 0, 1, -1)),
)
def test_deltas_make_what_the_library_makes(
    steps: list[bytes | tuple[int, int]], lie: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    base = b"0123456789"
    size = sum(len(step) if isinstance(step, bytes) else step[1] or 0x10000 for step in steps)
    body = b"".join(
        bytes((len(step),)) + step if isinstance(step, bytes) else b"\x91" + bytes(step)
        for step in steps
    )
    assume(size + lie >= 0)
    data = bytes((len(base),)) + _varint(size + lie) + body
    scratch = tmp_path_factory.getbasetemp()
    spilled = delta.Spilled(scratch)
    spilled.append(base)
    beyond = any(
        not isinstance(step, bytes) and step[0] + (step[1] or 0x10000) > len(base) for step in steps
    )
    # The library accepts some of these: it cuts a copy, or ignores what follows the last byte.
    if lie or beyond:
        with pytest.raises(GitError):
            delta.apply(spilled, data, scratch=scratch, limit=1 << 20)
        return

    made = delta.apply(spilled, data, scratch=scratch, limit=1 << 20)

    assert not isinstance(made, bytes)
    assert made.read(1 << 20, 0) == b"".join(apply_delta(base, data))


def _varint(number: int) -> bytes:
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes((*out, number))
