"""Repositories and deploy keys at hosting services, and commits that are pushed to them."""

import ssl
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from cli.bootstrap import committing
from cli.bootstrap.committing import Signature
from cli.bootstrap.hosts import DIALECTS, hosting
from cli.bootstrap.hosts.dialect import Place
from cli.bootstrap.hosts.hosting import Hosted
from cli.errors import FailedError, UsageError
from tests.fakes.hosting import SSH_KEY, Hosting
from toolkit.remote.git.git import Author, NewFile

TOKEN = "token-s3cret"
TITLE = "penstock-system-main-./clusters/prod"
HOSTS = b"localhost ssh-ed25519 AAAA\n"


@pytest.fixture(params=["github", "gitlab", "gitea"])
async def service(
    request: pytest.FixtureRequest, tmp_path: Path, server_tls: ssl.SSLContext
) -> AsyncIterator[Hosting]:
    async with Hosting(tmp_path / "hosting", request.param, tls=server_tls, token=TOKEN) as running:
        yield running


@pytest.fixture
def hosted(service: Hosting, ca: bytes) -> Hosted:
    place = Place(
        hostname=service.hostname, owner="acme", name="fleet", personal=False, private=True
    )
    return Hosted(
        place=place,
        token=TOKEN,
        token_auth=False,
        read_write_key=False,
        key_title=TITLE,
        ssh_hostname=service.hostname,
        known_hosts=HOSTS,
        ca=ca,
    )


def personal(hosted: Hosted, owner: str = "ada") -> Hosted:
    return replace(hosted, place=replace(hosted.place, owner=owner, personal=True))


def may_push(service: Hosting, row: dict[str, object]) -> bool:
    return bool(row["can_push"]) if service.kind == "gitlab" else not row["read_only"]


async def test_a_repository_and_its_key_are_made_once(service: Hosting, hosted: Hosted) -> None:
    dialect = DIALECTS[service.kind]

    first = await hosting.reach(dialect, hosted, {})
    service.seen.clear()
    again = await hosting.reach(dialect, hosted, first.secret)

    assert again == first
    assert {seen.method for seen in service.seen} == {"GET"}
    made = service.repositories["acme/fleet"]
    assert made.private
    assert [row["title"] for row in made.keys] == [TITLE]
    assert not may_push(service, made.keys[0])
    assert first.secret["identity.pub"].decode().split()[:2] == made.keys[0]["key"].split()
    assert first.secret["known_hosts"] == HOSTS
    assert first.sync_url == f"ssh://git@{service.hostname}/acme/fleet.git"
    assert TOKEN.encode() not in b"".join(first.secret.values())
    assert TOKEN not in repr((hosted, first))


async def test_what_was_made_can_be_pushed_to_with_the_token(
    service: Hosting, hosted: Hosted
) -> None:
    access = await hosting.reach(DIALECTS[service.kind], hosted, {})
    signature = Signature(author=Author(name="Ada", email="ada@example.com"), appendix="[skip ci]")
    files = [NewFile(path="a/b.yaml", content=b"b: 1\n")]

    done = await committing.commit(access, "main", files, subject="Add b", signature=signature)

    repository = service.made["acme/fleet"]
    assert repository.revision("main") == done.commit
    said = repository.git("log", "-1", "--format=%B", "main").decode()
    assert said.strip() == "Add b\n\n[skip ci]"


async def test_a_token_that_may_not_push_is_told_with_the_remedy(
    service: Hosting, hosted: Hosted
) -> None:
    dialect = DIALECTS[service.kind]
    access = await hosting.reach(dialect, hosted, {})
    service.made["acme/fleet"].git("config", "http.receivepack", "false")
    signature = Signature(author=Author(name="Ada", email="ada@example.com"))

    with pytest.raises(FailedError, match=f"HTTP 403.*\n  {dialect.variable} has to be") as error:
        await committing.commit(
            access, "main", [NewFile(path="a", content=b"")], subject="a", signature=signature
        )

    assert TOKEN not in str(error.value)


async def test_with_token_auth_the_cluster_has_the_token_and_no_key(
    service: Hosting, hosted: Hosted, ca: bytes
) -> None:
    chosen = replace(personal(hosted), token_auth=True, known_hosts=b"")

    access = await hosting.reach(DIALECTS[service.kind], chosen, {})

    assert access.secret == {"username": b"git", "password": TOKEN.encode(), "ca.crt": ca}
    assert access.sync_url == f"https://{service.hostname}/ada/fleet.git"
    assert not service.repositories["ada/fleet"].keys


async def test_a_key_is_replaced_where_it_or_its_right_has_changed(
    service: Hosting, hosted: Hosted
) -> None:
    service.make("acme/fleet")
    for number in range(4):
        service.add_key("acme/fleet", f"of somebody {number}", f"ssh-ed25519 AAAAother{number}")
    service.add_key("acme/fleet", TITLE, "ssh-ed25519 AAAAold")
    dialect, keys = DIALECTS[service.kind], service.repositories["acme/fleet"].keys

    first = await hosting.reach(dialect, hosted, {})
    again = await hosting.reach(dialect, replace(hosted, read_write_key=True), first.secret)

    assert first.secret == again.secret
    assert [row["title"] for row in keys] == [*(f"of somebody {n}" for n in range(4)), TITLE]
    assert keys[-1]["key"] == " ".join(first.secret["identity.pub"].decode().split()[:2])
    assert may_push(service, keys[-1])


async def test_a_repository_can_be_public_and_of_a_user(service: Hosting, hosted: Hosted) -> None:
    chosen = personal(hosted)
    chosen = replace(chosen, place=replace(chosen.place, private=False))

    await hosting.reach(DIALECTS[service.kind], chosen, {})

    assert not service.repositories["ada/fleet"].private


async def test_an_owner_of_another_sort_is_refused(service: Hosting, hosted: Hosted) -> None:
    with pytest.raises(UsageError, match="--personal"):
        await hosting.reach(DIALECTS[service.kind], personal(hosted, owner="acme"), {})

    assert not service.repositories


async def test_hosts_keys_that_nobody_has_named_are_asked_for_before_anything_is_made(
    service: Hosting, hosted: Hosted
) -> None:
    chosen = replace(hosted, known_hosts=b"")
    if service.kind == "github":
        published = await hosting.reach(DIALECTS[service.kind], chosen, {})
        assert published.secret["known_hosts"].decode() == f"{service.hostname} {SSH_KEY}\n"
        service.repositories.clear()
        chosen = replace(chosen, ssh_hostname="ssh.example.com")

    with pytest.raises(UsageError, match="--known-hosts-file"):
        await hosting.reach(DIALECTS[service.kind], chosen, {})

    assert not service.repositories


async def test_a_token_that_is_not_accepted_is_told_and_not_shown(
    service: Hosting, hosted: Hosted
) -> None:
    with pytest.raises(FailedError, match=r"HTTP 401.*the token is wrong or has expired") as error:
        await hosting.reach(DIALECTS[service.kind], replace(hosted, token="wr0ng-token"), {})

    assert "wr0ng-token" not in str(error.value)
    assert DIALECTS[service.kind].title in str(error.value)


async def test_an_owner_that_does_not_exist_is_told(service: Hosting, hosted: Hosted) -> None:
    chosen = replace(hosted, place=replace(hosted.place, owner="nobody"))

    with pytest.raises(FailedError, match=r"cannot create .* HTTP 404.* or the token may not see"):
        await hosting.reach(DIALECTS[service.kind], chosen, {})


async def test_a_key_that_another_title_has_is_told_in_the_services_words(
    service: Hosting, hosted: Hosted
) -> None:
    dialect = DIALECTS[service.kind]
    first = await hosting.reach(dialect, hosted, {})
    chosen = replace(hosted, key_title="another")

    with pytest.raises(
        FailedError, match=r"deploy key 'another'.*already (in use|been taken|been added)"
    ):
        await hosting.reach(dialect, chosen, first.secret)


async def test_a_token_never_follows_to_another_server(service: Hosting, hosted: Hosted) -> None:
    service.make("acme/fleet")
    for number in range(4):
        service.add_key("acme/fleet", str(number), f"ssh-ed25519 AAAA{number}")
    service.elsewhere = "https://attacker.example.com"

    with pytest.raises(FailedError, match="redirects to another server"):
        await hosting.reach(DIALECTS[service.kind], hosted, {})


async def test_a_service_without_our_trust_is_not_told_the_token(
    service: Hosting, hosted: Hosted
) -> None:
    with pytest.raises(FailedError, match=r"cannot reach the .* API"):
        await hosting.reach(DIALECTS[service.kind], replace(hosted, ca=b""), {})

    assert not service.seen
