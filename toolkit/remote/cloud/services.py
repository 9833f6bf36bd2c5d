"""What every provider works with: the web, the tokens that are kept, the process's environment."""

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
"""How long a credential is taken to live whose issuer does not say."""

_MAX_FILE: Final = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """Handed to each provider; ``environment`` is where the operator says who this process is."""

    web: Web
    cache: TokenCache
    environment: Mapping[str, str]
    now: Callable[[], datetime]

    def variable(self, *names: str) -> str:
        """Return the first of these environment variables that is set, else nothing."""
        return next((self.environment[name] for name in names if self.environment.get(name)), "")

    async def file(self, path: str, *, named_by: str) -> str:
        """Return the text of a file that the platform mounts and renews.

        Raises:
            CloudError: it cannot be read; ``named_by`` is the variable to look at.
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
