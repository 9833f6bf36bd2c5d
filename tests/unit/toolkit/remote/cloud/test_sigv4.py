"""Signature Version 4 against the values that AWS publishes.

The "aws-sig-v4-test-suite" of the IAM documentation, and the examples of the S3 API reference
("Signature Calculations for the Authorization Header" and "Query Parameters").
"""

from datetime import UTC, datetime

import pytest

from toolkit.remote.cloud.sigv4 import Keys, Signer

SUITE = Signer(
    keys=Keys(access_key="AKIDEXAMPLE", secret_key="wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"),
    region="us-east-1",
    service="service",
)
SUITE_TIME = datetime(2015, 8, 30, 12, 36, tzinfo=UTC)
S3 = Signer(
    keys=Keys(
        access_key="AKIAIOSFODNN7EXAMPLE", secret_key="wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
    ),
    region="us-east-1",
    service="s3",
)
S3_TIME = datetime(2013, 5, 24, tzinfo=UTC)


def signature(headers: dict[str, str]) -> str:
    return headers["Authorization"].rpartition("Signature=")[2]


@pytest.mark.parametrize(
    ("method", "path", "expected"),
    [
        ("GET", "/", "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"),
        ("POST", "/", "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"),
        (
            "GET",
            "/?Param2=value2&Param1=value1",
            "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500",
        ),
        (
            "GET",
            "/-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz",
            "07ef7494c76fa4850883e2b006601f940f8a34d404d0cfa977f52a65bbf5f24f",
        ),
        # Normalised: relative parts and doubled slashes go.
        (
            "GET",
            "/example1/example2/../..",
            SLASH := "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31",
        ),
        ("GET", "/./", SLASH),
        ("GET", "//", SLASH),
    ],
)
def test_requests_are_signed_as_in_the_published_suite(
    method: str, path: str, expected: str
) -> None:
    headers = SUITE.headers(method, f"https://example.amazonaws.com{path}", now=SUITE_TIME)

    assert signature(headers) == expected


def test_header_values_are_trimmed_and_sorted_as_in_the_published_suite() -> None:
    given = {"My-Header2": ' "a   b   c"  ', "My-Header1": " value1"}

    headers = SUITE.headers("GET", "https://example.amazonaws.com/", now=SUITE_TIME, headers=given)

    assert signature(headers) == (
        "acc3ed3afb60bb290fc8d2dd0098b9911fcaa05412b367055dee359757a9c736"
    )


def test_form_body_is_signed_as_in_the_published_suite() -> None:
    headers = SUITE.headers(
        "POST",
        "https://example.amazonaws.com/",
        now=SUITE_TIME,
        headers={"Content-Type": "application/x-www-form-urlencoded"},
        body=b"Param1=value1",
    )

    assert signature(headers) == (
        "ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a"
    )


def test_iam_request_is_signed_as_in_the_documentation() -> None:
    iam = Signer(keys=SUITE.keys, region="us-east-1", service="iam")

    headers = iam.headers(
        "GET",
        "https://iam.amazonaws.com/?Action=ListUsers&Version=2010-05-08",
        now=SUITE_TIME,
        headers={"Content-Type": "application/x-www-form-urlencoded; charset=utf-8"},
    )

    assert signature(headers) == (
        "5d672d79c15b13162d9279b0855cfba6789a8edb4c82c400e06b5924a6f2b5d7"
    )


@pytest.mark.parametrize(
    ("method", "target", "given", "body", "expected"),
    [
        (
            "GET",
            "/test.txt",
            {"Range": "bytes=0-9"},
            b"",
            "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
        ),
        (
            "PUT",
            "/test%24file.text",
            {"Date": "Fri, 24 May 2013 00:00:00 GMT", "X-Amz-Storage-Class": "REDUCED_REDUNDANCY"},
            b"Welcome to Amazon S3.",
            "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd",
        ),
        (
            "GET",
            "/?lifecycle",
            {},
            b"",
            "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543",
        ),
        (
            "GET",
            "/?max-keys=2&prefix=J",
            {},
            b"",
            "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7",
        ),
    ],
)
def test_objects_are_asked_for_as_in_the_s3_reference(
    method: str, target: str, given: dict[str, str], body: bytes, expected: str
) -> None:
    headers = S3.headers(
        method,
        f"https://examplebucket.s3.amazonaws.com{target}",
        now=S3_TIME,
        headers=given,
        body=body,
    )

    assert signature(headers) == expected


def test_url_is_presigned_as_in_the_s3_reference() -> None:
    url = S3.presigned(
        "GET",
        "https://examplebucket.s3.amazonaws.com/test.txt",
        now=S3_TIME,
        seconds=86400,
    )

    assert url.endswith(
        "&X-Amz-Signature=aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404"
    )


def test_session_token_is_sent_and_signed() -> None:
    keys = Keys(access_key="A", secret_key="S", session_token="session")
    signer = Signer(keys=keys, region="us-east-1", service="ecr")

    headers = signer.headers("POST", "https://api.ecr.us-east-1.amazonaws.com/", now=SUITE_TIME)

    assert headers["X-Amz-Security-Token"] == "session"
    assert ";x-amz-security-token," in headers["Authorization"]


def test_unread_body_is_declared_unsigned() -> None:
    headers = S3.headers("PUT", "https://b.s3.amazonaws.com/key", now=S3_TIME, body=None)

    assert headers["X-Amz-Content-Sha256"] == "UNSIGNED-PAYLOAD"


def test_secrets_are_not_shown() -> None:
    shown = repr(
        Signer(
            keys=Keys(access_key="A", secret_key="SS", session_token="TT"), region="r", service="s"
        )
    )

    assert "SS" not in shown
    assert "TT" not in shown
