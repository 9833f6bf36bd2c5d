"""Refspecs of pushes name both sides in full."""

import pytest

from toolkit.remote.git.refspec import Refspec


@pytest.mark.parametrize(
    ("text", "read"),
    [
        (
            "refs/heads/main:refs/for/main",
            Refspec(source="refs/heads/main", target="refs/for/main"),
        ),
        ("refs/heads/a", Refspec(source="refs/heads/a", target="refs/heads/a")),
        (
            "+refs/heads/a:refs/heads/b",
            Refspec(source="refs/heads/a", target="refs/heads/b", force=True),
        ),
    ],
)
def test_a_refspec_is_read(text: str, read: Refspec) -> None:
    assert Refspec.parse(text) == read


@pytest.mark.parametrize(
    "text",
    [
        "",
        ":refs/heads/main",
        "main:main",
        "refs/heads/a:",
        "refs/heads/*:refs/heads/*",
        "refs/heads/a:refs/heads/b:refs/heads/c",
        "refs/heads/" + "a" * 1024,
    ],
)
def test_what_names_less_or_deletes_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"full name|name that Git allows|1024"):
        Refspec.parse(text)
