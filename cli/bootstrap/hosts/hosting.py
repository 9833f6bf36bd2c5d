"""Create a missing repository and its deploy key, and return the access to it.

Files are pushed with the token. The cluster fetches with the token only if the user says so;
otherwise it gets a key that may fetch from this one repository.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from cli import errors, progress
from cli.bootstrap import access
from cli.bootstrap.access import Access
from cli.bootstrap.hosts import api as apis
from cli.bootstrap.hosts.api import Api
from cli.bootstrap.hosts.dialect import USER, DeployKey, Dialect, Place, Team
from toolkit.remote.git.auth import GitAuth


@dataclass(frozen=True, slots=True, kw_only=True)
class Hosted:
    """The options for a hosted repository.

    ``ssh_hostname`` is the host from which the cluster fetches over SSH, ``key_title`` is the title
    of the deploy key. With ``deploy_token`` the cluster fetches over HTTPS, with a token of that
    title. ``teams`` get access. ``key`` are the arguments of ``keypairs.pair``.
    """

    place: Place
    token: str = field(repr=False)
    token_auth: bool
    read_write_key: bool
    key_title: str
    ssh_hostname: str
    known_hosts: bytes
    ca: bytes
    deploy_token: bool = False
    username: str = USER
    teams: tuple[Team, ...] = ()
    reconcile: bool = False
    key: Mapping[str, Any] = field(default_factory=dict, repr=False)


async def reach(dialect: Dialect, hosted: Hosted, earlier: Mapping[str, bytes]) -> Access:
    """Return the access to the repository; ``earlier`` is the data of the Secret.

    Raises:
        UsageError: the host's SSH keys are unknown, or the owner is of the other type.
        FailedError: the service cannot be reached, or refuses.
    """
    remedy = f"{dialect.variable} has to be a token that may write to the repository"
    async with apis.connected(
        dialect.title,
        dialect.base(hosted.place.hostname),
        hosted.token,
        dialect.headers(hosted.token),
        ca=hosted.ca,
    ) as api:
        https = not hosted.token_auth and not hosted.deploy_token
        known = await _known_hosts(api, dialect, hosted, earlier) if https else b""
        place = await dialect.resolve(api, hosted.place)
        await _require_repository(api, dialect, hosted, place)
        url = f"https://{dialect.https(place)}"
        login = _login(hosted.username, hosted.token, hosted.ca)
        push = GitAuth.from_secret(login, scheme="https")
        if hosted.token_auth:
            return Access(push_url=url, push=push, sync_url=url, secret=login, remedy=remedy)
        if hosted.deploy_token:
            secret = await _deploy_token(api, dialect, hosted, place, earlier)
            return Access(push_url=url, push=push, sync_url=url, secret=secret, remedy=remedy)
        private, public = access.deploy_key(earlier, hosted.key)
        key = DeployKey(
            title=hosted.key_title, public=public.decode(), read_only=not hosted.read_write_key
        )
        await _require_key(api, dialect, place, key)
    return Access(
        push_url=url,
        push=push,
        sync_url=f"ssh://{USER}@{dialect.ssh(place, hosted.ssh_hostname)}",
        secret={access.IDENTITY: private, access.PUBLIC: public, access.KNOWN_HOSTS: known},
        remedy=remedy,
    )


def _login(user: str, token: str, ca: bytes) -> dict[str, bytes]:
    found = {"username": user.encode(), "password": token.encode(), access.CA: ca}
    return {name: value for name, value in found.items() if value}


async def _deploy_token(
    api: Api, dialect: Dialect, hosted: Hosted, place: Place, earlier: Mapping[str, bytes]
) -> Mapping[str, bytes]:
    """Return the Secret with a token that may fetch; that of an earlier run, if it still may."""
    if dialect.deploy_token is None:
        raise errors.UsageError(f"{dialect.title} has no deploy tokens: use --token-auth")
    user = earlier.get("username", b"").decode(errors="replace")
    known = user if earlier.get("password") else ""
    made = await dialect.deploy_token(api, place, hosted.key_title, known)
    if made is None:
        return _login(user, earlier["password"].decode(errors="replace"), hosted.ca)
    progress.success(f"deploy token '{hosted.key_title}' made")
    return _login(*made, hosted.ca)


async def _known_hosts(
    api: Api, dialect: Dialect, hosted: Hosted, earlier: Mapping[str, bytes]
) -> bytes:
    known = hosted.known_hosts
    if not known and hosted.ssh_hostname == hosted.place.hostname:
        known = await dialect.known_hosts(api, hosted.ssh_hostname)
    return access.require_known_hosts(known, earlier, hosted.ssh_hostname)


async def _require_repository(api: Api, dialect: Dialect, hosted: Hosted, place: Place) -> None:
    """Create a missing repository; reconcile an existing one if the user says so."""
    path, name = dialect.repository(place), place.full_name
    found = await api.find(path, doing=f"look for repository {name}")
    if found is None:
        await dialect.create(api, place)
        progress.success(f"repository {name} created")
    elif hosted.reconcile and await dialect.reconcile(api, place, found):
        progress.success(f"repository {name} is {place.visibility} now")
    for team in hosted.teams:
        if await dialect.share(api, place, team):
            progress.success(f"{team.name} has access to {name}")


async def _require_key(api: Api, dialect: Dialect, place: Place, key: DeployKey) -> None:
    """Register a key under its title, in place of another one of that title."""
    path, doing = dialect.keys(place), f"register deploy key '{key.title}' of {place.full_name}"
    for item in await api.items(path, doing=doing):
        found = dialect.read(item)
        if found.title != key.title:
            continue
        if _same(found, key):
            return
        await api.send("DELETE", f"{path}/{dialect.key_number(item)}", doing=doing)
    await api.send("POST", path, dialect.written(key), doing=doing)
    progress.success(f"deploy key '{key.title}' registered")


def _same(found: DeployKey, wanted: DeployKey) -> bool:
    """Tell whether they are one key with one right; services drop or change its comment."""
    same = found.public.split()[:2] == wanted.public.split()[:2]
    return same and found.read_only == wanted.read_only
