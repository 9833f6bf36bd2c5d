"""The target of a Provider: address, credentials and trust.

Secrets are read for each delivery, so a rotated token is used from the next delivery on.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from controllers.notification.sending.signing import Asked, Borrow, SignIns
from controllers.notification.services.service import Target
from crds.notification import Provider
from toolkit import untrusted
from toolkit.errors import StalledError
from toolkit.kube.secrets import Secrets
from toolkit.notification import demands
from toolkit.remote import proxy, tls
from toolkit.remote.endpoint import Endpoint
from toolkit.remote.errors import AuthError
from toolkit.remote.proxy import Proxy

REASON: Final = "InvalidProvider"
_UNREAD: Final = "SecretNotRead"
_HEADERS: Final = untrusted.SMALL
_MOST_HEADERS: Final = 32
_OF_CONNECTIONS: Final = frozenset(
    {
        "connection",
        "content-length",
        "expect",
        "host",
        "keep-alive",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
"""Forbidden headers: connections are shared, and a wrong end of a body would let one Provider's
body be read as another's request.
"""
EVERY: Final = "*"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reachable:
    """The flags about addresses; ``private`` has the namespaces that may use private ones."""

    plain_http: bool
    private: frozenset[str]

    def endpoint(self, namespace: str) -> Endpoint:
        """Return where Providers of a namespace may lead."""
        private = EVERY in self.private or namespace in self.private
        return Endpoint(plain_http=self.plain_http, private=private)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A target, with its endpoint, and the texts that no message may contain.

    ``borrow`` requests a token if the target has none. ``refused`` is called if the service did not
    accept that token.
    """

    target: Target
    endpoint: Endpoint
    timeout: float
    secrets: tuple[str, ...] = field(repr=False)
    borrow: Borrow | None = None
    refused: Callable[[], object] = bool

    async def signed_in(self) -> "Place":
        """Return the place with a requested token, if it has none.

        Raises:
            PenstockError: no token was issued.
        """
        if self.borrow is None:
            return self
        loan = await self.borrow()
        return replace(
            self,
            target=replace(self.target, token=loan.token, lent=True),
            secrets=(loan.token, *self.secrets),
            refused=loan.give_back,
        )

    def masked(self, text: str) -> str:
        """Return a text without what the Secret holds: its address, and credentials."""
        for secret in self.secrets:
            text = text.replace(secret, "*****")
        return text


class Targets:
    """Reads what Providers name."""

    def __init__(self, secrets: Secrets, reachable: Reachable, sign_ins: SignIns) -> None:
        self._secrets = secrets
        self._reachable = reachable
        self._sign_ins = sign_ins

    async def place(self, provider: Provider) -> Place:
        """Return the target of a Provider; no request leaves the cluster.

        Raises:
            StalledError: a field of the Provider is missing or invalid.
            TransientError: a Secret is missing or invalid, or cannot be read.
        """
        for problem in demands.problems(provider.spec):
            raise StalledError(f"{problem.field}: {problem.why}", reason=REASON)
        spec, meta = provider.spec, provider.metadata
        data = await self._read(provider, spec.secret_ref.name if spec.secret_ref else "")
        own = demands.login(proxy.text(data, "address") or "", spec.type)
        target = Target(
            type=spec.type,
            namespace=meta.namespace,
            name=meta.name,
            uid=meta.uid,
            address=own.address or spec.address,
            channel=spec.channel,
            username=proxy.text(data, "username") or own.username or spec.username,
            token=_text(data, "token"),
            password=proxy.text(data, "password") or own.password,
            headers=_headers(data),
            status_expression=spec.commit_status_expr,
        )
        _require(target, data)
        endpoint = await self._endpoint(provider, data)
        borrow = await self._sign_ins.borrowing(
            Asked(
                target=target,
                endpoint=endpoint,
                account=spec.service_account_name,
                data=data,
                timeout=spec.timeout_seconds,
            )
        )
        return Place(
            target=target,
            endpoint=endpoint,
            timeout=spec.timeout_seconds,
            secrets=_secrets(target, data, own.address),
            borrow=borrow,
        )

    async def _endpoint(self, provider: Provider, data: Mapping[str, bytes]) -> Endpoint:
        spec = provider.spec
        endpoint = self._reachable.endpoint(provider.metadata.namespace)
        if spec.cert_secret_ref:
            name = spec.cert_secret_ref.name
            endpoint = tls.certified(endpoint, await self._read(provider, name), name)
        if spec.proxy_secret_ref:
            found = await self._read(provider, spec.proxy_secret_ref.name)
            endpoint = replace(endpoint, proxy=Proxy.from_secret(found))
        elif address := proxy.text(data, "proxy") or spec.proxy:
            endpoint = replace(endpoint, proxy=Proxy.from_secret({"address": address.encode()}))
        return endpoint

    async def _read(self, provider: Provider, name: str) -> Mapping[str, bytes]:
        if not name:
            return {}
        return await self._secrets.read(provider.metadata.namespace, name, reason=_UNREAD)


def _require(target: Target, data: Mapping[str, bytes]) -> None:
    """Require the address, and the keys of the Secret that the type needs."""
    demand = demands.DEMANDS[target.type]
    if demand.address and not target.address:
        raise AuthError(f"'{target.type}' needs an address: write {demand.hint} into the Secret")
    read = bool(target.address) and not demand.plain
    if read and (why := demands.unusable(target.address, target.type)):
        raise AuthError(f"the address is not usable: {why}")
    if why := demands.unsigned(target.type, [key for key, value in data.items() if value.strip()]):
        raise AuthError(why)


def _text(data: Mapping[str, bytes], key: str) -> str:
    """Return a value that may have several lines, as key files have."""
    try:
        return data.get(key, b"").decode().strip()
    except UnicodeDecodeError as exc:
        raise AuthError(f"'{key}' in the secret is not UTF-8 text") from exc


def _headers(data: Mapping[str, bytes]) -> dict[str, str]:
    """Return the headers of a Secret: YAML, a name and a text a line."""
    found = data.get("headers")
    if not found:
        return {}
    try:
        section = untrusted.load_yaml(found, _HEADERS)
    except untrusted.UntrustedError as exc:
        raise AuthError(f"'headers' in the secret cannot be read: {exc}") from exc
    headers = {} if not isinstance(section, Mapping) else {str(k): v for k, v in section.items()}
    if len(headers) > _MOST_HEADERS or not headers:
        raise AuthError(f"'headers' in the secret must be 1 to {_MOST_HEADERS} lines 'name: text'")
    for name, value in headers.items():
        fits = isinstance(value, str) and value.isascii() and value.isprintable()
        if not fits or not name.replace("-", "").replace("_", "").isalnum():
            raise AuthError("'headers' in the secret has a line that cannot be a header")
        if name.lower() in _OF_CONNECTIONS:
            raise AuthError(
                f"'headers' in the secret sets '{name}', which belongs to the connection: remove it"
            )
    return {name: str(value) for name, value in headers.items()}


def _secrets(target: Target, data: Mapping[str, bytes], address: str) -> tuple[str, ...]:
    """Return the texts that no message may contain, the longest first.

    ``address`` is that of the Secret, without a login. What ``spec`` holds can be read there.
    """
    path = address.partition("://")[2].partition("/")[2]
    written = (proxy.text(data, key) or "" for key in ("address", "proxy"))
    found = {*written, address, path, target.token, target.password, *target.headers.values()}
    found |= {found_part for found_part in path.split("/") if len(found_part) > _SHORT}
    return tuple(sorted((each for each in found if len(each) > _SHORT), key=len, reverse=True))


_SHORT: Final = 6
"""Characters of the longest text that is not masked: it may be an ordinary word."""
