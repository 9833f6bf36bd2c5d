"""What is decided without a registry: which tags, which differences, what an artifact says."""

from datetime import UTC, datetime

import pytest

from cli import errors
from cli.artifacts import comparing, document, listing

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


@pytest.mark.parametrize(
    ("within", "pattern", "expected"),
    [
        ("", "", ["v2.0.0", "v1.1.0", "v1.0.0", "latest"]),
        (">=1.1", "", ["v2.0.0", "v1.1.0"]),
        ("", "^v1", ["v1.1.0", "v1.0.0"]),
        (">=1.1", "^v1", ["v1.1.0"]),
    ],
)
def test_tags_of_signatures_are_left_out(within: str, pattern: str, expected: list[str]) -> None:
    signatures = [f"sha256-{'0' * 64}{end}" for end in ("", ".sig", ".att", ".sbom")]
    tags = ["v1.0.0", *signatures, "latest", "v2.0.0", "v1.1.0"]

    assert listing.chosen(tags, within=within, pattern=pattern) == expected


@pytest.mark.parametrize(
    ("within", "pattern", "flag"), [("x.y", "", "--filter-semver"), ("", "(", "--filter-regex")]
)
def test_bad_filter_is_named(within: str, pattern: str, flag: str) -> None:
    with pytest.raises(errors.UsageError, match=flag):
        listing.chosen(["v1"], within=within, pattern=pattern)


def test_each_file_that_differs_is_told() -> None:
    local = {"same": "1", "changed": "2", "new": "3"}
    remote = {"same": "1", "changed": "9", "gone": "4"}

    assert comparing.lines(local, remote) == (
        "► changed changed",
        "► gone deleted",
        "► new created",
    )


def test_own_annotations_stand_beside_those_of_flux() -> None:
    made = document.annotations("git", "main", ["a=1=2", "b=3"], now=NOW)

    assert made == {
        "org.opencontainers.image.created": "2026-01-02T03:04:05Z",
        "org.opencontainers.image.source": "git",
        "org.opencontainers.image.revision": "main",
        "a": "1=2",
        "b": "3",
    }


@pytest.mark.parametrize("pair", ["a", "=1", ""])
def test_annotation_without_a_key_is_refused(pair: str) -> None:
    with pytest.raises(errors.UsageError, match="--annotations"):
        document.annotations("git", "main", [pair], now=NOW)
