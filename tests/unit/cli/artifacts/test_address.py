"""Addresses of artifacts: what ``flux`` takes, and no more."""

import pytest

from cli import errors
from cli.artifacts import address

DIGEST = "sha256:" + "0" * 64


@pytest.mark.parametrize(
    ("url", "repository", "reference"),
    [
        ("oci://ghcr.io/org/app", "ghcr.io/org/app", "latest"),
        ("oci://ghcr.io/org/app:v1", "ghcr.io/org/app", "v1"),
        ("oci://localhost:5000/app", "localhost:5000/app", "latest"),
        ("oci://localhost:5000/app:v1", "localhost:5000/app", "v1"),
        (f"oci://ghcr.io/org/app@{DIGEST}", "ghcr.io/org/app", DIGEST),
        (f"oci://ghcr.io/org/app:v1@{DIGEST}", "ghcr.io/org/app", DIGEST),
    ],
)
def test_parts_are_found(url: str, repository: str, reference: str) -> None:
    found = address.parse(url)

    assert (str(found.repository), found.reference) == (repository, reference)


@pytest.mark.parametrize(
    "url",
    [
        *(
            "",
            "ghcr.io/org/app",
            "https://ghcr.io/org/app",
            "oci://ghcr.io",
            "oci://ghcr.io/Org/app",
        ),
        *("oci://ghcr.io/org/app:", "oci://ghcr.io/org/app:a b", "oci://ghcr.io/org/app@sha256:1"),
        *("oci://ghcr.io/org/app:v1:v2", "oci://ghcr.io/../app:v1"),
    ],
)
def test_other_addresses_are_refused_with_the_remedy(url: str) -> None:
    with pytest.raises(errors.UsageError, match="write it as 'oci://<host>/<name>:<tag>'"):
        address.parse(url)


def test_password_in_an_address_is_not_shown() -> None:
    with pytest.raises(errors.UsageError) as caught:
        address.parse("oci://ada:hunter2@ghcr.io/org/app:v1")

    assert "hunter2" not in str(caught.value)


def test_nothing_is_pushed_to_a_digest() -> None:
    url = f"oci://ghcr.io/org/app@{DIGEST}"

    with pytest.raises(errors.UsageError, match="push to a tag"):
        address.require_tag(address.parse(url), url)
