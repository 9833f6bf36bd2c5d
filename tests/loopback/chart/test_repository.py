"""What is asked of a chart repository, with which credentials, and what of its answers is kept."""

import gzip
import hashlib
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.chartrepository import ChartRepository
from toolkit.chart import limits, repository
from toolkit.chart.errors import ChartPullError, IndexationError
from toolkit.chart.repository import Downloaded
from toolkit.chart.wire import Found
from toolkit.remote.http.http import AuthError, Endpoint, Http, HttpError

PLAIN = Endpoint(plain_http=True)
LOGIN = Endpoint(plain_http=True, username="me", password="secret")


async def download(
    http: Http, url: str, into: Path, endpoint: Endpoint = PLAIN, **options: Any
) -> Downloaded | None:
    return await repository.download_index(http, url, endpoint, into, timeout=10, **options)


async def fetch(
    http: Http, server: ChartRepository, into: Path, endpoint: Endpoint = PLAIN, **fields: Any
) -> None:
    """Fetch the chart podinfo 6.0.0, of which the index says other things in ``fields``."""
    said = {"urls": ("podinfo-6.0.0.tgz",), "digest": ""} | fields
    found = Found(name="podinfo", version="6.0.0", **said)
    await repository.download_chart(http, server.url, found, endpoint, into, timeout=10)


async def test_unchanged_index_costs_a_request_without_a_body(
    http: Http, server: ChartRepository, tmp_path: Path
) -> None:
    server.add()
    known = await download(http, server.url, tmp_path / "one")
    assert known is not None

    again = await download(http, server.url, tmp_path / "two", known=known.validators)

    assert (tmp_path / "one").read_bytes() == server.index
    assert known.validators.etag
    assert again is None
    assert not (tmp_path / "two").exists()


async def test_changed_index_is_fetched(
    http: Http, server: ChartRepository, tmp_path: Path
) -> None:
    server.add()
    known = await download(http, server.url, tmp_path / "one")
    assert known is not None
    server.add(version="6.0.1")

    again = await download(http, server.url, tmp_path / "two", known=known.validators)

    assert again is not None
    assert again.digest == hashlib.sha256(server.index).hexdigest() != known.digest
    assert (tmp_path / "two").read_bytes() == server.index


async def test_compressed_index_is_inflated(
    http: Http, server: ChartRepository, tmp_path: Path
) -> None:
    server.index, server.compressed = b"entries: " * 300_000, True

    await download(http, server.url, tmp_path / "index")

    assert (tmp_path / "index").read_bytes() == server.index


@pytest.mark.parametrize("compressed", [True, False])
async def test_index_that_is_too_large_is_cut_off(
    http: Http, server: ChartRepository, tmp_path: Path, *, compressed: bool
) -> None:
    server.index, server.compressed = bytes(limits.INDEX_BYTES + (2 << 20)), compressed

    with pytest.raises(IndexationError, match="larger than 50 MiB"):
        await download(http, server.url, tmp_path / "index")

    assert (tmp_path / "index").stat().st_size <= limits.INDEX_BYTES


@pytest.mark.parametrize("body", [b"no gzip", gzip.compress(b"x" * 100, mtime=0)[:20]])
async def test_damaged_compression_is_told(
    http: Http, server: ChartRepository, tmp_path: Path, body: bytes
) -> None:
    server.index, server.headers = body, {"Content-Encoding": "gzip"}

    with pytest.raises(IndexationError, match="damaged on its way"):
        await download(http, server.url, tmp_path / "index")


async def test_login_goes_to_the_repository(http: Http, tmp_path: Path) -> None:
    async with ChartRepository(login=("me", "secret")) as server:
        data = server.add()

        await download(http, server.url, tmp_path / "index", LOGIN)
        await fetch(http, server, tmp_path / "chart", LOGIN)

        assert (tmp_path / "chart").read_bytes() == data


async def test_missing_login_is_an_authentication_failure(http: Http, tmp_path: Path) -> None:
    async with ChartRepository(login=("me", "secret")) as server:
        with pytest.raises(AuthError) as caught:
            await download(http, server.url, tmp_path / "index")

    assert caught.value.reason == "AuthenticationFailed"


async def test_missing_index_names_its_address(
    http: Http, server: ChartRepository, tmp_path: Path
) -> None:
    with pytest.raises(HttpError, match=r"/other/index\.yaml'.*404"):
        await download(http, f"{server.origin}/other/?token=secret", tmp_path / "index")


async def test_query_of_the_repository_is_kept(
    http: Http, server: ChartRepository, tmp_path: Path
) -> None:
    server.add()
    url = f"{server.url}/?token=t"
    found = Found(name="podinfo", version="6.0.0", urls=("podinfo-6.0.0.tgz",), digest="")

    await download(http, url, tmp_path / "index")
    await repository.download_chart(http, url, found, PLAIN, tmp_path / "chart", timeout=10)

    assert [request.query_string for request in server.seen] == ["token=t", "token=t"]


async def test_login_does_not_go_where_the_index_points(
    http: Http, server: ChartRepository, elsewhere: ChartRepository, tmp_path: Path
) -> None:
    data = elsewhere.add()

    await fetch(
        http, server, tmp_path / "chart", LOGIN, urls=(f"{elsewhere.url}/podinfo-6.0.0.tgz",)
    )

    assert (tmp_path / "chart").read_bytes() == data
    assert "Authorization" not in elsewhere.seen[0].headers


async def test_login_goes_elsewhere_if_the_user_wants_it(
    http: Http, server: ChartRepository, elsewhere: ChartRepository, tmp_path: Path
) -> None:
    elsewhere.add()
    endpoint = Endpoint(plain_http=True, username="me", password="s", pass_credentials=True)

    await fetch(
        http, server, tmp_path / "chart", endpoint, urls=(f"{elsewhere.url}/podinfo-6.0.0.tgz",)
    )

    assert elsewhere.seen[0].headers["Authorization"].startswith("Basic ")


async def test_login_does_not_follow_a_redirect(
    http: Http, server: ChartRepository, elsewhere: ChartRepository, tmp_path: Path
) -> None:
    elsewhere.add()
    server.redirects["/charts/podinfo-6.0.0.tgz"] = f"{elsewhere.url}/podinfo-6.0.0.tgz"

    await fetch(http, server, tmp_path / "chart", LOGIN)

    assert "Authorization" in server.seen[0].headers
    assert "Authorization" not in elsewhere.seen[0].headers


@pytest.mark.parametrize("by", ["index", "redirect"])
async def test_metadata_service_is_out_of_reach(
    http: Http, server: ChartRepository, tmp_path: Path, by: str
) -> None:
    target = "http://169.254.169.254/latest/meta-data/"
    server.redirects["/charts/podinfo-6.0.0.tgz"] = target
    said = {"urls": (target,)} if by == "index" else {}

    with pytest.raises(ChartPullError, match=r"169\.254\.169\.254"):
        await fetch(http, server, tmp_path / "chart", LOGIN, **said)


async def test_chart_must_have_the_digest_of_the_index(
    http: Http, server: ChartRepository, tmp_path: Path
) -> None:
    server.add()

    with pytest.raises(ChartPullError, match="not that of the index"):
        await fetch(http, server, tmp_path / "chart", digest="0" * 64)


async def test_chart_that_is_too_large_is_cut_off(
    http: Http, server: ChartRepository, tmp_path: Path
) -> None:
    server.files["/charts/podinfo-6.0.0.tgz"] = bytes(limits.CHART_BYTES + 1)

    with pytest.raises(ChartPullError, match="larger than 10 MiB"):
        await fetch(http, server, tmp_path / "chart")


@pytest.mark.parametrize("url", ["file:///etc/passwd", "oci://x/y", "http://", "javascript:1"])
async def test_only_http_is_fetched(
    http: Http, server: ChartRepository, tmp_path: Path, url: str
) -> None:
    with pytest.raises(ChartPullError, match=r"only http and https|URL that is invalid"):
        await fetch(http, server, tmp_path / "chart", urls=(url,))


async def test_missing_chart_is_a_failure_to_pull(
    http: Http, server: ChartRepository, tmp_path: Path
) -> None:
    with pytest.raises(ChartPullError, match=r"'podinfo' cannot be fetched.*404") as caught:
        await fetch(http, server, tmp_path / "chart")

    assert caught.value.reason == "ChartPullError"


@pytest.mark.parametrize(
    ("base", "reference", "url"),
    [
        ("https://a.test/charts", "x.tgz", "https://a.test/charts/x.tgz"),
        ("https://a.test/charts/", "sub/x.tgz", "https://a.test/charts/sub/x.tgz"),
        ("https://a.test/charts", "/x.tgz", "https://a.test/x.tgz"),
        ("https://a.test/charts?t=1", "x.tgz", "https://a.test/charts/x.tgz?t=1"),
        ("https://a.test", "https://b.test/x.tgz?y=1#z", "https://b.test/x.tgz?y=1"),
        ("https://a.test/charts", "//b.test/x.tgz", "https://b.test/x.tgz"),
    ],
)
def test_address_of_a_chart(base: str, reference: str, url: str) -> None:
    assert repository.chart_url(base, reference) == url


@pytest.mark.parametrize(
    ("one", "other"),
    [("https://A.test/charts/", "https://a.test/charts"), ("HTTPS://a.test", "https://a.test/")],
)
def test_spellings_of_a_repository_are_one(one: str, other: str) -> None:
    assert repository.normalized(one) == repository.normalized(other)
