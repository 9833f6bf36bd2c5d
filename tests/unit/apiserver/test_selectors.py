"""Selectors mean what upstream's mean, and no selector costs more than it may."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apiserver import selectors
from apiserver.item import Item
from apiserver.selectors import Selector
from apiserver.status import StatusError
from tests.fakes.readserver import gauge
from toolkit.objects import ObjectKey


def item(**labels: str) -> Item:
    return Item(ObjectKey("apps", "web"), gauge("web", labels=labels, river="Aare"), 1)


@pytest.mark.parametrize(
    ("text", "labels", "selected"),
    [
        ("", {}, True),
        ("a=b", {"a": "b"}, True),
        ("a==b", {"a": "b"}, True),
        ("a = b", {"a": "b"}, True),
        ("a=b", {}, False),
        ("a=", {"a": ""}, True),
        ("a=", {}, False),
        ("a!=b", {}, True),
        ("a!=b", {"a": "b"}, False),
        ("a!=b", {"a": "c"}, True),
        ("a", {"a": "x"}, True),
        ("a", {}, False),
        ("!a", {}, True),
        ("!a", {"a": ""}, False),
        ("! a", {"a": ""}, False),
        ("a in (b,c)", {"a": "c"}, True),
        ("a in (b,c)", {}, False),
        ("a in(b)", {"a": "b"}, True),
        ("a in (b,)", {"a": ""}, True),
        ("a in ()", {"a": ""}, True),
        ("a notin (b,c)", {}, True),
        ("a notin (b,c)", {"a": "b"}, False),
        ("a in (in,notin)", {"a": "in"}, True),
        ("in in (in)", {"in": "in"}, True),
        ("in", {"in": "x"}, True),
        ("a>5", {"a": "6"}, True),
        ("a>5", {"a": "5"}, False),
        ("a<5", {"a": "5"}, False),
        ("a<5", {"a": "4"}, True),
        ("a>5", {"a": "x"}, False),
        ("a>5", {}, False),
        ("a=b,c in (d),!e", {"a": "b", "c": "d"}, True),
        ("a=b,c in (d),!e", {"a": "b", "c": "d", "e": ""}, False),
        ("example.com/a=b", {"example.com/a": "b"}, True),
    ],
)
def test_label_selectors(text: str, labels: dict[str, str], *, selected: bool) -> None:
    selector = Selector(labels=selectors.parse_labels(text))

    assert selector.matches(item(**labels)) is selected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
        ("a,,b", "found ',', expected: identifier after ','"),
        ("a,", "found '', expected: identifier after ','"),
        (",a", "found ',', expected: !, identifier, or 'end of string'"),
        ("a==b==c", "found '==', expected: ',' or 'end of string'"),
        ("a in (b", "unable to parse requirement: found '', expected: ',' or ')'"),
        ("a in b", "unable to parse requirement: found 'b' expected: '('"),
        ("!", "unable to parse requirement: found '', expected: identifier"),
        ("a=(b)", "unable to parse requirement: found '(', expected: identifier"),
        ("a>b", "for 'Gt', 'Lt' operators, the value must be an integer"),
        ("-a=b", 'unable to parse requirement: <nil>: Invalid value: "-a": name part must consist'),
        ("a=-b", 'unable to parse requirement: values[0][a]: Invalid value: "-b": a valid label'),
        ("a=" + "b" * 64, "must be no more than 63 bytes"),
        ("/a", "prefix part must be non-empty"),
        ("A_/a", "prefix part a lowercase RFC 1123 subdomain"),
        ("a/b/c", "a valid label key must consist of"),
    ],
)
def test_a_malformed_label_selector_is_refused_in_upstreams_words(text: str, message: str) -> None:
    with pytest.raises(StatusError) as refused:
        selectors.parse_labels(text)

    assert refused.value.code == 400
    assert message in refused.value.message


KNOWN = {"spec.river": lambda obj: str(obj["spec"]["river"])}


@pytest.mark.parametrize(
    ("text", "selected"),
    [
        ("", True),
        ("metadata.name=web", True),
        ("metadata.name==web", True),
        ("metadata.name!=web", False),
        ("metadata.name=api", False),
        ("metadata.namespace=apps,metadata.name=web", True),
        ("metadata.namespace=apps,metadata.name=api", False),
        ("spec.river=Aare", True),
        ("spec.river!=Aare", False),
        (",metadata.name=web,", True),
        ("metadata.name=", False),
        (r"spec.river!=A\=a\,b\\", True),
    ],
)
def test_field_selectors(text: str, *, selected: bool) -> None:
    selector = Selector(fields=selectors.parse_fields(text, KNOWN))

    assert selector.matches(item()) is selected


def test_an_escaped_value_is_taken_literally() -> None:
    (term,) = selectors.parse_fields(r"spec.river=A\=a\,b\\", KNOWN)

    assert term.value == "A=a,b\\"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "spec.lake=x",
            'not a known field selector: only "metadata.name", "metadata.namespace", "spec.river"',
        ),
        ("metadata.name", "invalid selector: 'metadata.name'; can't understand 'metadata.name'"),
        ("metadata.name in (a)", "can't understand"),
        (r"metadata.name=a\b", r"invalid field selector: invalid escape sequence: \b"),
        ("metadata.name=a\\", "invalid field selector: invalid escape sequence"),
        ("metadata.name=a=b", "invalid field selector: unescaped character in value: 61"),
    ],
)
def test_a_malformed_field_selector_is_refused(text: str, message: str) -> None:
    with pytest.raises(StatusError) as refused:
        selectors.parse_fields(text, KNOWN)

    assert refused.value.code == 400
    assert message in refused.value.message


@given(st.text(max_size=200))
def test_any_text_is_read_or_refused(text: str) -> None:
    for read in (selectors.parse_labels, lambda each: selectors.parse_fields(each, KNOWN)):
        try:
            read(text)
        except StatusError as exc:
            assert exc.code == 400  # noqa: PT017 - the other way to end is fine too


def test_a_selector_that_would_cost_too_much_is_refused() -> None:
    many = ",".join(f"!a{number}" for number in range(selectors.MOST + 1))

    with pytest.raises(StatusError, match="at most 256 requirements"):
        selectors.parse_labels(many)
    with pytest.raises(StatusError, match="at most 256 requirements"):
        selectors.parse_fields(many.replace("!a", "metadata.name!="), {})
    with pytest.raises(StatusError, match="at most 32768 characters"):
        selectors.parse_labels("a," * 20_000)


def test_the_same_requirement_again_costs_nothing() -> None:
    assert len(selectors.parse_labels(",".join(["!a"] * 1000))) == 1
