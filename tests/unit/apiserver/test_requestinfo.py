"""What a request is about (cases of upstream's ``requestinfo_test.go``, and some that attack)."""

import pytest
from multidict import MultiDict

from apiserver import requestinfo
from apiserver.requestinfo import RequestInfo

BASE = "/apis/g/v"


def about(path: str, method: str = "GET", *query: tuple[str, str]) -> RequestInfo:
    return requestinfo.parse(method, path, MultiDict(query))


@pytest.mark.parametrize(
    ("method", "path", "wanted"),
    [
        ("GET", "/namespaces/ns/things", ("list", "ns", "things", "", "")),
        ("GET", "/things", ("list", "", "things", "", "")),
        ("GET", "/namespaces/ns/things/a", ("get", "ns", "things", "", "a")),
        ("GET", "/namespaces/ns/things/a/sub", ("get", "ns", "things", "sub", "a")),
        ("POST", "/namespaces/ns/things/a/sub", ("create", "ns", "things", "sub", "a")),
        ("POST", "/namespaces/ns/things", ("create", "ns", "things", "", "")),
        ("PUT", "/namespaces/ns/things/a", ("update", "ns", "things", "", "a")),
        ("PATCH", "/namespaces/ns/things/a", ("patch", "ns", "things", "", "a")),
        ("DELETE", "/namespaces/ns/things/a", ("delete", "ns", "things", "", "a")),
        ("DELETE", "/namespaces/ns/things", ("deletecollection", "ns", "things", "", "")),
        ("GET", "/namespaces/ns", ("get", "ns", "namespaces", "", "ns")),
        ("HEAD", "/things/a", ("get", "", "things", "", "a")),
        ("PROPFIND", "/things/a", ("", "", "things", "", "a")),
    ],
)
def test_a_resource_is_found_in_the_path(method: str, path: str, wanted: tuple[str, ...]) -> None:
    info = about(BASE + path, method)

    assert (info.verb, info.namespace, info.resource, info.subresource, info.name) == wanted
    assert (info.group, info.version) == ("g", "v")


@pytest.mark.parametrize("path", ["/", "/apis", "/apis/g", "/apis/g/v", "/openapi/v3/apis/g/v"])
def test_other_paths_are_no_resources(path: str) -> None:
    info = about(path)

    assert (info.is_resource, info.verb, info.path) == (False, "get", path)


@pytest.mark.parametrize(
    ("value", "verb"),
    [("true", "watch"), ("1", "watch"), ("", "watch"), ("false", "list"), ("0", "list")],
)
def test_a_list_may_be_a_watch(value: str, verb: str) -> None:
    assert about(f"{BASE}/things", "GET", ("watch", value)).verb == verb


def test_an_object_is_not_watched_by_its_path() -> None:
    assert about(f"{BASE}/things/a", "GET", ("watch", "true")).verb == "get"


@pytest.mark.parametrize(
    ("selector", "name"),
    [
        ("metadata.name=a", "a"),
        ("metadata.name==a", "a"),
        ("spec.x=y,metadata.name=a", "a"),
        ("metadata.name!=a", ""),
        ("metadata.name=", ""),
        ("metadata.name=a/b", ""),
        ("metadata.name=..", ""),
        # A comma that is part of a value does not begin a term that binds.
        ("spec.x!=y\\,metadata.name=a", ""),
    ],
)
def test_a_selector_names_an_object_only_where_it_binds(selector: str, name: str) -> None:
    assert about(f"{BASE}/things", "GET", ("fieldSelector", selector)).name == name


def test_selectors_mean_nothing_beside_a_name() -> None:
    info = about(f"{BASE}/things/a", "GET", ("fieldSelector", "metadata.name=b"))

    assert (info.name, info.field_selector) == ("a", "")


def test_a_path_below_a_subresource_is_deeper_than_anything() -> None:
    assert about(f"{BASE}/namespaces/ns/things/a/sub/more").depth == 4
