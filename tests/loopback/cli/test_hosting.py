"""Repositories and deploy keys at hosting services, and commits that are pushed to them."""

import ssl
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import asyncssh
import pytest

from cli.bootstrap import committing
from cli.bootstrap.committing import Signature
from cli.bootstrap.hosts import DIALECTS, hosting
from cli.bootstrap.hosts.dialect import Place, Team
from cli.bootstrap.hosts.hosting import Hosted
from cli.errors import FailedError, UsageError
from tests.fakes.hosting import SSH_KEY, Hosting
from toolkit.remote.git.git import Author, NewFile

TOKEN = "token-s3cret"
TITLE = "penstock-system-main-./clusters/prod"
HOSTS = b"localhost ssh-ed25519 AAAA\n"


@pytest.fixture(params=["github", "gitlab", "gitea", "bitbucket-server"])
async def service(
    request: pytest.FixtureRequest, tmp_path: Path, server_tls: ssl.SSLContext
) -> AsyncIterator[Hosting]:
    async with Hosting(tmp_path / "hosting", request.param, tls=server_tls, token=TOKEN) as running:
        yield running


@pytest.fixture
def hosted(service: Hosting, ca: bytes) -> Hosted:
    place = Place(hostname=service.hostname, owner="acme", name="fleet", personal=False)
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


def own(service: Hosting, name: str = "fleet") -> str:
    """Return the name of a repository of the token's user."""
    return f"~ada/{name}" if service.kind == "bitbucket-server" else f"ada/{name}"


def address(service: Hosting, full_name: str) -> str:
    """Return where a repository is, below the schemes."""
    below = "scm/" if service.kind == "bitbucket-server" else ""
    return f"{service.hostname}/{below}{full_name}.git"


def titles(service: Hosting, rows: list[Any]) -> list[str]:
    return [DIALECTS[service.kind].read(row).title for row in rows]


def text(service: Hosting, row: Any) -> str:
    return DIALECTS[service.kind].read(row).public


def may_push(service: Hosting, row: dict[str, Any]) -> bool:
    if service.kind == "bitbucket-server":
        return bool(row["permission"] == "REPO_WRITE")
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
    assert titles(service, made.keys) == [TITLE]
    assert not may_push(service, made.keys[0])
    assert first.secret["identity.pub"].decode().split()[:2] == text(service, made.keys[0]).split()
    assert first.secret["known_hosts"] == HOSTS
    host = service.hostname
    if service.kind == "bitbucket-server":  # whose SSH server has a port of its own
        host = "localhost:7999"
    assert first.sync_url == f"ssh://git@{host}/acme/fleet.git"
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
    assert access.sync_url == f"https://{address(service, own(service))}"
    assert not service.repositories[own(service)].keys


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
    assert titles(service, keys) == [*(f"of somebody {n}" for n in range(4)), TITLE]
    assert text(service, keys[-1]) == " ".join(first.secret["identity.pub"].decode().split()[:2])
    assert may_push(service, keys[-1])


async def test_a_repository_can_be_public_and_of_a_user(service: Hosting, hosted: Hosted) -> None:
    chosen = personal(hosted)
    chosen = replace(chosen, place=replace(chosen.place, visibility="public"))

    await hosting.reach(DIALECTS[service.kind], chosen, {})

    assert not service.repositories[own(service)].private


async def test_an_owner_of_another_sort_is_refused(service: Hosting, hosted: Hosted) -> None:
    if service.kind == "bitbucket-server":
        with pytest.raises(FailedError, match="does not exist"):
            await hosting.reach(DIALECTS[service.kind], personal(hosted, owner="acme"), {})
        return
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

    told = r"cannot create .* HTTP 404.* or the token may not see|no project of that key or name"

    with pytest.raises((FailedError, UsageError), match=told):
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
    if service.kind == "bitbucket-server":  # whose pages name no addresses
        await hosting.reach(DIALECTS[service.kind], hosted, {})
        assert len(service.repositories["acme/fleet"].keys) == 5
        return

    with pytest.raises(FailedError, match="redirects to another server"):
        await hosting.reach(DIALECTS[service.kind], hosted, {})


TEAMS = {
    "github": (("builders", "maintain"), ("builders", "push"), "builders"),
    "gitlab": (("acme/runners", 40), ("acme/runners", 30), "12"),
    "gitea": (("builders", ""), ("builders", ""), "builders"),
    "bitbucket-server": (("builders", "REPO_WRITE"), ("builders", "REPO_READ"), "builders"),
}
ACCESSES = {"github": "push", "gitlab": "developer", "gitea": "", "bitbucket-server": "read"}


async def test_a_team_has_access_once_and_with_another_right_anew(
    service: Hosting, hosted: Hosted
) -> None:
    dialect, (first, second, key) = DIALECTS[service.kind], TEAMS[service.kind]
    chosen = replace(hosted, token_auth=True, teams=(Team(name=first[0]),))

    await hosting.reach(dialect, chosen, {})
    teams = service.repositories["acme/fleet"].teams
    assert teams == {key: first[1]}
    service.seen.clear()
    await hosting.reach(dialect, chosen, {})
    assert {seen.method for seen in service.seen} == {"GET"}
    other = Team(name=first[0], access=ACCESSES[service.kind])
    await hosting.reach(dialect, replace(chosen, teams=(other,)), {})

    assert teams == {key: second[1]}


async def test_an_access_that_does_not_exist_is_refused(service: Hosting, hosted: Hosted) -> None:
    chosen = replace(hosted, teams=(Team(name="builders", access="everything"),))

    with pytest.raises(UsageError, match=r"builders.*everything"):
        await hosting.reach(DIALECTS[service.kind], chosen, {})


async def test_a_repository_that_exists_keeps_its_visibility_unless_it_is_reconciled(
    service: Hosting, hosted: Hosted
) -> None:
    made = service.make("acme/fleet", private=False)
    made.visibility = "public"
    chosen, dialect = replace(hosted, token_auth=True), DIALECTS[service.kind]

    await hosting.reach(dialect, chosen, {})
    before = made.private
    await hosting.reach(dialect, replace(chosen, reconcile=True), {})
    service.seen.clear()
    await hosting.reach(dialect, replace(chosen, reconcile=True), {})

    assert (before, made.private) == (False, True)
    assert {seen.method for seen in service.seen} == {"GET"}


async def test_a_deploy_token_is_made_once_and_replaced_where_it_is_lost(
    service: Hosting, hosted: Hosted
) -> None:
    chosen, dialect = replace(hosted, deploy_token=True, known_hosts=b""), DIALECTS[service.kind]
    if service.kind != "gitlab":
        with pytest.raises(UsageError, match="has no deploy tokens: use --token-auth"):
            await hosting.reach(dialect, chosen, {})
        return

    first = await hosting.reach(dialect, chosen, {})
    again = await hosting.reach(dialect, chosen, first.secret)
    tokens = service.repositories["acme/fleet"].tokens
    assert first == again
    assert [(row["name"], row["scopes"]) for row in tokens] == [(TITLE, ["read_repository"])]
    assert TOKEN.encode() not in first.secret.values()
    anew = await hosting.reach(dialect, chosen, {})

    assert len(tokens) == 1
    assert anew.secret["password"] != first.secret["password"]
    assert anew.sync_url == f"https://{service.hostname}/acme/fleet.git"


async def test_internal_is_not_public_where_a_service_does_not_know_it(
    service: Hosting, hosted: Hosted
) -> None:
    place = replace(hosted.place, visibility="internal")

    await hosting.reach(DIALECTS[service.kind], replace(hosted, place=place), {})

    made = service.repositories["acme/fleet"]
    assert made.private
    assert made.visibility == ("internal" if service.kind == "gitlab" else "")


async def test_a_key_of_a_file_is_the_deploy_key(
    service: Hosting, hosted: Hosted, tmp_path: Path
) -> None:
    key = asyncssh.generate_private_key("ecdsa-sha2-nistp384")
    file = tmp_path / "key"
    file.write_bytes(key.export_private_key())
    chosen = replace(hosted, key={"private_key_file": file})
    earlier = {"identity": b"old", "identity.pub": b"ssh-ed25519 AAAAold"}

    access = await hosting.reach(DIALECTS[service.kind], chosen, earlier)

    assert access.secret["identity"] == file.read_bytes()
    (row,) = service.repositories["acme/fleet"].keys
    assert text(service, row).split() == key.export_public_key().decode().split()[:2]


async def test_a_service_without_our_trust_is_not_told_the_token(
    service: Hosting, hosted: Hosted
) -> None:
    with pytest.raises(FailedError, match=r"cannot reach the .* API"):
        await hosting.reach(DIALECTS[service.kind], replace(hosted, ca=b""), {})

    assert not service.seen
