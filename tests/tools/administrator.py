"""Requests of the administrator without a program for each: one kept connection, and blocking.

kubectl takes a tenth of a second to start. This is for what tests do hundreds of times and where
nobody looks at what kubectl itself does. ``send`` must succeed, ``refused`` must fail.
"""

import contextlib
import http.client
import json
import os
import ssl
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Final, Self
from urllib.parse import urlencode, urlsplit

from controlplane.plane import ControlPlane
from toolkit.kube import config
from toolkit.kube.config import ClusterConfig
from toolkit.objects import Json

_SECONDS: Final = 60
_NOTHING: Final[Mapping[str, str]] = MappingProxyType({})


class RefusedError(Exception):
    """The API server did not do it; ``status`` is its answer's, the text its message."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Administrator:
    """Talks to one API server as its administrator, from any thread."""

    @classmethod
    @contextmanager
    def of(cls, plane: ControlPlane) -> Iterator[Self]:
        """Give the administrator of a control plane, who connects with the first request."""
        with contextlib.closing(cls(config.from_environment(str(plane.kubeconfig)))) as opened:
            yield opened

    def __init__(self, cluster: ClusterConfig) -> None:
        address = urlsplit(cluster.server)
        self._connection = http.client.HTTPSConnection(
            address.hostname or "", address.port or 443, timeout=_SECONDS, context=_tls(cluster)
        )
        self._token = cluster.token
        self._turn = threading.Lock()

    def send(
        self,
        method: str,
        path: str,
        body: Json | None = None,
        *,
        content: str = "application/json",
        accept: str = "application/json",
        query: Mapping[str, str] = _NOTHING,
    ) -> Json:
        """Send one request and return the answer.

        Raises:
            RefusedError: the API server says no.
        """
        headers = {"Content-Type": content, "Accept": accept}
        if self._token is not None:
            headers["Authorization"] = f"Bearer {self._token()}"
        where = f"{path}?{urlencode(query)}" if query else path
        payload = None if body is None else json.dumps(body)
        with self._turn:
            status, text = self._ask(method, where, payload, headers)
        answer: Json = json.loads(text)
        if status >= http.HTTPStatus.BAD_REQUEST:
            raise RefusedError(status, answer["message"])
        return answer

    def refused(
        self,
        method: str,
        path: str,
        body: Json | None = None,
        *,
        content: str = "application/json",
        query: Mapping[str, str] = _NOTHING,
    ) -> str:
        """Return why the API server refuses a request, which it must.

        Raises:
            AssertionError: it did what it was asked for.
        """
        try:
            done = self.send(method, path, body, content=content, query=query)
        except RefusedError as exc:
            return str(exc)
        raise AssertionError(f"{method} {path} was not refused; the answer is {done}")

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def _ask(
        self, method: str, where: str, payload: str | None, headers: Mapping[str, str]
    ) -> tuple[int, bytes]:
        kept = self._connection.sock is not None
        try:
            return self._once(method, where, payload, headers)
        except (ConnectionError, ssl.SSLError):
            # A test may have stopped the API server meanwhile, and started it again.
            if not kept:
                raise
        return self._once(method, where, payload, headers)

    def _once(
        self, method: str, where: str, payload: str | None, headers: Mapping[str, str]
    ) -> tuple[int, bytes]:
        with contextlib.ExitStack() as unless:
            # After a failure it would not take another request.
            unless.callback(self._connection.close)
            self._connection.request(method, where, payload, headers)
            response = self._connection.getresponse()
            answer = response.status, response.read()
            unless.pop_all()
        return answer


def _tls(cluster: ClusterConfig) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=cluster.ca.decode() if cluster.ca else None)
    if cluster.client_cert and cluster.client_key:
        # OpenSSL wants a path.
        with os.fdopen(os.memfd_create("administrator"), "wb") as file:
            file.write(cluster.client_cert + b"\n" + cluster.client_key)
            file.flush()
            context.load_cert_chain(f"/proc/self/fd/{file.fileno()}")
    return context
