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


def test_a_long_name_keeps_its_beginning_and_gets_a_hash() -> None:
    # Flux's own case: internal/release/name_test.go
    long = "rfkpzzjdagqwmvtsfewfhgeeluwnwjxapwyaeqlcrwjzvzpigyrhtyclwfhkvkfd"

    found = names.release_name(long)

    assert found[:41] == f"{long[:40]}-"
    assert len(found) == names.LONGEST
    assert found != names.release_name(f"{long}x")


@pytest.mark.parametrize("name", ["", "A", "a_b", "-a", "a-", "a..b", "a.-b", "a" * 54, "a\n"])
def test_helm_would_refuse_the_name(name: str) -> None:
    assert not names.fits(name)


@pytest.mark.parametrize("name", ["a", "a-b", "a.b", "0", "a" * 53])
def test_helm_takes_the_name(name: str) -> None:
    assert names.fits(name)
