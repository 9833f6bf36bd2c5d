"""A release is called as Flux calls it."""

import pytest

from toolkit.release import names


@pytest.mark.parametrize(
    ("name", "chosen", "target", "expected"),
    [
        ("app", "", "", "app"),
        ("app", "", "prod", "prod-app"),
        ("app", "shop", "prod", "shop"),
        ("a" * 53, "", "", "a" * 53),
    ],
)
def test_a_name_is_chosen_or_composed(name: str, chosen: str, target: str, expected: str) -> None:
    assert names.release_name(name, chosen=chosen, target_namespace=target) == expected


# helm-controller v1.6.3, internal/release/name_test.go
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (
            "release-name-with-very-long-name-which-is-longer-than-53-characters",
            "release-name-with-very-long-name-which-i-788ca0d0d7b0",
        ),
        (
            "another-release-name-with-very-long-name-which-is-longer-than-53-characters",
            "another-release-name-with-very-long-name-7e72150d5a36",
        ),
    ],
)
def test_a_long_name_keeps_its_beginning_and_gets_a_hash(name: str, expected: str) -> None:
    assert names.release_name(name) == expected
    assert names.release_name(name.partition("-")[2], target_namespace=name.partition("-")[0]) == (
        expected
    )


@pytest.mark.parametrize("name", ["", "A", "a_b", "-a", "a-", "a..b", "a.-b", "a" * 54, "a\n"])
def test_helm_would_refuse_the_name(name: str) -> None:
    assert not names.fits(name)


@pytest.mark.parametrize("name", ["a", "a-b", "a.b", "0", "a" * 53])
def test_helm_takes_the_name(name: str) -> None:
    assert names.fits(name)
