"""Google Cloud: access tokens.

The identity of this process comes from its environment: the workload identity federation in
``GOOGLE_APPLICATION_CREDENTIALS``, or the account of the metadata server. The identity of a
ServiceAccount is a principal of the cluster's workload identity pool on GKE, or of the provider in
its annotation elsewhere; or the Google account with the e-mail address in an annotation. Key files
of Google accounts are not supported, because this module is for identities without keys.
"""

import json
import re
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from toolkit.remote.cloud import web
from toolkit.remote.cloud.azuretokens import lifetime
from toolkit.remote.cloud.errors import CloudError
from toolkit.remote.cloud.identity import Bearer, Identity, key_of
from toolkit.remote.cloud.services import Services, moment
from toolkit.remote.proxy import Proxy

EMAIL: Final = "iam.gke.io/gcp-service-account"
PROVIDER: Final = "gcp.auth.fluxcd.io/workload-identity-provider"

_SCOPES: Final = (
    "https://www.googleapis.com/auth/cloud-platform",
    "https://www.googleapis.com/auth/userinfo.email",
)
_PROVIDER: Final = re.compile(
    r"(?:(?:https:)?//iam\.googleapis\.com/)?(?P<name>projects/[0-9]{1,30}/locations/global"
    r"/workloadIdentityPools/[\w-]{1,100}/providers/[\w-]{1,100})"
)
_EMAIL: Final = re.compile(r"[a-z0-9-]{1,63}@[a-z0-9.-]{1,100}\.gserviceaccount\.com")
_SUBJECT_TYPE: Final = "urn:ietf:params:oauth:token-type:jwt"
_HOST: Final = "metadata.google.internal"
_IMPERSONATE: Final = re.compile(
    r"https://iamcredentials\.googleapis\.com/v1/projects/-/serviceAccounts/"
    r"(?P<email>[^/:]+):generateAccessToken"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pool:
    """The workload identity pool of a GKE cluster, which serves for its life."""

    name: str
    audience: str
    expires_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class _Exchange:
    """The input of a token exchange; with an empty ``email`` the result is for the principal."""

    who: str
    audience: str
    subject: str = field(repr=False)
    subject_type: str = _SUBJECT_TYPE
    email: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GcpTokens:
    """Gets access tokens."""

    services: Services

    def endpoint(self, service: str) -> tuple[str, bool]:
        """Return the URL of a service, and whether it may be one of http.

        ``CLOUDSDK_API_ENDPOINT_OVERRIDES_<SERVICE>`` wins, as for gcloud.
        """
        given = self.services.variable(f"CLOUDSDK_API_ENDPOINT_OVERRIDES_{service.upper()}")
        url = given.rstrip("/") or f"https://{service}.googleapis.com"
        return url, url.startswith("http://")

    async def get(self, who: Identity | None, *, proxy: Proxy | None) -> Bearer:
        """Return a token of an identity.

        Raises:
            CloudError: there is no identity, or Google refuses it.
        """

        async def fetch() -> Bearer:
            if who is not None:
                return await self._exchange(await self._of_account(who), proxy)
            file = self.services.variable("GOOGLE_APPLICATION_CREDENTIALS")
            if file:
                return await self._exchange(await self._of_file(file), proxy)
            return await self._own()

        return await self.services.cache.get("gcp", (key_of(who), proxy), fetch)

    async def _of_account(self, who: Identity) -> _Exchange:
        email = who.annotations.get(EMAIL, "")
        if email and not _EMAIL.fullmatch(email):
            raise CloudError(f"annotation '{EMAIL}' of {who} is not an account of Google's IAM")
        given = who.annotations.get(PROVIDER, "")
        if given:
            found = _PROVIDER.fullmatch(given)
            if not found:
                raise CloudError(f"annotation '{PROVIDER}' of {who} is not the name of a provider")
            audience = f"//iam.googleapis.com/{found['name']}"
            subject = await who.token(audience)
        else:
            pool = await self._pool(who)
            audience, subject = pool.audience, await who.token(pool.name)
        return _Exchange(who=str(who), audience=audience, subject=subject, email=email)

    async def _pool(self, who: Identity) -> _Pool:
        """Learn from the node to which pool the accounts of this cluster belong."""
        purpose = (
            f"{who} has no annotation '{PROVIDER}', which it needs where the cluster is not GKE"
        )

        async def fetch() -> _Pool:
            project = await self._node("project/project-id", purpose)
            name = await self._node("instance/attributes/cluster-name", purpose)
            place = await self._node("instance/attributes/cluster-location", purpose)
            pool = f"{project}.svc.id.goog"
            cluster = f"projects/{project}/locations/{place}/clusters/{name}"
            issuer = f"https://container.googleapis.com/v1/{cluster}"
            return _Pool(
                name=pool,
                audience=f"identitynamespace:{pool}:{issuer}",
                expires_at=self.services.now() + timedelta(days=1),
            )

        return await self.services.cache.get("gcp", ("pool",), fetch)

    async def _of_file(self, path: str) -> _Exchange:
        """Read the description of a workload identity federation (AIP-4117)."""
        variable = "GOOGLE_APPLICATION_CREDENTIALS"
        purpose = f"'{path}', which {variable} names"
        text = await self.services.file(path, named_by=variable)
        given = web.decoded(text.encode(), purpose=purpose)
        if given.get("type") != "external_account":
            raise CloudError(
                f"{purpose}, must describe a workload identity federation"
                " ('type': 'external_account'); keys are not read"
            )
        source = web.text_field(given, "credential_source", "file", purpose=purpose)
        subject = await self.services.file(source, named_by=f"'{path}'")
        form = given["credential_source"].get("format") or {}
        if isinstance(form, dict) and form.get("type") == "json":
            name = web.text_field(form, "subject_token_field_name", purpose=purpose)
            document = web.decoded(subject.encode(), purpose=f"'{source}'")
            subject = web.text_field(document, name, purpose=f"'{source}'")
        impersonated = str(given.get("service_account_impersonation_url") or "")
        email = _IMPERSONATE.fullmatch(impersonated)
        if impersonated and not email:
            raise CloudError(f"{purpose}: its service_account_impersonation_url is not Google's")
        return _Exchange(
            who="this process",
            audience=web.text_field(given, "audience", purpose=purpose),
            subject=subject,
            subject_type=str(given.get("subject_token_type") or _SUBJECT_TYPE),
            email=email["email"] if email else "",
        )

    async def _exchange(self, exchange: _Exchange, proxy: Proxy | None) -> Bearer:
        """Exchange a token for one of Google's (RFC 8693), and that for one of an account."""
        purpose = f"{exchange.who} is not known to the provider of '{exchange.audience}'"
        headers, body = web.form(
            grant_type="urn:ietf:params:oauth:grant-type:token-exchange",
            audience=exchange.audience,
            scope=" ".join(_SCOPES),
            requested_token_type="urn:ietf:params:oauth:token-type:access_token",  # noqa: S106
            subject_token=exchange.subject,
            subject_token_type=exchange.subject_type,
        )
        url, plain = self.endpoint("sts")
        answer = await self.services.web.ask(
            "POST",
            f"{url}/v1/token",
            purpose=purpose,
            headers=headers,
            body=body,
            proxy=proxy,
            plain=plain,
        )
        token = self._bearer(web.decoded(answer, purpose=purpose), purpose)
        return await self._become(exchange, token, proxy) if exchange.email else token

    async def _become(self, exchange: _Exchange, token: Bearer, proxy: Proxy | None) -> Bearer:
        purpose = f"{exchange.who} may not become '{exchange.email}'; see that account's policy"
        url, plain = self.endpoint("iamcredentials")
        path = f"/v1/projects/-/serviceAccounts/{exchange.email}:generateAccessToken"
        answer = web.decoded(
            await self.services.web.ask(
                "POST",
                url + path,
                purpose=purpose,
                headers={"Content-Type": "application/json"},
                body=json.dumps({"scope": _SCOPES, "lifetime": "3600s"}).encode(),
                bearer=token.token,
                proxy=proxy,
                plain=plain,
            ),
            purpose=purpose,
        )
        return Bearer(
            token=web.text_field(answer, "accessToken", purpose=purpose),
            expires_at=moment(
                web.text_field(answer, "expireTime", purpose=purpose), purpose=purpose
            ),
        )

    async def _own(self) -> Bearer:
        purpose = (
            "this process has no identity at Google: give its ServiceAccount one,"
            " or name one in the object's serviceAccountName"
        )
        path = "instance/service-accounts/default/token"
        answer = await self._node(path, purpose)
        return self._bearer(web.decoded(answer.encode(), purpose=purpose), purpose)

    async def _node(self, path: str, purpose: str) -> str:
        host = self.services.variable("GCE_METADATA_HOST") or _HOST
        answer = await self.services.web.ask_node(
            "GET",
            f"http://{host}/computeMetadata/v1/{path}",
            purpose=purpose,
            headers={"Metadata-Flavor": "Google"},
        )
        return answer.decode("utf-8", "replace").strip()

    def _bearer(self, answer: web.Json, purpose: str) -> Bearer:
        token = web.text_field(answer, "access_token", purpose=purpose)
        return Bearer(token=token, expires_at=self.services.now() + lifetime(answer, purpose))
