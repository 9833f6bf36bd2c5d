"""AWS: logins for ECR and CodeCommit, keys for S3, access to EKS.

Hosts are AWS's own: an object can choose the region, but not the host that gets credentials.
"""

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from urllib.parse import urlsplit

from toolkit.remote.cloud import clusters, web
from toolkit.remote.cloud.awskeys import AwsKeys, checked_region, suffix_of
from toolkit.remote.cloud.errors import CloudError, ForeignHostError
from toolkit.remote.cloud.identity import (
    Bearer,
    BucketPlace,
    ClusterAccess,
    ClusterName,
    Identity,
    Login,
    SessionKeys,
    host_of,
    key_of,
)
from toolkit.remote.cloud.services import UNKNOWN_LIFE, Services, moment
from toolkit.remote.cloud.sigv4 import Keys, Signer
from toolkit.remote.proxy import Proxy

_PUBLIC_REGISTRY: Final = "public.ecr.aws"
_PUBLIC_REGION: Final = "us-east-1"
_REGISTRY: Final = re.compile(
    r"[0-9]{12}\.dkr[.-]ecr(?P<fips>-fips)?\.(?P<region>[a-z0-9-]+)\.(?P<suffix>[a-z0-9.-]+)"
)
_DUAL_STACK: Final = "on.aws"
_CODE_COMMIT: Final = re.compile(
    r"git-codecommit(?:-fips)?\.(?P<region>[a-z0-9-]+)\.(?P<suffix>[a-z0-9.-]+)"
)
_EKS_ARN: Final = re.compile(
    r"arn:aws[a-z-]*:eks:(?P<region>[a-z0-9-]+):[0-9]{12}:cluster/(?P<name>[A-Za-z0-9][\w-]{0,99})"
)
_EKS_TOKEN_LIFE: Final = timedelta(minutes=14)
_CODE_COMMIT_LIFE: Final = timedelta(minutes=14)
"""AWS accepts a signature for a quarter of an hour."""
_DESCRIPTION_LIFE: Final = timedelta(minutes=15)


@dataclass(frozen=True, slots=True)
class Aws:
    """The provider ``aws``."""

    services: Services

    async def registry(self, host: str, who: Identity | None, proxy: Proxy | None) -> Login:
        """Log in to a private registry, or to the public gallery."""
        if host == _PUBLIC_REGISTRY:
            return await self._ecr_login(
                ("ecr-public", _PUBLIC_REGION, "api.ecr-public"), who, proxy
            )
        found = _REGISTRY.fullmatch(host)
        region = found["region"] if found else ""
        if not found or found["suffix"] not in {_DUAL_STACK, suffix_of(region)}:
            raise ForeignHostError(f"'{host}' is not a registry of provider aws")
        name = "ecr-fips" if found["fips"] else "api.ecr"
        return await self._ecr_login(("ecr", checked_region(region), name), who, proxy)

    async def bucket(
        self, place: BucketPlace, who: Identity | None, proxy: Proxy | None
    ) -> SessionKeys | Bearer:
        """Return keys for S3, for any endpoint, because a signature may be shown to any server."""
        keys = AwsKeys(services=self.services)
        region = checked_region(place.region) if place.region else await keys.region()
        return await keys.get(who, region=region, sts=place.sts, proxy=proxy)

    async def git(self, url: str, who: Identity | None, proxy: Proxy | None) -> Login | Bearer:
        """Return a signed login for one repository of CodeCommit.

        The format is that of AWS's own ``git-remote-codecommit``.
        """
        parts = urlsplit(url)
        found = _CODE_COMMIT.fullmatch(host_of(url))
        region = found["region"] if found else ""
        if not found or parts.scheme != "https" or found["suffix"] != suffix_of(region):
            raise ForeignHostError("the URL is not one of CodeCommit, which provider aws is for")
        keys = await AwsKeys(services=self.services).get(
            who, region=checked_region(region), proxy=proxy
        )
        now = self.services.now()
        signer = Signer(keys=_signing(keys), region=region, service="codecommit")
        host = found.string
        canonical = f"GIT\n{parts.path}\n\nhost:{host}\n\nhost\n"
        signature = signer.text_signature(canonical, now=now)
        session = f"%{keys.session_token}" if keys.session_token else ""
        return Login(
            username=keys.access_key + session,
            password=f"{now.astimezone(UTC):%Y%m%dT%H%M%S}Z{signature}",
            expires_at=min(keys.expires_at, now + _CODE_COMMIT_LIFE),
            origin=keys,
        )

    async def cluster(
        self, named: ClusterName, who: Identity | None, proxy: Proxy | None
    ) -> ClusterAccess:
        """Return the access to an EKS cluster (``arn:aws:eks:…:cluster/<name>``)."""
        found = _EKS_ARN.fullmatch(named.cluster)
        if not found:
            raise ForeignHostError(f"'{named.cluster}' is not the ARN of an EKS cluster")
        region, name = checked_region(found["region"]), found["name"]
        source = AwsKeys(services=self.services)
        keys = await source.get(who, region=region, proxy=proxy)
        purpose = f"cannot describe the EKS cluster '{named.cluster}'"

        async def describe() -> clusters.Description:
            return await self._describe(keys, region, name, purpose, proxy)

        key = ("aws", key_of(who), named.cluster, proxy)
        found_there = await self.services.cache.get("cluster", key, describe)
        now = self.services.now()
        return clusters.access(
            named,
            found_there,
            token=_eks_token(keys, region, name, source.endpoint("sts", region)[0], now),
            expires_at=min(keys.expires_at, now + _EKS_TOKEN_LIFE),
        )

    async def _ecr_login(
        self, service: tuple[str, str, str], who: Identity | None, proxy: Proxy | None
    ) -> Login:
        name, region, host = service

        async def fetch() -> Login:
            source = AwsKeys(services=self.services)
            keys = await source.get(who, region=region, proxy=proxy)
            purpose = f"no login for ECR in region '{region}'"
            url, plain = source.endpoint(name, region, host)
            headers = {
                "Content-Type": "application/x-amz-json-1.1",
                "X-Amz-Target": _TARGETS[name],
            }
            signer = Signer(keys=_signing(keys), region=region, service=name)
            answer = await self.services.web.ask(
                "POST",
                f"{url}/",
                purpose=purpose,
                headers=signer.headers(
                    "POST", f"{url}/", now=self.services.now(), headers=headers, body=b"{}"
                ),
                body=b"{}",
                proxy=proxy,
                plain=plain,
            )
            return self._login(web.decoded(answer, purpose=purpose), purpose)

        key = ("aws", key_of(who), *service, proxy)
        return await self.services.cache.get("registry", key, fetch)

    def _login(self, answer: Mapping[str, Any], purpose: str) -> Login:
        data = answer.get("authorizationData")
        # A list in the private service, an object in the public one.
        first = data[0] if isinstance(data, list) and data else data
        if not isinstance(first, dict):
            raise CloudError(f"{purpose}: the answer lacks 'authorizationData'")
        token = web.text_field(first, "authorizationToken", purpose=purpose)
        try:
            username, _, password = base64.b64decode(token, validate=True).decode().partition(":")
        except ValueError as exc:
            raise CloudError(f"{purpose}: the token cannot be read") from exc
        return Login(username=username, password=password, expires_at=self._end(first, purpose))

    def _end(self, data: Mapping[str, Any], purpose: str) -> datetime:
        end = data.get("expiresAt")
        if isinstance(end, int | float) and 0 < end < 1e11:
            return datetime.fromtimestamp(end, UTC)
        if isinstance(end, str):
            return moment(end, purpose=purpose)
        return self.services.now() + UNKNOWN_LIFE

    async def _describe(
        self, keys: SessionKeys, region: str, name: str, purpose: str, proxy: Proxy | None
    ) -> clusters.Description:
        base, plain = AwsKeys(services=self.services).endpoint("eks", region)
        url = f"{base}/clusters/{web.segment(name)}"
        signer = Signer(keys=_signing(keys), region=region, service="eks")
        answer = web.decoded(
            await self.services.web.ask(
                "GET",
                url,
                purpose=purpose,
                headers=signer.headers("GET", url, now=self.services.now()),
                proxy=proxy,
                plain=plain,
            ),
            purpose=purpose,
        )
        ca = web.text_field(answer, "cluster", "certificateAuthority", "data", purpose=purpose)
        endpoint = web.text_field(answer, "cluster", "endpoint", purpose=purpose)
        return clusters.Description(
            endpoints=((endpoint, clusters.pem(ca, purpose=purpose)),),
            expires_at=self.services.now() + _DESCRIPTION_LIFE,
        )


_TARGETS: Final = {
    "ecr": "AmazonEC2ContainerRegistry_V20150921.GetAuthorizationToken",
    "ecr-public": "SpencerFrontendService.GetAuthorizationToken",
}


def _signing(keys: SessionKeys) -> Keys:
    return Keys(
        access_key=keys.access_key, secret_key=keys.secret_key, session_token=keys.session_token
    )


def _eks_token(keys: SessionKeys, region: str, name: str, sts: str, now: datetime) -> str:
    """Sign a question to STS that the cluster asks in our place (aws-iam-authenticator)."""
    signer = Signer(keys=_signing(keys), region=region, service="sts")
    url = signer.presigned(
        "GET",
        f"{sts}/?Action=GetCallerIdentity&Version=2011-06-15",
        now=now,
        seconds=60,
        headers={"x-k8s-aws-id": name},
    )
    return "k8s-aws-v1." + base64.urlsafe_b64encode(url.encode()).decode().rstrip("=")
