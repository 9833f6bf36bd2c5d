"""How the protocols of object stores are written and read: requests and answers, no server."""

from dataclasses import replace
from datetime import UTC, datetime
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolkit.remote.objectstore.azure import Azure
from toolkit.remote.objectstore.dialect import Ask
from toolkit.remote.objectstore.errors import PlaceError
from toolkit.remote.objectstore.objectstore import AzureKey, AzureSas, Object, Place, S3Keys
from toolkit.remote.objectstore.s3 import S3
from toolkit.remote.objectstore.xml import XmlError, parse

NOW = datetime(2013, 5, 24, tzinfo=UTC)
EXAMPLE = S3Keys(
    access_key="AKIAIOSFODNN7EXAMPLE", secret_key="wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
)


def s3(endpoint: str, *, region: str = "", bucket: str = "b", plain_http: bool = False) -> S3:
    place = Place(
        provider="generic",
        endpoint=endpoint,
        bucket=bucket,
        region=region,
        plain_http=plain_http,
    )
    return S3(place)


@pytest.mark.parametrize(
    ("endpoint", "region", "host", "signed"),
    [
        ("s3.amazonaws.com", "", "s3.us-east-1.amazonaws.com", "us-east-1"),
        ("s3.amazonaws.com", "eu-west-1", "s3.eu-west-1.amazonaws.com", "eu-west-1"),
        ("s3.eu-west-1.amazonaws.com", "", "s3.eu-west-1.amazonaws.com", "eu-west-1"),
        ("https://s3.eu-west-1.amazonaws.com:443", "", "s3.eu-west-1.amazonaws.com", "eu-west-1"),
        ("s3.dualstack.eu-west-1.amazonaws.com", "", None, "eu-west-1"),
        ("s3.cn-north-1.amazonaws.com.cn", "", None, "cn-north-1"),
        ("minio.test:9000", "", None, "us-east-1"),
        ("minio.test:9000", "here", None, "here"),
        ("s3.amazonaws.com.evil.test", "", None, "us-east-1"),
    ],
)
def test_host_and_region_follow_from_each_other_at_aws(
    endpoint: str, region: str, host: str | None, signed: str
) -> None:
    request = s3(endpoint, region=region).signed(Ask(method="GET", path="/b"), EXAMPLE, NOW)

    assert urlsplit(request.url).netloc == (host or endpoint)
    assert f"/20130524/{signed}/s3/aws4_request" in request.headers["Authorization"]


def test_a_region_makes_no_host_of_another_bucket() -> None:
    with pytest.raises(PlaceError, match=r"spec\.region is not the name of a region"):
        s3("s3.amazonaws.com", region="evil.s3")
    other = s3("minio.test", region="my.region")
    assert other.signed(other.looking("k"), EXAMPLE, NOW).url == "https://minio.test/b/k"


def test_the_bucket_is_in_the_path_but_at_alibaba() -> None:
    own = s3("minio.test").signed(s3("minio.test").looking("k"), EXAMPLE, NOW)
    alibaba = s3("oss-cn-beijing.aliyuncs.com")
    other = alibaba.signed(alibaba.looking("k"), EXAMPLE, NOW)
    listed = alibaba.signed(alibaba.listing("", ""), EXAMPLE, NOW)

    assert own.url == "https://minio.test/b/k"
    assert other.url == "https://b.oss-cn-beijing.aliyuncs.com/k"
    assert listed.url.startswith("https://b.oss-cn-beijing.aliyuncs.com/?")


@given(st.text(alphabet=st.characters(codec="utf-8"), min_size=1))
def test_any_key_is_asked_for_in_one_way(key: str) -> None:
    dialect = s3("minio.test")

    url = dialect.signed(dialect.looking(key), EXAMPLE, NOW).url

    assert url.isascii()
    assert url.isprintable()
    assert "?" not in url
    assert "#" not in url
    assert urlsplit(url).netloc == "minio.test"


def test_what_is_secret_is_not_in_a_url() -> None:
    dialect = s3("minio.test")
    keys = replace(EXAMPLE, session_token="session")

    request = dialect.signed(dialect.listing("a/", "next"), keys, NOW)

    assert request.url == (
        "https://minio.test/b?continuation-token=next&encoding-type=url&list-type=2&max-keys=1000"
        "&prefix=a%2F"
    )
    assert "session" not in repr(request)


def test_keys_of_a_listing_are_decoded_only_if_encoded() -> None:
    entry = "<Contents><Key>a+b%2Bc</Key><ETag>1</ETag><Size>1</Size></Contents>"
    encoded = f"<ListBucketResult><EncodingType>url</EncodingType>{entry}</ListBucketResult>"
    plain = f"<ListBucketResult>{entry}</ListBucketResult>"
    dialect = s3("minio.test")

    assert [found.key for found in dialect.page(encoded.encode()).objects] == ["a b+c"]
    assert [found.key for found in dialect.page(plain.encode()).objects] == ["a+b%2Bc"]


def azure(endpoint: str) -> Azure:
    return Azure(Place(provider="azure", endpoint=endpoint, bucket="b", plain_http=True))


@pytest.mark.parametrize(
    ("endpoint", "account"),
    [
        ("https://shop.blob.core.windows.net", "shop"),
        ("https://shop.blob.core.usgovcloudapi.net/", "shop"),
        ("http://127.0.0.1:10000/devstoreaccount1", "devstoreaccount1"),
        ("http://localhost:10000/devstoreaccount1", "devstoreaccount1"),
    ],
)
def test_the_account_is_in_the_endpoint(endpoint: str, account: str) -> None:
    dialect = azure(endpoint)

    request = dialect.signed(dialect.looking("k"), AzureKey(key="a2V5"), NOW)

    assert request.headers["Authorization"].startswith(f"SharedKey {account}:")


def test_a_shared_access_signature_is_sent_with_every_request() -> None:
    dialect = azure("https://shop.blob.core.windows.net")
    sas = AzureSas(token="?sv=1&sig=a%2Bb%3D")

    request = dialect.signed(dialect.listing("", ""), sas, NOW)

    assert "sig=a%2Bb%3D" in request.url
    assert "comp=list" in request.url
    assert "sig" not in repr(request)


def test_directories_of_a_hierarchical_account_are_no_objects() -> None:
    body = (
        "\ufeff<EnumerationResults><Blobs>"
        "<Blob><Name>d</Name><Properties><Etag>1</Etag><Content-Length>0</Content-Length>"
        "<ResourceType>directory</ResourceType></Properties></Blob>"
        '<Blob><Name Encoded="true">a%EF%BF%BE</Name><Properties><Etag>"2"</Etag>'
        "<Content-Length>3</Content-Length></Properties></Blob>"
        "</Blobs><NextMarker>more</NextMarker></EnumerationResults>"
    )

    page = azure("https://shop.blob.core.windows.net").page(body.encode())

    assert page.objects == (Object(key="a\ufffe", etag="2", size=3),)
    assert page.token == "more"


@pytest.mark.parametrize(
    "endpoint",
    [
        "https://s3.eu-west-1.amazonaws.com/acme",
        "https://OSS-cn-beijing.aliyuncs.com/acme/",
        "https://storage.googleapis.com:443/acme",
        "https://acme.blob.core.windows.net/other",
    ],
)
def test_a_path_before_the_bucket_is_refused_where_no_bucket_is_below_a_path(endpoint: str) -> None:
    with pytest.raises(PlaceError, match="must not have a path"):
        _ = Place(provider="generic", endpoint=endpoint, bucket="evil").base


@pytest.mark.parametrize("endpoint", ["s3.amazonaws.com/", "proxy.example/s3", "127.0.0.1:9/acct"])
def test_a_path_before_the_bucket_is_kept_elsewhere(endpoint: str) -> None:
    assert Place(provider="generic", endpoint=endpoint, bucket="b").base.endswith(
        endpoint.rstrip("/")
    )


def test_a_place_shows_no_secret() -> None:
    place = Place(
        provider="azure",
        endpoint="https://shop.blob.core.windows.net",
        bucket="b",
        credentials=AzureKey(key="hush"),
        client_key=b"hush",
    )

    assert "hush" not in repr(place)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"<a>",
        b"<!DOCTYPE a><a/>",
        b"<a>" * 20 + b"</a>" * 20,
        "<!DOCTYPE a><a/>".encode("utf-16"),
        b'<?xml version="1.0" encoding="gb2312"?><a>x</a>',
        b'<?xml version="1.0" encoding="rot13"?><a>x</a>',
        b'<?xml version="1.0" encoding="idna"?><a>x</a>',
        b"<a " + b" ".join(b"b%d=''" % number for number in range(9)) + b"/>",
        b"<a " + b" ".join(b"b%d='>'" % number for number in range(100_000)) + b"/>",
        b"<a>" + b"x" * 20_000 + b"</a>",
    ],
)
def test_xml_of_another_kind_than_expected_is_refused(data: bytes) -> None:
    with pytest.raises(XmlError):
        parse(data)


@given(st.binary())
def test_any_bytes_are_xml_or_refused(data: bytes) -> None:
    try:
        parse(data)
    except XmlError:
        return


def test_long_pages_are_read_to_the_end() -> None:
    entry = b"<a>" + b"k" * 3000 + b"</a>"

    assert len(parse(b"<r>" + entry * 1000 + b"</r>")) == 1000
