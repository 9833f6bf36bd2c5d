"""The trusted root of Sigstore's public instance, refreshed by TUF and usable without a network.

The fallback without a network is the root in the ``sigstore`` package; TUF ensures that a fetched
root follows from it. Nothing is read or fetched before the first use.
"""

import asyncio
import importlib.resources
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from toolkit.artifact import scratch
from toolkit.verify.cosign import trustedroot
from toolkit.verify.cosign.trustedroot import TrustedRoot
from toolkit.verify.signature import VerificationError

URL: Final = "https://tuf-repo-cdn.sigstore.dev"
TARGET: Final = "trusted_root.json"
FRESH_SECONDS: Final = 24 * 3600.0
RETRY_SECONDS: Final = 600.0
REFRESH_SECONDS: Final = 15.0

_SOCKET_SECONDS: Final = 5
_EMBEDDED: Final = "https%3A%2F%2Ftuf-repo-cdn.sigstore.dev"

logger = logging.getLogger(__name__)


class PublicRoot:
    """Hands out the public root; ``cache`` is a writable directory, or a temporary one is used.

    With ``offline`` it never touches the network.
    """

    def __init__(
        self,
        *,
        cache: Path | None = None,
        offline: bool = False,
        fetch: Callable[[Path], bytes] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._cache = cache
        self._fetch = None if offline else fetch or fetch_root
        self._clock = clock
        self._turn = asyncio.Lock()
        self._current: _Current | None = None

    async def get(self) -> TrustedRoot:
        """Return the newest root that is available now."""
        async with self._turn:
            if self._current is None or self._current.until <= self._clock():
                self._current = await self._renew(self._current)
            return self._current.root

    async def _renew(self, current: "_Current | None") -> "_Current":
        if self._fetch is not None:
            try:
                async with asyncio.timeout(REFRESH_SECONDS):
                    data = await asyncio.to_thread(self._refresh, self._fetch)
                return _Current(trustedroot.read(data), self._clock() + FRESH_SECONDS)
            except (TimeoutError, OSError, PublicRootError, VerificationError) as exc:
                logger.warning(
                    "sigstore's public root cannot be refreshed; the last known one is used",
                    extra={"error": str(exc)},
                )
        root = current.root if current else trustedroot.read(await asyncio.to_thread(embedded))
        return _Current(root, self._clock() + RETRY_SECONDS)

    def _refresh(self, fetch: Callable[[Path], bytes]) -> bytes:
        if self._cache is None:
            with scratch.claimed() as directory:
                return fetch(directory)
        self._cache.mkdir(parents=True, exist_ok=True)
        return fetch(self._cache)


class PublicRootError(Exception):
    """The public root could not be fetched or was not signed as it must be."""


def embedded(name: str = TARGET) -> bytes:
    """Return a file of the ``sigstore`` package."""
    # The package itself is heavy and not loaded for this.
    return importlib.resources.files("sigstore._store").joinpath(_EMBEDDED, name).read_bytes()


def fetch_root(directory: Path, *, url: str = URL) -> bytes:
    """Fetch the root by TUF into a directory and return it; blocks.

    Raises:
        PublicRootError: the server cannot be reached, or the root is not signed correctly.
    """
    # Imported here because it is heavy and needed by few.
    from tuf.api.exceptions import DownloadError, RepositoryError  # noqa: PLC0415
    from tuf.ngclient.updater import Updater  # noqa: PLC0415
    from tuf.ngclient.urllib3_fetcher import Urllib3Fetcher  # noqa: PLC0415

    try:
        updater = Updater(
            metadata_dir=str(directory),
            metadata_base_url=url,
            target_base_url=f"{url}/targets/",
            target_dir=str(directory),
            fetcher=Urllib3Fetcher(socket_timeout=_SOCKET_SECONDS, app_user_agent="penstock"),
            bootstrap=embedded("root.json"),
        )
        updater.refresh()
        target = updater.get_targetinfo(TARGET)
        if target is None:
            raise PublicRootError(f"the repository has no {TARGET}")
        path = updater.find_cached_target(target) or updater.download_target(target)
        return Path(path).read_bytes()
    except (DownloadError, RepositoryError, ValueError) as exc:
        raise PublicRootError(str(exc)) from exc


@dataclass(frozen=True, slots=True)
class _Current:
    root: TrustedRoot
    until: float
