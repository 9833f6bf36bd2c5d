"""List options are refused as upstream refuses them, and tokens only name a place."""

import base64
from typing import Any

import msgspec
import pytest
from aiohttp.test_utils import make_mocked_request
from hypothesis import given
from hypothesis import strategies as st
from multidict import MultiDict

from apiserver import listing, paging
from apiserver.call import Call, User
from apiserver.listing import Options
from apiserver.paging import Page
from apiserver.status import StatusError
from tests.fakes.readserver import new_view, resource

RESOURCE = resource(new_view())
PREFIX = 'ListOptions.meta.k8s.io "" is invalid: '
MATCH = "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden "


def parse(*, watch: bool = False, name: str = "", **query: Any) -> Options:
    request = make_mocked_request("GET", "/gauges")
    call = Call(
        web=request,
        user=User(name="ada"),
        verb="list",
        path="/gauges",
        query=MultiDict(query),
        name=name,
    )
    return listing.parse(call, RESOURCE, watch=watch)


def refused(*, watch: bool = False, name: str = "", **query: Any) -> StatusError:
    with pytest.raises(StatusError) as caught:
        parse(watch=watch, name=name, **query)
    return caught.value


TOKEN = paging.encode(Page(version=5, namespace="a", name="b"))


@pytest.mark.parametrize(
    ("query", "message"),
    [
        (
            {"resourceVersionMatch": "Exact"},
            MATCH + "unless resourceVersion is provided",
        ),
        (
            {"resourceVersionMatch": "NotOlderThan", "resourceVersion": "5", "continue": TOKEN},
            MATCH + "when continue is provided",
        ),
        (
            {"resourceVersionMatch": "Older", "resourceVersion": "5"},
            (
                'resourceVersionMatch: Unsupported value: "Older": supported values: "Exact",'
                ' "NotOlderThan", ""'
            ),
        ),
        (
            {"resourceVersionMatch": "Exact", "resourceVersion": "0"},
            (
                'resourceVersionMatch: Forbidden: resourceVersionMatch "exact" is forbidden for'
                ' resourceVersion "0"'
            ),
        ),
        (
            {"sendInitialEvents": "true"},
            "sendInitialEvents: Forbidden: sendInitialEvents is forbidden for list",
        ),
        (
            {"sendInitialEvents": "false", "resourceVersionMatch": "Exact"},
            (
                f"[{MATCH}unless resourceVersion is provided, sendInitialEvents: Forbidden:"
                " sendInitialEvents is forbidden for list]"
            ),
        ),
    ],
)
def test_options_of_a_list_that_do_not_fit(query: dict[str, Any], message: str) -> None:
    error = refused(**query)

    assert (error.code, error.reason) == (422, "Invalid")
    assert error.message == PREFIX + message
    document = error.document()
    assert document["details"]["kind"] == "ListOptions"
    assert document["details"]["causes"][0]["reason"].startswith("FieldValue")
    assert document["details"]["causes"][0]["field"] in {
        "resourceVersionMatch",
        "sendInitialEvents",
    }


@pytest.mark.parametrize(
    ("query", "message"),
    [
        (
            {"sendInitialEvents": "true"},
            (
                "resourceVersionMatch: Forbidden: sendInitialEvents requires setting"
                " resourceVersionMatch to NotOlderThan"
            ),
        ),
        (
            {"resourceVersionMatch": "NotOlderThan", "resourceVersion": "5"},
            MATCH + "for watch unless sendInitialEvents is provided",
        ),
        (
            {"resourceVersionMatch": "Exact", "sendInitialEvents": "true"},
            (
                "[resourceVersionMatch: Forbidden: sendInitialEvents requires setting"
                " resourceVersionMatch to NotOlderThan, resourceVersionMatch: Unsupported value:"
                ' "Exact": supported values: "NotOlderThan"]'
            ),
        ),
        (
            {
                "resourceVersionMatch": "NotOlderThan",
                "sendInitialEvents": "true",
                "continue": TOKEN,
            },
            MATCH + "when continue is provided",
        ),
    ],
)
def test_options_of_a_watch_that_do_not_fit(query: dict[str, Any], message: str) -> None:
    error = refused(watch=True, **query)

    assert error.code == 422
    assert error.message == PREFIX + message


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ({"limit": "x"}, 'strconv.ParseInt: parsing "x": invalid syntax'),
        ({"limit": "1.5"}, "invalid syntax"),
        ({"limit": str(2**63)}, "value out of range"),
        ({"limit": "9" * 5000}, "value out of range"),
        ({"timeoutSeconds": "1m"}, 'strconv.ParseInt: parsing "1m": invalid syntax'),
        ({"labelSelector": "a in"}, "unable to parse requirement"),
        ({"fieldSelector": "spec.lake=x"}, '"spec.lake" is not a known field selector'),
        ({"resourceVersion": "new"}, "invalid resource version"),
        (
            {"continue": TOKEN, "resourceVersion": "5"},
            "specifying resource version is not allowed when using continue",
        ),
    ],
)
def test_a_malformed_option_is_a_bad_request(query: dict[str, Any], message: str) -> None:
    error = refused(**query)

    assert (error.code, error.reason) == (400, "BadRequest")
    assert message in error.message


def test_what_is_not_asked_for_has_upstreams_defaults() -> None:
    options = parse()

    assert options == Options(selector=options.selector)
    assert options.selector.empty


@pytest.mark.parametrize("version", ["", "0"])
def test_a_watch_from_nowhere_starts_with_what_there_is(version: str) -> None:
    assert parse(watch=True, resourceVersion=version).initial is True
    assert parse(watch=True, resourceVersion="5").initial is None


@pytest.mark.parametrize(
    ("text", "flag"), [("true", True), ("1", True), ("", True), ("false", False), ("0", False)]
)
def test_flags_are_read_as_upstream_reads_them(text: str, *, flag: bool) -> None:
    assert parse(watch=True, allowWatchBookmarks=text).bookmarks is flag


def test_a_negative_limit_is_none() -> None:
    assert parse(limit="-5").limit == 0


def test_a_name_in_the_path_is_a_field_selector_that_may_not_be_contradicted() -> None:
    (term,) = parse(name="web").selector.fields
    same = parse(name="web", fieldSelector="metadata.name=web").selector.fields

    assert (term.field, term.value) == ("metadata.name", "web")
    assert same == (term,)
    error = refused(name="web", fieldSelector="metadata.name=api")
    assert error.message == "fieldSelector metadata.name doesn't match requested name"


@given(
    st.one_of(st.none(), st.integers(1, 2**63 - 1)),
    st.from_regex(r"[a-z]{0,8}", fullmatch=True),
    st.text(min_size=1, max_size=40).filter(lambda text: text.isprintable()),
)
def test_a_token_names_its_place(version: int | None, namespace: str, name: str) -> None:
    page = Page(version=version, namespace=namespace, name=name)

    assert paging.decode(paging.encode(page)) == page


def packed(document: object) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(document)).rstrip(b"=").decode()


@pytest.mark.parametrize(
    "text",
    [
        "x",
        "a" * 2049,
        "a" * 1_000_000,
        "ä",
        TOKEN + "=",
        packed([]),
        packed({"v": "v2", "rv": 5, "start": "a/b"}),
        packed({"v": "meta.k8s.io/v1", "rv": 0, "start": "a/b"}),
        packed({"v": "meta.k8s.io/v1", "rv": "5", "start": "a/b"}),
        packed({"v": "meta.k8s.io/v1", "rv": 1 << 63, "start": "a/b"}),
        packed({"v": "meta.k8s.io/v1", "rv": 5, "start": ""}),
        packed({"v": "meta.k8s.io/v1", "rv": 5, "start": "b"}),
        packed({"v": "meta.k8s.io/v1", "rv": 5, "start": "a/"}),
    ],
)
def test_what_is_no_token_is_a_bad_request(text: str) -> None:
    with pytest.raises(StatusError, match="invalid continue token") as caught:
        paging.decode(text)

    assert caught.value.code == 400
    assert len(caught.value.message) < 200


@given(st.one_of(st.text(), st.binary().map(lambda raw: base64.urlsafe_b64encode(raw).decode())))
def test_any_text_is_a_token_or_refused(text: str) -> None:
    try:
        page = paging.decode(text)
    except StatusError as exc:
        assert exc.code == 400  # noqa: PT017 - the other way to end is fine too
    else:
        assert paging.expired(page).code == 410


def test_an_expired_token_says_how_to_go_on_regardless() -> None:
    error = paging.expired(Page(version=5, namespace="a", name="b\0"))

    assert (error.code, error.reason) == (410, "Expired")
    again = paging.decode(error.document()["metadata"]["continue"])
    assert again == Page(version=None, namespace="a", name="b\0")
