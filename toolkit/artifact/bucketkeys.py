"""The credentials of this process for the operator's bucket of artifacts.

The first one of these is used: a mounted Secret, keys in the environment, the identity of the Pod
at its cloud provider. Files that the kubelet updates are read again. Nothing is logged.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Final, TypeAlias

from toolkit.errors import StalledError
from toolkit.remote.cloud.identity import Bearer, SessionKeys
from toolkit.remote.objectstore import secret as objectstoresecret
from toolkit.remote.objectstore.objectstore import (
    AzureKey,
    AzureSas,
    BearerToken,
    Credentials,
    CredentialsError,
    GcsServiceAccount,
    Provided,
    S3Keys,
)
from toolkit.remote.objectstore.place import Direct, Provider

logger = logging.getLogger(__name__)

REASON: Final = "StorageOperationFailed"

Lend: TypeAlias = Callable[[], Awaitable[SessionKeys | Bearer]]
"""Returns credentials from the cloud provider, which caches them."""


def credentials(
    provider: Provider,
    *,
    directory: Path | None,
    environment: Mapping[str, str],
    lend: Lend | None,
    now: Callable[[], float] = time.monotonic,
) -> Credentials:
    """Return credentials; blocks to read files.

    Raises:
        StalledError: there are none, or they are incomplete.
    """
    if directory:
        return _mounted(provider, directory, now)
    if found := _from_environment(provider, environment):
        return found
    if lend is None:
        raise StalledError(
            "--storage-backend: there are no credentials; mount a Secret and name its directory "
            "as 'credentials'",
            reason=REASON,
        )
    return Provided(get=_Lent(lend).get)


def file(path: Path, *, named_by: str) -> bytes:
    """Return the content of a file that the operator named.

    Raises:
        StalledError: it cannot be read.
    """
    try:
        with path.open("rb") as opened:
            return opened.read(_LARGEST_FILE)
    except OSError as exc:
        raise StalledError(
            f"--storage-backend: cannot read '{path}', which '{named_by}' names: {exc.strerror}",
            reason=REASON,
        ) from exc


_LARGEST_FILE: Final = 1 << 20
_RENEW_SECONDS: Final = 60.0


class _Lent:
    """Credentials of a cloud provider in the form for the store."""

    def __init__(self, lend: Lend) -> None:
        self._lend = lend

    async def get(self) -> Direct:
        lent = await self._lend()
        if isinstance(lent, Bearer):
            return BearerToken(token=lent.token)
        return S3Keys(
            access_key=lent.access_key,
            secret_key=lent.secret_key,
            session_token=lent.session_token,
        )


class _Mounted:
    """Keys in a directory, read again every minute; half-written keys are ignored."""

    def __init__(
        self, provider: Provider, directory: Path, first: Direct, now: Callable[[], float]
    ) -> None:
        self._now = now
        self._provider = provider
        self._directory = directory
        self._current = first
        self._read_at = self._now()

    async def get(self) -> Direct:
        if self._now() - self._read_at >= _RENEW_SECONDS:
            self._read_at = self._now()
            try:
                found = await asyncio.to_thread(_read, self._provider, self._directory)
            except StalledError as error:
                logger.warning("credentials not read again", extra={"error": str(error)})
            else:
                if isinstance(found, S3Keys | AzureKey | AzureSas):
                    self._current = found
        return self._current


def _mounted(provider: Provider, directory: Path, now: Callable[[], float]) -> Credentials:
    first = _read(provider, directory)
    if isinstance(first, S3Keys | AzureKey | AzureSas):
        return Provided(get=_Mounted(provider, directory, first, now).get)
    return first


def _read(provider: Provider, directory: Path) -> Credentials:
    try:
        names = sorted(path for path in directory.iterdir() if not path.name.startswith("."))
    except OSError as exc:
        raise StalledError(
            f"--storage-backend: cannot read the directory '{directory}', which 'credentials' "
            f"names: {exc.strerror}",
            reason=REASON,
        ) from exc
    data = {path.name: file(path, named_by="credentials") for path in names if path.is_file()}
    try:
        return objectstoresecret.credentials(provider, data)
    except CredentialsError as exc:
        raise StalledError(f"--storage-backend: {exc} (in '{directory}')", reason=REASON) from exc


def _from_environment(provider: Provider, environment: Mapping[str, str]) -> Credentials | None:
    match provider:
        case "generic" | "aws":
            access = environment.get("AWS_ACCESS_KEY_ID", "")
            secret = environment.get("AWS_SECRET_ACCESS_KEY", "")
            token = environment.get("AWS_SESSION_TOKEN", "")
            keys = S3Keys(access_key=access, secret_key=secret, session_token=token)
            return keys if access and secret else None
        case "gcp":
            return _google(environment)
        case "azure":
            if key := environment.get("AZURE_STORAGE_KEY", ""):
                return AzureKey(key=key)
            sas = environment.get("AZURE_STORAGE_SAS_TOKEN", "")
            return AzureSas(token=sas) if sas else None


def _google(environment: Mapping[str, str]) -> GcsServiceAccount | None:
    """Take a service account's key; other kinds of file there are the cloud's to read."""
    path = environment.get("GOOGLE_APPLICATION_CREDENTIALS", "")
    key = file(Path(path), named_by="GOOGLE_APPLICATION_CREDENTIALS") if path else b""
    return GcsServiceAccount(key=key) if b'"service_account"' in key else None
