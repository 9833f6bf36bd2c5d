"""So much may be uploaded, and no more; one namespace does not use up another's share."""

from collections.abc import Mapping

import pytest

from toolkit.artifact.quota import Quota, QuotaError, TooManyError, Turnstile, UploadLimits
from toolkit.artifact.store import Owner

BOUNDS = UploadLimits(at_once=3, namespace_at_once=2, namespace_a_minute=4)


@pytest.fixture
def turnstile(clock: list[float]) -> Turnstile:
    return Turnstile(BOUNDS, now=lambda: clock[0])


@pytest.fixture
def clock() -> list[float]:
    return [1000.0]


async def test_so_many_go_on_at_once(turnstile: Turnstile) -> None:
    async with turnstile.turn("a"), turnstile.turn("a"):
        with pytest.raises(TooManyError, match="2 uploads to 'a'"):
            await turnstile.turn("a").__aenter__()
        async with turnstile.turn("b"):
            with pytest.raises(TooManyError, match="too many uploads"):
                await turnstile.turn("c").__aenter__()
    async with turnstile.turn("a"):
        pass


async def test_so_many_come_in_a_minute(turnstile: Turnstile, clock: list[float]) -> None:
    for _ in range(4):
        async with turnstile.turn("a"):
            pass
    with pytest.raises(TooManyError, match="4 uploads a minute") as error:
        await turnstile.turn("a").__aenter__()
    async with turnstile.turn("b"):
        pass

    clock[0] += error.value.retry_after

    async with turnstile.turn("a"):
        pass
    with pytest.raises(TooManyError):
        await turnstile.turn("a").__aenter__()


class Used:
    """A store that says what it is told to."""

    def __init__(self, **used: int) -> None:
        self.used = used

    async def usage(self, kind: str, namespace: str = "") -> Mapping[Owner, int]:
        return {
            Owner(kind=kind, namespace=namespace, name=name): size
            for name, size in self.used.items()
        }


async def test_a_quota_counts_all_of_a_namespace() -> None:
    quota = Quota(Used(a=40, b=50), kind="ExternalArtifact", limit=100)

    async with quota.room("apps", 10):
        pass
    with pytest.raises(QuotaError, match="in 'apps'"):
        await quota.require("apps", 11)
    with pytest.raises(QuotaError):
        await quota.room("apps", 11).__aenter__()
