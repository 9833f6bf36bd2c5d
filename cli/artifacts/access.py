"""Credentials of the command line for a registry: ``--creds``, ``--provider``, config.json.

No program is run, so logins in a credential helper (``credsStore``, ``credHelpers``) are not read.
If docker's file names a helper, the error names ``--creds`` as the remedy.
"""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from cli import errors, servers
from cli.artifacts import flags
from toolkit import untrusted
from toolkit.remote import causes
from toolkit.remote.cloud.cache import TokenCache
from toolkit.remote.cloud.cloud import Cloud
from toolkit.remote.errors import AuthError
from toolkit.remote.http.http import Endpoint, Http
from toolkit.remote.oci import dockerconfig
from toolkit.remote.oci.errors import RegistryAuthError
from toolkit.remote.oci.oci import Repository
from toolkit.remote.oci.publisher import Publisher


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """The flags about credentials; ``timeout`` is in seconds."""

    credentials: str = field(default="", repr=False)
    provider: str = flags.PROVIDERS[0]
    insecure: bool = False
    ca: bytes | None = field(default=None, repr=False)
    timeout: float = 300.0

    @classmethod
    def of(cls, said: dict[str, Any]) -> "Access":
        """Take what ``flags.access`` has read."""
        return cls(
            credentials=said["creds"],
            provider=said["provider"],
            insecure=said["insecure"],
            ca=servers.content(said["ca_file"]) or None,
            timeout=said["timeout"],
        )


@asynccontextmanager
async def opened(access: Access, repository: Repository) -> AsyncIterator[Publisher]:
    """Yield the registry of a repository, with credentials.

    Raises:
        UsageError: the flags, or docker's file, are invalid.
        RegistryAuthError: the registry refuses the credentials; the message says which were used.
    """
    async with Http() as http:
        endpoint, tried = await _signed_in(access, repository, http)
        try:
            yield Publisher(http, endpoint, timeout=access.timeout)
        except RegistryAuthError as exc:
            raise errors.CommandError(f"{exc}\n  {_remedy(exc, tried)}") from exc


def _remedy(error: RegistryAuthError, tried: str) -> str:
    """Return what helps: the credentials do not, if no registry was asked for them."""
    if causes.PLAIN in str(error):
        return "permit a registry without TLS with --insecure-registry"
    if causes.UNTRUSTED in str(error):
        return "name the authority of its certificate with --ca-file"
    return tried


async def _signed_in(access: Access, repository: Repository, http: Http) -> tuple[Endpoint, str]:
    """Return the credentials, and a hint for the error if they are refused."""
    endpoint = Endpoint(plain_http=access.insecure, ca=access.ca)
    if access.provider != flags.PROVIDERS[0]:
        if access.insecure:
            raise errors.UsageError(
                f"--insecure-registry: the credentials of --provider {access.provider} are not "
                "sent without TLS"
            )
        cloud = Cloud(http, cache=TokenCache())
        login = await cloud.registry(access.provider, repository.host)
        signed = replace(endpoint, username=login.username, password=login.password)
        return signed, f"it was tried with the login of --provider {access.provider}"
    if access.credentials:
        name, _, password = access.credentials.partition(":")
        if not name:
            raise errors.UsageError("--creds must be USER[:PASSWORD]")
        return replace(endpoint, username=name, password=password), "it was tried with --creds"
    return _from_docker(endpoint, repository)


def _from_docker(endpoint: Endpoint, repository: Repository) -> tuple[Endpoint, str]:
    file = _docker_file()
    if not file.is_file():
        return endpoint, f"sign in with --creds or `docker login`: there is no {file}"
    raw = servers.content(file)
    try:
        login = dockerconfig.login([{dockerconfig.CONFIG_JSON: raw}], repository)
    except AuthError as exc:
        if _helped(raw, repository):
            return endpoint, _helper(file)
        raise errors.UsageError(f"{file}: {exc}") from exc
    if login is not None:
        return login.on(endpoint), f"it was tried with the login in {file}"
    if _helped(raw, repository):
        return endpoint, _helper(file)
    return endpoint, f"sign in with --creds or `docker login`: {file} has no login for it"


_MAX_CONFIG: Final = 1 << 20


def _docker_file() -> Path:
    home = os.environ.get("DOCKER_CONFIG") or Path.home() / ".docker"
    return Path(home) / "config.json"


def _helped(raw: bytes, repository: Repository) -> bool:
    """Tell whether docker keeps the login of this registry in a credential helper."""
    config = untrusted.load_json(raw, dict[str, object], size=_MAX_CONFIG)
    helpers = config.get("credHelpers")
    named = isinstance(helpers, dict) and repository.registry in helpers
    return named or bool(config.get("credsStore"))


def _helper(file: Path) -> str:
    return (
        f"{file} leaves this login to a credential helper, which is not run: give --creds, or a "
        "file with the login itself in the directory that DOCKER_CONFIG names"
    )
