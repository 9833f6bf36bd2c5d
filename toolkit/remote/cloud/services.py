"""Services shared by all providers: HTTP, the cache of tokens, and the environment."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from toolkit.remote.cloud.cache import TokenCache
from toolkit.remote.cloud.errors import CloudError
from toolkit.remote.cloud.web import Web

UNKNOWN_LIFE: Final = timedelta(hours=1)
"""The assumed life of a credential whose issuer does not state it."""

_MAX_FILE: Final = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """The services of a provider; ``environment`` determines the identity of this process."""

    web: Web
    cache: TokenCache
    environment: Mapping[str, str]
    now: Callable[[], datetime]

    def variable(self, *names: str) -> str:
        """Return the first of these environment variables that is set, or empty."""
        return next((self.environment[name] for name in names if self.environment.get(name)), "")

    async def file(self, path: str, *, named_by: str) -> str:
        """Return the text of a file that the platform mounts and updates.

        Raises:
            CloudError: the file cannot be read; the message names the variable ``named_by``.
        """

        def load() -> str:
            with Path(path).open("rb") as file:
                return file.read(_MAX_FILE).decode("utf-8", "replace").strip()

        try:
            return await asyncio.to_thread(load)
        except OSError as exc:
            raise CloudError(
                f"cannot read '{path}', which {named_by} names: {exc.strerror}"
            ) from exc


def moment(text: str, *, purpose: str) -> datetime:
    """Read a time of RFC 3339.

    Raises:
        CloudError: the text is not such a time.
    """
    try:
        found = datetime.fromisoformat(text)
    except ValueError as exc:
        raise CloudError(f"{purpose}: the answer's time of expiry cannot be read") from exc
    return found if found.tzinfo else found.replace(tzinfo=UTC)
