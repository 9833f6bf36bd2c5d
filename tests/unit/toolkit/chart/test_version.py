"""Versions as Helm reads them, and as registries can hold them."""

import pytest

from toolkit.chart import version


@pytest.mark.parametrize(
    ("text", "shown"),
    [("1", "1.0.0"), ("v1.2", "1.2.0"), ("1.2.3-rc.1+b", "1.2.3-rc.1+b"), ("01.2.3", "1.2.3")],
)
def test_versions_are_read_loosely(text: str, shown: str) -> None:
    assert version.shown(version.parse(text)) == shown


@pytest.mark.parametrize("text", ["", "latest", "1.2.3.4", "1.2.", "1" * 300, "1.2.3 ", "-1.2.3"])
def test_what_is_no_version_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a semantic version"):
        version.parse(text)


def test_number_of_a_pre_release_has_no_leading_zero() -> None:
    with pytest.raises(ValueError, match="leading zero"):
        version.parse("1.2.3-rc.01")


def test_metadata_replaces_metadata() -> None:
    assert version.with_metadata("v1.2.3-rc+old", "abc.4") == "1.2.3-rc+abc.4"


@pytest.mark.parametrize("metadata", ["a_b", "", "a..b", "a b", "+"])
def test_what_cannot_be_metadata_is_refused(metadata: str) -> None:
    with pytest.raises(ValueError, match="cannot be metadata"):
        version.with_metadata("1.2.3", metadata)


def test_plus_survives_a_registry() -> None:
    assert version.from_tag(version.to_tag("1.2.3+b.1")) == "1.2.3+b.1"
