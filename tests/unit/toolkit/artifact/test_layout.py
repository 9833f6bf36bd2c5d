"""Names are checked before they touch the file system."""

import pytest

from toolkit.artifact import layout
from toolkit.artifact.storage import Owner
from toolkit.errors import StalledError

BAD = [
    "",
    ".",
    "..",
    "../x",
    "a/b",
    "/a",
    ".hidden",
    "-a",
    "a\0b",
    "a\n",
    "ä",
    "a" * 256,
    "a b",
    "a%2f",
]


@pytest.mark.parametrize(
    "name", ["a", "0123abcd.tar.gz", "sha256:ab.tar.gz", "x-1.2.3+4.tgz", "A_b"]
)
def test_a_plain_name_is_taken(name: str) -> None:
    assert layout.require_name(name) == name


@pytest.mark.parametrize("name", BAD)
def test_a_name_that_could_lead_elsewhere_is_refused(name: str) -> None:
    with pytest.raises(StalledError, match="not valid in an artifact path") as error:
        layout.require_name(name)

    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", BAD)
def test_every_part_of_an_owner_is_checked(name: str) -> None:
    for fields in ({"kind": name}, {"namespace": name}, {"name": name}):
        owner = Owner(**{"kind": "Bucket", "namespace": "n", "name": "x"} | fields)
        with pytest.raises(StalledError):
            _ = owner.path


def test_an_owner_lies_where_flux_puts_it() -> None:
    owner = Owner(kind="GitRepository", namespace="flux-system", name="app.v1")

    assert owner.path == "gitrepository/flux-system/app.v1"


@pytest.mark.parametrize("path", ["a/b/c", "a/b/c/d/e", "a/b/../d", "a/b/c/.d", "/a/b/c", "a//c/d"])
def test_what_is_no_artifact_path_is_refused(path: str) -> None:
    with pytest.raises(StalledError):
        layout.require_path(path)


@pytest.mark.parametrize(
    ("filename", "link"),
    [
        ("x.tar.gz", "latest.tar.gz"),
        ("index-ab.yaml", "index.yaml"),
        ("my-app-1.2.3-rc.1+5.tgz", "latest.tar.gz"),
        ("x.tgz", "latest.tar.gz"),
        ("x", "latest"),
    ],
)
def test_the_link_ends_as_the_file(filename: str, link: str) -> None:
    assert layout.latest(filename) == link
