"""Credentials of the operator's bucket: where they come from, and in which order."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from toolkit.artifact import bucketkeys
from toolkit.errors import StalledError
from toolkit.remote.cloud.identity import Bearer, SessionKeys
from toolkit.remote.objectstore.objectstore import (
    AzureKey,
    AzureSas,
    BearerToken,
    Credentials,
    GcsServiceAccount,
    Provided,
    S3Keys,
)
from toolkit.remote.objectstore.place import Provider

NEVER = datetime(2100, 1, 1, tzinfo=UTC)
AWS = {"AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "key"}


def mounted(directory: Path, **files: str) -> Path:
    """Make a directory as the kubelet mounts a Secret."""
    version = directory / "..2026_01_01"
    version.mkdir(parents=True)
    (directory / "..data").symlink_to(version.name)
    for name, content in files.items():
        (version / name).write_text(content)
        (directory / name).symlink_to(f"..data/{name}")
    return directory


async def used(credentials: Credentials) -> Credentials:
    return await credentials.get() if isinstance(credentials, Provided) else credentials


@pytest.mark.parametrize(
    ("provider", "files", "expected"),
    [
        (
            "generic",
            {"accesskey": "id", "secretkey": "key"},
            S3Keys(access_key="id", secret_key="key"),
        ),
        ("gcp", {"serviceaccount": "{}"}, GcsServiceAccount(key=b"{}")),
        ("azure", {"accountKey": "a2V5"}, AzureKey(key="a2V5")),
    ],
)
async def test_a_mounted_secret_comes_first(
    tmp_path: Path, provider: Provider, files: dict[str, str], expected: Credentials
) -> None:
    found = bucketkeys.credentials(
        provider, directory=mounted(tmp_path / "keys", **files), environment=AWS, lend=None
    )

    assert await used(found) == expected


async def test_a_secret_that_lacks_a_key_is_refused_without_the_other(tmp_path: Path) -> None:
    directory = mounted(tmp_path / "keys", accesskey="very-secret")

    with pytest.raises(StalledError, match="'secretkey'") as error:
        bucketkeys.credentials("aws", directory=directory, environment={}, lend=None)

    assert "very-secret" not in str(error.value)
    assert str(directory) in str(error.value)


async def test_a_directory_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(StalledError, match="nowhere"):
        bucketkeys.credentials("aws", directory=tmp_path / "nowhere", environment=AWS, lend=None)


@pytest.mark.parametrize(
    ("provider", "environment", "expected"),
    [
        ("aws", AWS, S3Keys(access_key="id", secret_key="key")),
        (
            "generic",
            AWS | {"AWS_SESSION_TOKEN": "token"},
            S3Keys(access_key="id", secret_key="key", session_token="token"),
        ),
        ("azure", {"AZURE_STORAGE_KEY": "a2V5"}, AzureKey(key="a2V5")),
        ("azure", {"AZURE_STORAGE_SAS_TOKEN": "sv=1"}, AzureSas(token="sv=1")),
    ],
)
async def test_the_environments_keys_come_next(
    provider: Provider, environment: dict[str, str], expected: Credentials
) -> None:
    found = bucketkeys.credentials(provider, directory=None, environment=environment, lend=None)

    assert found == expected


async def test_googles_variable_names_a_service_accounts_key(tmp_path: Path) -> None:
    key = tmp_path / "key.json"
    key.write_text(json.dumps({"type": "service_account"}))
    environment = {"GOOGLE_APPLICATION_CREDENTIALS": str(key)}

    found = bucketkeys.credentials("gcp", directory=None, environment=environment, lend=None)

    assert found == GcsServiceAccount(key=key.read_bytes())


@pytest.mark.parametrize(
    ("provider", "lent", "expected"),
    [
        (
            "aws",
            SessionKeys(access_key="id", secret_key="key", session_token="token", expires_at=NEVER),
            S3Keys(access_key="id", secret_key="key", session_token="token"),
        ),
        ("gcp", Bearer(token="t", expires_at=NEVER), BearerToken(token="t")),
    ],
)
async def test_the_clouds_identity_comes_last(
    provider: Provider, lent: SessionKeys | Bearer, expected: Credentials
) -> None:
    async def lend() -> SessionKeys | Bearer:
        return lent

    found = bucketkeys.credentials(provider, directory=None, environment={}, lend=lend)

    assert await used(found) == expected


async def test_renewed_keys_are_read_again(tmp_path: Path) -> None:
    directory = mounted(tmp_path / "keys", accesskey="old", secretkey="key")
    now = 0.0
    found = bucketkeys.credentials(
        "aws", directory=directory, environment={}, lend=None, now=lambda: now
    )
    (directory / "accesskey").write_text("new")
    early = await used(found)
    now = 61.0
    late = await used(found)
    (directory / "secretkey").unlink()
    now = 200.0
    kept = await used(found)

    assert early == S3Keys(access_key="old", secret_key="key")
    assert late == kept == S3Keys(access_key="new", secret_key="key")
