"""Which of Sigstore's public roots counts: the newest that can be had, and never none."""

import json
from datetime import timedelta
from pathlib import Path

import pytest

from toolkit.verify.cosign import fulcio, publicroot, trustedroot
from toolkit.verify.cosign.publicroot import PublicRoot, PublicRootError


class Network:
    """Counts what is fetched; fails while it is away."""

    def __init__(self) -> None:
        self.fetched: list[Path] = []
        self.away = False
        self.time = 0.0

    def fetch(self, directory: Path) -> bytes:
        self.fetched.append(directory)
        if self.away:
            raise PublicRootError("no route")
        document = json.loads(publicroot.embedded())
        document["fetched"] = len(self.fetched)
        return json.dumps(document).encode()

    def root(self, cache: Path | None = None) -> PublicRoot:
        return PublicRoot(cache=cache, fetch=self.fetch, clock=lambda: self.time)


def test_shipped_root_knows_the_public_services() -> None:
    root = trustedroot.read(publicroot.embedded())

    names = {log.name for log in root.logs.values()}
    assert "https://rekor.sigstore.dev" in names
    assert len(names) > 1
    assert len(root.certificate_logs) > 1
    assert {authority.name for authority in root.authorities} == {"https://fulcio.sigstore.dev"}
    assert root.timestamp_authorities


async def test_root_is_fetched_once_a_day(tmp_path: Path) -> None:
    network = Network()
    public = network.root(tmp_path / "cache")

    first = await public.get()
    network.time = publicroot.FRESH_SECONDS - 1
    assert await public.get() is first
    network.time += 2
    assert (await public.get()).digest != first.digest
    assert network.fetched == [tmp_path / "cache"] * 2
    assert (tmp_path / "cache").is_dir()


async def test_shipped_root_counts_while_the_network_is_away(
    caplog: pytest.LogCaptureFixture,
) -> None:
    network = Network()
    network.away = True
    public = network.root()

    root = await public.get()

    assert root == trustedroot.read(publicroot.embedded())
    assert "cannot be refreshed" in caplog.text
    await public.get()
    assert len(network.fetched) == 1
    network.time, network.away = publicroot.RETRY_SECONDS + 1, False
    assert (await public.get()).digest != root.digest


async def test_last_root_counts_while_the_network_is_away() -> None:
    network = Network()
    public = network.root()
    root = await public.get()

    network.away, network.time = True, publicroot.FRESH_SECONDS + 1

    assert await public.get() is root


async def test_root_that_cannot_be_read_does_not_count(caplog: pytest.LogCaptureFixture) -> None:
    public = PublicRoot(fetch=lambda _: b"{}")

    root = await public.get()

    assert root == trustedroot.read(publicroot.embedded())
    assert "cannot be refreshed" in caplog.text


async def test_cache_that_cannot_be_written_does_no_harm(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("")
    network = Network()

    root = await network.root(tmp_path / "file" / "cache").get()

    assert root == trustedroot.read(publicroot.embedded())
    assert not network.fetched
    assert "cannot be refreshed" in caplog.text


async def test_offline_root_is_the_shipped_one() -> None:
    def fetch(directory: Path) -> bytes:
        raise AssertionError(directory)

    root = await PublicRoot(offline=True, fetch=fetch).get()

    assert root == trustedroot.read(publicroot.embedded())


def test_repository_that_cannot_be_reached_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(PublicRootError):
        publicroot.fetch_root(tmp_path, url="http://127.0.0.1:9")


def test_chains_of_the_shipped_root_hold_together() -> None:
    root = trustedroot.read(publicroot.embedded())

    for authority in root.authorities:
        assert authority.period.start is not None
        time = authority.period.start + timedelta(days=100)
        fulcio._check_chain(authority, 0, [time])
