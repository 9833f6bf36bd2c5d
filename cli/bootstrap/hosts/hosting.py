"""Make a repository and its deploy key where they are missing, and return the access to it.

Files are pushed with the token. The cluster fetches with the token only if the user says so; else
it gets a key that may fetch from this one repository.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from cli import progress
from cli.bootstrap import access
from cli.bootstrap.access import Access
from cli.bootstrap.hosts import api as apis
from cli.bootstrap.hosts.api import Api
from cli.bootstrap.hosts.dialect import DeployKey, Dialect, Place
from toolkit.remote.git.auth import GitAuth

USER: Final = "git"
"""Services look at the token alone, and at any name beside it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hosted:
    """What the user says of a hosted repository.

    ``ssh_hostname`` is where the cluster fetches over SSH, ``key_title`` names the deploy key.
    """

    place: Place
    token: str = field(repr=False)
    token_auth: bool
    read_write_key: bool
    key_title: str
    ssh_hostname: str
    known_hosts: bytes
    ca: bytes


async def reach(dialect: Dialect, hosted: Hosted, earlier: Mapping[str, bytes]) -> Access:
    """Return the access to the repository, where ``earlier`` is the Secret's data.

    Raises:
        UsageError: the host's SSH keys are not known, or the owner is of another sort.
        FailedError: the service cannot be reached, or refuses.
    """
    place = hosted.place
    url = f"https://{place.hostname}/{place.full_name}.git"
    login = {"username": USER.encode(), "password": hosted.token.encode()}
    if hosted.ca:
        login[access.CA] = hosted.ca
    push = GitAuth.from_secret(login, scheme="https")
    remedy = f"{dialect.variable} has to be a token that may write to the repository"
    async with apis.connected(
        dialect.title,
        dialect.base(place.hostname),
        hosted.token,
        dialect.headers(hosted.token),
        ca=hosted.ca,
    ) as api:
        if hosted.token_auth:
            await _require_repository(api, dialect, place)
            return Access(push_url=url, push=push, sync_url=url, secret=login, remedy=remedy)
        known = await _known_hosts(api, dialect, hosted, earlier)
        await _require_repository(api, dialect, place)
        private, public = access.deploy_key(earlier)
        key = DeployKey(
            title=hosted.key_title, public=public.decode(), read_only=not hosted.read_write_key
        )
        await _require_key(api, dialect, place, key)
    return Access(
        push_url=url,
        push=push,
        sync_url=f"ssh://{USER}@{hosted.ssh_hostname}/{place.full_name}.git",
        secret={access.IDENTITY: private, access.PUBLIC: public, access.KNOWN_HOSTS: known},
        remedy=remedy,
    )


async def _known_hosts(
    api: Api, dialect: Dialect, hosted: Hosted, earlier: Mapping[str, bytes]
) -> bytes:
    known = hosted.known_hosts
    if not known and hosted.ssh_hostname == hosted.place.hostname:
        known = await dialect.known_hosts(api, hosted.ssh_hostname)
    return access.require_known_hosts(known, earlier, hosted.ssh_hostname)


async def _require_repository(api: Api, dialect: Dialect, place: Place) -> None:
    path, name = dialect.repository(place), place.full_name
    if await api.find(path, doing=f"look for repository {name}") is None:
        await dialect.create(api, place)
        progress.success(f"repository {name} created")


async def _require_key(api: Api, dialect: Dialect, place: Place, key: DeployKey) -> None:
    """Register a key under its title, in place of another one of that title."""
    path, doing = dialect.keys(place), f"register deploy key '{key.title}' of {place.full_name}"
    for item in await api.items(path, doing=doing):
        found = dialect.read(item)
        if found.title != key.title:
            continue
        if _same(found, key):
            return
        await api.send("DELETE", f"{path}/{item.get('id')}", doing=doing)
    await api.send("POST", path, dialect.written(key), doing=doing)
    progress.success(f"deploy key '{key.title}' registered")


def _same(found: DeployKey, wanted: DeployKey) -> bool:
    """Tell whether they are one key with one right; services drop or change its comment."""
    same = found.public.split()[:2] == wanted.public.split()[:2]
    return same and found.read_only == wanted.read_only
