"""The operator's URL means one bucket, or is refused in words; secrets are nowhere shown."""

from pathlib import Path

import pytest

from toolkit.artifact import backend
from toolkit.artifact.backend import Address, Settings
from toolkit.artifact.storage import Storage
from toolkit.errors import StalledError


@pytest.mark.parametrize(
    ("url", "address"),
    [
        (
            "s3://artifacts?region=eu-west-1",
            Address(
                provider="aws",
                endpoint="s3.eu-west-1.amazonaws.com",
                bucket="artifacts",
                region="eu-west-1",
            ),
        ),
        (
            "s3://artifacts/fleet/one/?endpoint=https://minio.example:9000&ca=/etc/ca.crt",
            Address(
                provider="generic",
                endpoint="https://minio.example:9000",
                bucket="artifacts",
                prefix="fleet/one/",
                ca=Path("/etc/ca.crt"),
            ),
        ),
        (
            "s3://artifacts?endpoint=http://127.0.0.1:9000&credentials=/etc/keys",
            Address(
                provider="generic",
                endpoint="http://127.0.0.1:9000",
                bucket="artifacts",
                plain_http=True,
                credentials=Path("/etc/keys"),
            ),
        ),
        (
            "gs://artifacts/fleet",
            Address(
                provider="gcp",
                endpoint="storage.googleapis.com",
                bucket="artifacts",
                prefix="fleet/",
            ),
        ),
        (
            "az://account/container/fleet",
            Address(
                provider="azure",
                endpoint="https://account.blob.core.windows.net",
                bucket="container",
                prefix="fleet/",
            ),
        ),
    ],
)
def test_a_url_names_a_bucket(url: str, address: Address) -> None:
    assert backend.parse(url) == address


@pytest.mark.parametrize("nothing", ["", "local"])
def test_nothing_is_the_local_directory(nothing: str) -> None:
    assert backend.parse(nothing) is None


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("artifacts", "schemes s3, gs, az"),
        ("https://artifacts", "schemes"),
        ("s3://", "needs 'region'"),
        ("s3://?region=x", "names no bucket"),
        ("s3://artifacts", "needs 'region'"),
        ("s3://AKIA:s3cr3t@artifacts?region=x", "must not hold a user"),
        ("s3://artifacts?region=x#s3cr3t", "fragment"),
        ("s3://artifacts?region=x&secretkey=s3cr3t", "unknown option 'secretkey'"),
        ("s3://artifacts?region=x&region=y", "twice"),
        ("s3://artifacts?region", "not a URL"),
        ("s3://artifacts/../x?region=x", "prefix"),
        ("s3://artifacts?endpoint=http://u:s3cr3t@host", "endpoint"),
        ("s3://art ifacts?region=x", "bucket's name"),
        ("az://account", "names no bucket"),
        ("az:///container", "names no storage account"),
        ("s3://[x?region=s3cr3t", "not a URL"),
    ],
)
def test_what_is_no_address_is_refused_in_words(url: str, why: str) -> None:
    with pytest.raises(StalledError, match=why) as error:
        backend.parse(url)

    assert "s3cr3t" not in str(error.value)


async def test_the_local_directory_needs_no_credentials(tmp_path: Path) -> None:
    opened = await backend.open_store(
        "", Settings(root=tmp_path, advertised="here"), environment={}
    )
    await opened.close()

    assert isinstance(opened.store, Storage)
    assert opened.store.root == tmp_path
    assert not opened.shared


async def test_a_bucket_without_credentials_is_refused(tmp_path: Path) -> None:
    for url in ("s3://artifacts?endpoint=https://x", "gs://artifacts", "az://account/artifacts"):
        with pytest.raises(StalledError, match="no credentials"):
            await backend.open_store(
                url, Settings(root=tmp_path, advertised="here"), environment={}
            )


async def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    url = "s3://artifacts?endpoint=https://x&ca=/nowhere/ca.crt"

    with pytest.raises(StalledError, match=r"'/nowhere/ca.crt', which 'ca' names"):
        await backend.open_store(url, Settings(root=tmp_path, advertised="here"), environment={})
