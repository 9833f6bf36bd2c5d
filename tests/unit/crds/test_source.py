"""What a GitRepository means beyond its fields."""

import msgspec
import pytest

from crds import source


def spec(**fields: object) -> source.GitRepositorySpec:
    required = {"url": "https://example.com/repo.git", "interval": "5m"}
    return msgspec.convert(required | fields, source.GitRepositorySpec)


def test_a_fetch_is_given_a_minute_unless_told_otherwise() -> None:
    assert spec().timeout_seconds == 60
    assert spec(timeout="90s").timeout_seconds == 90


def test_the_interval_is_in_seconds() -> None:
    assert spec(interval="1m30s").interval_seconds == 90


def test_an_include_goes_to_a_directory_named_for_its_repository() -> None:
    included = spec(include=[{"repository": {"name": "shared"}}]).include[0]
    placed = spec(include=[{"repository": {"name": "shared"}, "toPath": "lib"}]).include[0]

    assert included.target == "shared"
    assert placed.target == "lib"


def test_an_object_without_status_reads_as_not_yet_seen() -> None:
    raw = b'{"metadata": {"name": "a"}, "spec": {"url": "ssh://git@h/r", "interval": "1m"}}'

    repository = msgspec.json.decode(raw, type=source.GitRepository)

    assert repository.status.observed_generation == -1


def test_the_signature_that_is_demanded_is_the_commits_unless_told_otherwise() -> None:
    verify = spec(verify={"secretRef": {"name": "keys"}}).verify

    assert verify is not None
    assert verify.mode == "HEAD"


@pytest.mark.parametrize(
    "fields", [{"url": "ftp://example.com"}, {"interval": "often"}, {"timeout": "1h"}]
)
def test_a_spec_that_the_api_server_would_refuse_does_not_decode(fields: dict[str, str]) -> None:
    with pytest.raises(msgspec.ValidationError, match=f"at `\\$.{next(iter(fields))}`"):
        spec(**fields)
