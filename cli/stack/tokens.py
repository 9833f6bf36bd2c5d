"""Service-account tokens as a kubelet provides them: requested, written 0600, renewed in time.

The keeper itself runs under a service account that may do nothing but request these tokens, so the
administrator's credentials are needed once, at installation.
"""

import asyncio
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from toolkit import errors
from toolkit.kube import client
from toolkit.objects import Json, dig

LIFETIME: Final = 3600
RENEW_AT: Final = 0.8
"""Share of a token's life after which the kubelet renews it too."""

RETRY: Final = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenFile:
    """One token file and whose it is."""

    service_account: str
    path: Path


class TokenKeeper:
    """Writes each token file once, then again before its token expires."""

    def __init__(self, api: client.Client, files: Sequence[TokenFile], namespace: str) -> None:
        self._api = api
        self._files = tuple(files)
        self._namespace = namespace

    async def write(self) -> float:
        """Write every file and return in how many seconds the next writing is due."""
        due = [await self._renew(file) for file in self._files]
        return min(due, default=LIFETIME * RENEW_AT)

    async def run(self, due: float) -> None:
        """Renew until cancelled; ``due`` is the result of the first ``write``."""
        while True:
            await asyncio.sleep(due)
            try:
                due = await self.write()
            except errors.TransientError:
                due = RETRY

    async def _renew(self, file: TokenFile) -> float:
        answer = await request_token(
            self._api, file.service_account, self._namespace, seconds=LIFETIME
        )
        write_secret(file.path, answer.token)
        return answer.seconds * RENEW_AT


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """A bearer token and for how many seconds it is good."""

    token: str
    seconds: float

    def __repr__(self) -> str:
        return f"Token(seconds={self.seconds})"


async def request_token(
    api: client.Client, service_account: str, namespace: str, *, seconds: int
) -> Token:
    """Request a token from the API server, which may grant another lifetime than requested."""
    body: Json = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": seconds},
    }
    answer = await api.request(
        "POST",
        f"/api/v1/namespaces/{namespace}/serviceaccounts/{service_account}/token",
        body=body,
    )
    granted = dig(answer, "spec", "expirationSeconds", default=seconds)
    return Token(token=str(dig(answer, "status", "token")), seconds=float(granted))


def write_secret(path: Path, text: str) -> None:
    """Replace ``path`` by ``text`` in one step, readable by its owner only."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as stream:
        stream.write(text)
    draft.replace(path)
