"""Credentials of a GitRepository: from its Secret, a GitHub App or a cloud.

If the server refuses credentials of a cloud or of GitHub, they leave the cache, so that the next
attempt requests new ones. Only the user can change a login in a Secret.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final, Protocol, TypeVar

from controllers.access import plainhttp
from crds.source import GitRepository, GitRepositorySpec
from toolkit.errors import TransientError
from toolkit.kube.secrets import Secrets
from toolkit.remote.cloud.cache import Expiring
from toolkit.remote.cloud.identity import Bearer, Identity, Login
from toolkit.remote.endpoint import Endpoint
from toolkit.remote.git.errors import GitAuthError
from toolkit.remote.git.git import GitAuth, Proxy
from toolkit.remote.git.github import GitHubApp, GitHubTokens
from toolkit.remote.git.url import GitUrl

_REASON: Final = "AuthenticationFailed"
_CLOUDS: Final = ("aws", "azure")

T = TypeVar("T")


class Cloud(Protocol):
    """Gives credentials for repositories of cloud providers."""

    async def git(
        self,
        provider: str,
        url: str,
        who: Identity | None = None,
        *,
        proxy: Proxy | None = None,
        own_ca: bool = False,
    ) -> Login | Bearer:
        """Return credentials for a repository, or raise a typed error."""
        ...

    def drop(self, credential: Expiring) -> bool:
        """Forget a credential that was refused; tell whether another one may help."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """Credentials; ``lent`` is the token or login if a cloud issued it."""

    auth: GitAuth
    lent: Login | Bearer | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GitAccess:
    """Authenticates GitRepositories; ``plain_http`` allows servers without TLS."""

    secrets: Secrets
    github: GitHubTokens
    cloud: Cloud
    identity: Callable[[str, str], Awaitable[Identity | None]]
    plain_http: bool = True

    async def grant(self, obj: GitRepository) -> Grant:
        """Return the credentials; all Secrets are read again.

        Raises:
            StalledError: fields contradict each other, or ask for a forbidden option.
            TransientError: a Secret is missing or malformed, or no credentials were issued.
        """
        spec = obj.spec
        scheme = GitUrl.parse(spec.url).scheme
        if scheme == "http" and not self.plain_http:
            raise plainhttp.refusal("spec.url is")
        data = await self._read(obj, spec.secret_ref.name if spec.secret_ref else "")
        address = await self._read(obj, spec.proxy_secret_ref.name if spec.proxy_secret_ref else "")
        proxy = Proxy.from_secret(address) if spec.proxy_secret_ref else None
        if spec.provider in _CLOUDS:
            return await self._lent(obj, data, proxy)
        if spec.provider == "github":
            app = _named(spec, lambda: GitHubApp.from_secret(data))
            way = Endpoint(proxy=proxy, plain_http=self.plain_http)
            auth = await self.github.auth(app, way=way, timeout=spec.timeout_seconds)
            return Grant(auth=auth)
        if "githubAppID" in data:
            raise TransientError(
                f"{_secret(spec)} holds a GitHub App: set spec.provider to 'github' to use it",
                reason="InvalidProviderConfiguration",
            )
        auth = _named(spec, lambda: GitAuth.from_secret(data, scheme=scheme))
        return Grant(auth=auth.through(proxy) if proxy else auth)

    def refused(self, grant: Grant) -> bool:
        """Drop refused credentials from the cache; tell whether new ones may be accepted."""
        if grant.lent is not None:
            return self.cloud.drop(grant.lent)
        return self.github.drop(grant.auth)

    async def _lent(
        self, obj: GitRepository, data: Mapping[str, bytes], proxy: Proxy | None
    ) -> Grant:
        spec = obj.spec
        who = await self.identity(obj.metadata.namespace, spec.service_account_name)
        lent = await self.cloud.git(
            spec.provider, spec.url, who, proxy=proxy, own_ca=bool(data.get("ca.crt"))
        )
        auth = GitAuth(ca=data.get("ca.crt") or None, proxy=proxy)
        if isinstance(lent, Bearer):
            return Grant(auth=replace(auth, bearer_token=lent.token), lent=lent)
        return Grant(auth=replace(auth, username=lent.username, password=lent.password), lent=lent)

    async def _read(self, obj: GitRepository, name: str) -> Mapping[str, bytes]:
        if not name:
            return {}
        return await self.secrets.read(obj.metadata.namespace, name, reason=_REASON)


def _named(spec: GitRepositorySpec, read: Callable[[], T]) -> T:
    """Call ``read``, and add the Secret's name to its error."""
    try:
        return read()
    except GitAuthError as exc:
        raise GitAuthError(
            f"failed to configure authentication options: {_secret(spec)}: {exc}"
        ) from exc


def _secret(spec: GitRepositorySpec) -> str:
    return f"Secret '{spec.secret_ref.name}'" if spec.secret_ref else "spec.secretRef"
