"""The address and the credentials of a Bucket, from its spec and its Secrets.

A Bucket uses the credentials of its Secret, or an identity at its provider if it names a provider,
or none. The identity of this process is never used without a provider in the spec.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from controllers.access import plainhttp
from crds.meta import LocalObjectReference
from crds.source_bucket import Bucket, BucketSpec
from toolkit.errors import StalledError
from toolkit.kube.secrets import Secrets
from toolkit.remote.cloud.cache import Expiring
from toolkit.remote.cloud.identity import Bearer, Identity, SessionKeys
from toolkit.remote.objectstore import secret
from toolkit.remote.objectstore.objectstore import (
    Anonymous,
    BearerToken,
    Credentials,
    Place,
    S3Keys,
)
from toolkit.remote.objectstore.place import split
from toolkit.remote.objectstore.secret import Trust
from toolkit.remote.proxy import Proxy

_REASON: Final = "AuthenticationFailed"


class Cloud(Protocol):
    """Issues credentials for buckets of a cloud provider (``toolkit.remote.cloud.cloud``)."""

    async def bucket(  # noqa: PLR0913  # the bucket, and the identity
        self,
        provider: str,
        endpoint: str,
        who: Identity | None = None,
        *,
        region: str = "",
        sts: str = "",
        proxy: Proxy | None = None,
        own_ca: bool = False,
        plain_http: bool = False,
    ) -> SessionKeys | Bearer:
        """Return keys for S3, or a token; ``who`` is None for the identity of this process."""
        ...

    def drop(self, credential: Expiring) -> bool:
        """Drop a refused credential from the cache; return whether a new one may help."""


class Accounts(Protocol):
    """Returns the identity of an object at a cloud provider (``toolkit.kube.tokens``)."""

    async def identity(self, namespace: str, account: str) -> Identity | None:
        """Return the identity of a service account; None, for this process, without an account."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A place, and the credential of a cloud provider for it, to drop if it is refused."""

    place: Place
    lent: SessionKeys | Bearer | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Finds the place of a Bucket; ``plain_http`` allows servers without TLS."""

    secrets: Secrets
    cloud: Cloud
    accounts: Accounts
    plain_http: bool = True

    async def find(self, obj: Bucket) -> Found:
        """Return the place; all referenced Secrets are read again.

        Raises:
            StalledError: fields contradict each other, or ask for something that is not allowed.
            TransientError: a Secret does not exist or is invalid, or the cloud provider issues no
                credentials.
        """
        spec = obj.spec
        _check(spec)
        if spec.insecure and not self.plain_http:
            raise plainhttp.refusal("spec.insecure asks for")
        namespace = obj.metadata.namespace
        trust = await self._trust(namespace, spec.cert_secret_ref)
        proxy = None
        if spec.proxy_secret_ref:
            proxy = Proxy.from_secret(await self._read(namespace, spec.proxy_secret_ref))
        credentials, lent = await self._credentials(obj, proxy, trust)
        place = Place(
            provider=spec.provider,
            endpoint=spec.endpoint,
            bucket=spec.bucket_name,
            region=spec.region,
            credentials=credentials,
            plain_http=spec.insecure,
            ca=trust.ca,
            client_cert=trust.client_cert,
            client_key=trust.client_key,
            proxy=proxy,
        )
        return Found(place=place, lent=lent)

    async def _credentials(
        self, obj: Bucket, proxy: Proxy | None, trust: Trust
    ) -> tuple[Credentials, SessionKeys | Bearer | None]:
        spec, namespace = obj.spec, obj.metadata.namespace
        if spec.secret_ref:
            data = await self._read(namespace, spec.secret_ref)
            return secret.credentials(spec.provider, data), None
        if spec.provider == "generic":
            return await self._generic(obj), None
        who = await self.accounts.identity(namespace, spec.service_account_name)
        lent = await self.cloud.bucket(
            spec.provider,
            spec.endpoint,
            who,
            region=spec.region,
            sts=spec.sts.endpoint if spec.sts else "",
            proxy=proxy,
            own_ca=trust.ca is not None,
            plain_http=spec.insecure,
        )
        return _usable(lent), lent

    async def _generic(self, obj: Bucket) -> Credentials:
        sts, namespace = obj.spec.sts, obj.metadata.namespace
        if sts is None:
            return Anonymous()
        if sts.secret_ref is None:
            raise StalledError(
                "spec.sts.secretRef is needed: it holds the directory user's name and password",
                reason="InvalidSTSConfiguration",
            )
        split(sts.endpoint, default="https")
        data = await self._read(namespace, sts.secret_ref)
        trust = await self._trust(namespace, sts.cert_secret_ref)
        return secret.ldap(sts.endpoint, data, trust)

    async def _trust(self, namespace: str, ref: LocalObjectReference | None) -> Trust:
        if ref is None:
            return Trust()
        return secret.trust(await self._read(namespace, ref))

    async def _read(self, namespace: str, ref: LocalObjectReference) -> Mapping[str, bytes]:
        return await self.secrets.read(namespace, ref.name, reason=_REASON)


def _usable(lent: SessionKeys | Bearer) -> Credentials:
    match lent:
        case Bearer(token=token):
            return BearerToken(token=token)
        case SessionKeys():
            return S3Keys(
                access_key=lent.access_key,
                secret_key=lent.secret_key,
                session_token=lent.session_token,
            )


def _check(spec: BucketSpec) -> None:
    """Check the rules of the CRD again, for objects that were stored before the rules existed."""
    provider, sts = spec.provider, spec.sts
    if sts and {"aws": "aws", "generic": "ldap"}.get(provider) != sts.provider:
        raise StalledError(
            f"STS provider '{sts.provider}' is not supported for '{provider}' bucket provider",
            reason="InvalidSTSConfiguration",
        )
    if sts and sts.provider == "aws" and (sts.secret_ref or sts.cert_secret_ref):
        raise StalledError(
            "spec.sts.secretRef and spec.sts.certSecretRef have no use with the 'aws' STS provider",
            reason="InvalidSTSConfiguration",
        )
    if spec.service_account_name and (provider == "generic" or spec.secret_ref):
        raise StalledError(
            "spec.serviceAccountName needs spec.provider aws, azure or gcp and no spec.secretRef",
            reason="InvalidProviderConfiguration",
        )
