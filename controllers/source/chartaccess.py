"""Access to the server of a HelmRepository: login and certificates from its Secrets.

Secrets are read in every reconciliation and never cached, so a rotated Secret takes effect in the
next one.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Final

from controllers.access import plainhttp
from controllers.access.registries import REASON, Access, Registries
from crds.source_helm import HelmRepository
from toolkit.chart import registry as charts_in_registry
from toolkit.errors import StalledError
from toolkit.kube.secrets import Secrets
from toolkit.remote import proxy
from toolkit.remote.http.http import AuthError, Endpoint
from toolkit.remote.oci.oci import Repository
from toolkit.remote.oci.registry import Registry
from toolkit.remote.tls import certified


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartAccess:
    """Gives access to HelmRepositories over HTTP and in registries.

    ``plain_http`` allows servers without TLS.
    """

    secrets: Secrets
    registries: Registries
    plain_http: bool = True

    async def http(self, obj: HelmRepository) -> Endpoint:
        """Return login and TLS settings for a repository with an index.

        Raises:
            StalledError: the URL has another scheme, or has no TLS and this is not allowed.
            TransientError: a Secret does not exist or is invalid.
        """
        scheme = plainhttp.scheme(obj.spec.url)
        if scheme not in ("http", "https"):
            raise StalledError(
                f"spec.url is of scheme '{scheme}', which is for registries: set spec.type to "
                "'oci', or give an http or https URL",
                reason="URLInvalid",
            )
        if scheme == "http" and not self.plain_http:
            raise plainhttp.refusal("spec.url is")
        data: Mapping[str, bytes] = {}
        if obj.spec.secret_ref is not None:
            data = await self._read(obj, obj.spec.secret_ref.name)
        endpoint = Endpoint(plain_http=self.plain_http, pass_credentials=obj.spec.pass_credentials)
        return await self._certified(obj, _with_login(endpoint, data), data)

    @asynccontextmanager
    async def registry(
        self, obj: HelmRepository, repository: Repository
    ) -> AsyncIterator[Registry]:
        """Yield the registry of a chart's repository, with the credentials of the HelmRepository.

        Raises:
            StalledError: ``spec.insecure`` is set, and this is not allowed.
            ChartPullError: the registry failed, when it was opened or in the body.
            TransientError: a Secret does not exist or is invalid, or the cloud provider issues no
                credentials.
        """
        spec = obj.spec
        access = Access(
            namespace=obj.metadata.namespace,
            provider=spec.provider,
            secret=spec.secret_ref.name if spec.secret_ref else "",
            cert_secret=spec.cert_secret_ref.name if spec.cert_secret_ref else "",
            insecure=spec.insecure,
        )
        with charts_in_registry.pulling(repository):
            async with self.registries.open(
                access, repository, timeout=spec.timeout_seconds
            ) as registry:
                yield registry

    async def _certified(
        self, obj: HelmRepository, endpoint: Endpoint, data: Mapping[str, bytes]
    ) -> Endpoint:
        """Add the certificates of ``certSecretRef``, or else the older keys of ``secretRef``."""
        if obj.spec.cert_secret_ref is not None:
            name = obj.spec.cert_secret_ref.name
            return certified(endpoint, await self._read(obj, name), name)
        if obj.spec.secret_ref is not None and any(data.get(key) for key in _TLS):
            return certified(endpoint, data, obj.spec.secret_ref.name)
        return endpoint

    async def _read(self, obj: HelmRepository, name: str) -> Mapping[str, bytes]:
        return await self.secrets.read(obj.metadata.namespace, name, reason=REASON)


_TLS: Final = ("ca.crt", "tls.crt", "tls.key", "caFile", "certFile", "keyFile")


def _with_login(endpoint: Endpoint, data: Mapping[str, bytes]) -> Endpoint:
    username, password = proxy.text(data, "username"), proxy.text(data, "password")
    if (username is None) != (password is None):
        present, missing = (
            ("password", "username") if username is None else ("username", "password")
        )
        raise AuthError(f"the secret has '{present}' but not '{missing}': set both or none")
    return replace(endpoint, username=username, password=password)
