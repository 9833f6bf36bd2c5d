"""Tokens that are kept: asked for once, by one, for exactly whom they are."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest

from tests.fakes.clouds import ISSUER, FakeClouds, MakeCloud
from toolkit.remote.cloud.cache import EVICTIONS, ITEMS, TokenCache
from toolkit.remote.cloud.errors import CloudError, ForeignHostError
from toolkit.remote.cloud.identity import Identity

ROLE = "arn:aws:iam::111122223333:role/team"
OTHER = "arn:aws:iam::111122223333:role/other"
REGISTRY = "111122223333.dkr.ecr.eu-west-1.amazonaws.com"
STS = "sts.eu-west-1.amazonaws.com"


@dataclass(eq=False)
class Token:
    """Something that ends."""

    expires_at: datetime


class Issuing:
    """A clock, and an issuer that can fail."""

    def __init__(self, *, life: timedelta = timedelta(hours=1)) -> None:
        self.time = datetime(2026, 1, 1, tzinfo=UTC)
        self.life = life
        self.asked = 0
        self.error: Exception | None = None

    def now(self) -> datetime:
        return self.time

    def later(self, **passed: float) -> None:
        self.time += timedelta(**passed)

    async def fetch(self) -> Token:
        self.asked += 1
        await asyncio.sleep(0)
        if self.error:
            raise self.error
        return Token(self.time + self.life)


Get = Callable[[], Awaitable[Token]]


def keeping(issuing: Issuing, cache: TokenCache | None = None) -> tuple[TokenCache, Get]:
    made = cache or TokenCache(now=issuing.now)
    return made, lambda: made.get("test", ("key",), issuing.fetch)


async def test_those_who_come_together_ask_once() -> None:
    issuing = Issuing()
    _, get = keeping(issuing)

    tokens = await asyncio.gather(*(get() for _ in range(20)))

    assert issuing.asked == 1
    assert len({id(token) for token in tokens}) == 1


async def test_token_is_renewed_when_most_of_its_life_is_over() -> None:
    issuing = Issuing()
    _, get = keeping(issuing)
    first = await get()
    issuing.later(minutes=47)
    same = await get()
    issuing.later(minutes=2)
    renewed = await get()

    assert first is same
    assert renewed is not first
    assert issuing.asked == 2


async def test_long_life_is_cut() -> None:
    issuing = Issuing(life=timedelta(days=3))
    _, get = keeping(issuing, TokenCache(longest=timedelta(minutes=10), now=issuing.now))

    await get()
    issuing.later(minutes=9)
    await get()

    assert issuing.asked == 2


async def test_refusal_is_told_again_without_asking_but_not_for_long() -> None:
    issuing = Issuing()
    issuing.error = CloudError("refused")
    _, get = keeping(issuing)

    answers = await asyncio.gather(*(get() for _ in range(20)), return_exceptions=True)
    asked = issuing.asked
    issuing.error = None
    issuing.later(seconds=11)
    await get()

    assert asked == 1
    assert {str(answer) for answer in answers} == {"refused"}


async def test_outage_is_told_again_as_an_outage() -> None:
    cache = TokenCache(now=Issuing().now)

    async def fetch() -> Token:
        raise CloudError("out of reach") from TimeoutError()

    asked = (cache.get("test", ("key",), fetch) for _ in range(3))
    answers = await asyncio.gather(*asked, return_exceptions=True)

    causes = [answer.__cause__ for answer in answers if isinstance(answer, CloudError)]
    assert [type(cause) for cause in causes] == [TimeoutError] * 3


async def test_living_token_outlasts_an_issuer_out_of_reach() -> None:
    issuing = Issuing()
    _, get = keeping(issuing)
    first = await get()
    issuing.later(minutes=50)
    issuing.error = CloudError("out of reach")

    assert await get() is first
    issuing.later(minutes=9, seconds=30)
    with pytest.raises(CloudError, match="out of reach"):
        await get()


async def test_refused_token_is_dropped() -> None:
    issuing = Issuing()
    cache, get = keeping(issuing)
    first = await get()
    issuing.later(minutes=1)

    dropped = cache.drop(first)

    assert dropped
    assert await get() is not first
    assert not cache.drop(first)


async def test_new_token_is_not_dropped_for_one_who_is_refused_with_it() -> None:
    issuing = Issuing()
    cache, get = keeping(issuing)
    first = await get()
    issuing.later(seconds=59)

    dropped = cache.drop(first)

    assert not dropped
    assert await get() is first


async def test_whoever_gives_up_waiting_leaves_the_others_unharmed() -> None:
    issuing = Issuing()
    _, get = keeping(issuing)
    tasks = [asyncio.ensure_future(get()) for _ in range(3)]
    await asyncio.sleep(0)

    tasks[0].cancel()
    tokens = await asyncio.gather(*tasks[1:])

    assert tokens[0] is tokens[1]


async def test_least_recently_used_make_room() -> None:
    issuing = Issuing()
    cache = TokenCache(size=2, now=issuing.now)
    before = EVICTIONS._value.get()

    for key in ("a", "b", "a", "c", "a"):
        await cache.get("test", (key,), issuing.fetch)

    assert issuing.asked == 3
    assert EVICTIONS._value.get() - before == 1
    assert ITEMS._value.get() == 2


async def test_size_of_nothing_keeps_nothing() -> None:
    issuing = Issuing()
    _, get = keeping(issuing, TokenCache(size=0, now=issuing.now))

    await get()
    await get()

    assert issuing.asked == 2


def team(clouds: FakeClouds, **given: str) -> Identity:
    role = given.pop("role", ROLE)
    subject = f"system:serviceaccount:{given.get('namespace', 'team')}:app"
    clouds.aws.roles[role] = (ISSUER.url, subject)
    return ISSUER.identity(annotations={"eks.amazonaws.com/role-arn": role}, **given)


async def test_hundred_passes_of_one_account_cost_one_login(
    clouds: FakeClouds, enter: MakeCloud
) -> None:
    cloud, who = enter(), team(clouds)

    await asyncio.gather(*(cloud.registry("aws", REGISTRY, who) for _ in range(100)))

    assert len(clouds.requests) == 2  # STS, ECR


@pytest.mark.parametrize(
    "other",
    [{"namespace": "beta"}, {"uid": "u2"}, {"role": OTHER}],
    ids=lambda given: next(iter(given)),
)
async def test_nobody_gets_the_login_of_another(
    clouds: FakeClouds, enter: MakeCloud, other: dict[str, str]
) -> None:
    cloud, first = enter(), team(clouds)
    mine = await cloud.registry("aws", REGISTRY, first)

    theirs = await cloud.registry("aws", REGISTRY, team(clouds, **other))

    assert theirs is not mine
    assert clouds.asked(STS) == 2


async def test_account_made_anew_without_the_role_is_refused(
    clouds: FakeClouds, enter: MakeCloud
) -> None:
    cloud = enter()
    await cloud.registry("aws", REGISTRY, team(clouds))

    with pytest.raises(CloudError, match="has no annotation"):
        await cloud.registry("aws", REGISTRY, ISSUER.identity(uid="u2"))


async def test_process_and_accounts_share_nothing(clouds: FakeClouds, enter: MakeCloud) -> None:
    clouds.aws.node_role = "node"
    cloud = enter()

    own = await cloud.registry("aws", REGISTRY)
    theirs = await cloud.registry("aws", REGISTRY, team(clouds))

    assert own.password.endswith("role/node")
    assert theirs.password.endswith("role/team")


async def test_cloud_out_of_order_is_left_alone_for_a_moment(
    clouds: FakeClouds, enter: MakeCloud
) -> None:
    clouds.down.add(STS)
    cloud, who = enter(), team(clouds)

    for _ in range(3):
        with pytest.raises(CloudError, match="HTTP 500"):
            await cloud.registry("aws", REGISTRY, who)

    assert clouds.asked(STS) == 1


async def test_unknown_provider_is_named(clouds: FakeClouds, enter: MakeCloud) -> None:
    with pytest.raises(ForeignHostError, match="'gpc' is not one of aws, azure, gcp"):
        await enter().registry("gpc", REGISTRY)

    assert not clouds.requests


async def test_certificate_that_the_operator_does_not_trust_ends_it(
    clouds: FakeClouds, enter: MakeCloud
) -> None:
    cloud = enter()
    stranger = FakeClouds()

    async with stranger.running():
        with pytest.raises(CloudError, match="TLS connection to"):
            await cloud.registry("aws", REGISTRY, team(clouds), proxy=stranger.proxy)

    assert not stranger.requests
