"""AWS: keys for signatures, and the addresses of its services.

The identity of this process comes from its environment, in the order of AWS's SDKs: keys in
environment variables, a web identity (IRSA), the container's credentials (EKS Pod Identity, ECS),
the node's role (IMDSv2). Profiles and credential processes are not used. The identity of a
ServiceAccount is the role in its annotation.
"""

import html
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from toolkit.remote.cloud import web
from toolkit.remote.cloud.errors import CloudError, ForeignHostError
from toolkit.remote.cloud.identity import Identity, SessionKeys, key_of
from toolkit.remote.cloud.services import UNKNOWN_LIFE, Services, moment
from toolkit.remote.proxy import Proxy

ROLE: Final = "eks.amazonaws.com/role-arn"
AUDIENCE: Final = "sts.amazonaws.com"

_REGION: Final = re.compile(r"[a-z]{2,4}(-[a-z]{2,12}){1,3}-[0-9]{1,2}")
_ROLE_ARN: Final = re.compile(r"arn:aws[a-z-]*:iam::[0-9]{12}:role/[\w+=,.@/-]{1,512}")
_SUFFIXES: Final = (
    # Partitions by the beginning of their regions; the longer beginnings first.
    ("cn-", "amazonaws.com.cn"),
    ("us-isob-", "sc2s.sgov.gov"),
    ("us-isof-", "csp.hci.ic.gov"),
    ("us-iso-", "c2s.ic.gov"),
    ("eu-isoe-", "cloud.adc-e.uk"),
    ("eusc-", "amazonaws.eu"),
    ("", "amazonaws.com"),
)
_STS_HOST: Final = re.compile(
    r"(?:sts|sts-fips)(?:\.(?P<region>[a-z0-9-]+))?|[a-z0-9-]+\.sts\.(?P<vpce>[a-z0-9-]+)\.vpce"
)
_NODE: Final = "http://169.254.169.254"
_ECS: Final = "http://169.254.170.2"
_CONTAINER_HOSTS: Final = frozenset({"169.254.170.2", "169.254.170.23", "fd00:ec2::23"})
_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})
_SESSION_NAME: Final = re.compile(r"[^\w+=,.@-]")


def suffix_of(region: str) -> str:
    """Return the domain of a region's partition."""
    return next(suffix for start, suffix in _SUFFIXES if region.startswith(start))


def checked_region(region: str) -> str:
    """Return the name of a region, which becomes part of host names, if it is valid.

    Raises:
        ForeignHostError: the text is not the name of a region.
    """
    if not _REGION.fullmatch(region):
        raise ForeignHostError(f"'{region}' is not a region of AWS")
    return region


@dataclass(frozen=True, slots=True, kw_only=True)
class AwsKeys:
    """Gets session keys."""

    services: Services

    def endpoint(self, service: str, region: str, host: str = "") -> tuple[str, bool]:
        """Return the URL of a service, and whether the operator may have named one of http.

        ``AWS_ENDPOINT_URL_<SERVICE>`` and ``AWS_ENDPOINT_URL`` win, as in AWS's SDKs.
        """
        name = service.upper().replace("-", "_")
        given = self.services.variable(f"AWS_ENDPOINT_URL_{name}", "AWS_ENDPOINT_URL")
        if given:
            return given.rstrip("/"), given.startswith("http://")
        return f"https://{host or service}.{region}.{suffix_of(region)}", False

    async def region(self) -> str:
        """Return the region in which this process runs.

        Raises:
            CloudError: the region is unknown.
        """
        named = self.services.variable("AWS_REGION", "AWS_DEFAULT_REGION")
        if named:
            return checked_region(named)
        purpose = "no region is known: set AWS_REGION, or name one in the object"
        found = await self._node("/latest/meta-data/placement/region", purpose=purpose)
        return checked_region(found.strip())

    async def get(
        self, who: Identity | None, *, region: str, sts: str = "", proxy: Proxy | None
    ) -> SessionKeys:
        """Return keys for an identity; ``sts`` is an endpoint that the object names.

        Raises:
            CloudError: there is no role, or AWS does not let this identity assume it.
            ForeignHostError: ``sts`` is not one of AWS's.
        """
        where = self._sts(sts, region)
        role = _role(who) if who else ""
        key = ("aws", key_of(who), where, proxy)

        async def fetch() -> SessionKeys:
            if who is None:
                return await self._own(where, proxy)
            token = await who.token(AUDIENCE)
            name = f"{who.name}.{who.namespace}.{region}.penstock.dev"
            return await self._assume(
                str(who), role=role, session=name, token=token, sts=where, proxy=proxy
            )

        return await self.services.cache.get("aws", key, fetch)

    def _sts(self, given: str, region: str) -> tuple[str, bool]:
        default = self.endpoint("sts", region)
        if not given or given.rstrip("/") == default[0]:
            return default
        # The token of the identity is sent there, so an object must not choose the address.
        foreign = ForeignHostError(f"'{ascii(given[:200])[1:-1]}' is not an STS endpoint of AWS")
        try:
            parts = urlsplit(given)
            port = parts.port
        except ValueError as exc:
            raise foreign from exc
        host, _, _ = (parts.hostname or "").partition(":")
        for _, suffix in _SUFFIXES:
            found = _STS_HOST.fullmatch(host.removesuffix(f".{suffix}"))
            own = found and host.endswith(f".{suffix}") and port in {None, 443}
            if own and parts.scheme == "https" and parts.path in {"", "/"} and not parts.query:
                return f"https://{host}", False
        raise foreign

    async def _own(self, sts: tuple[str, bool], proxy: Proxy | None) -> SessionKeys:
        variable = self.services.variable
        if variable("AWS_ACCESS_KEY_ID") and variable("AWS_SECRET_ACCESS_KEY"):
            return SessionKeys(
                access_key=variable("AWS_ACCESS_KEY_ID"),
                secret_key=variable("AWS_SECRET_ACCESS_KEY"),
                session_token=variable("AWS_SESSION_TOKEN"),
                expires_at=self.services.now() + UNKNOWN_LIFE,
            )
        file, role = variable("AWS_WEB_IDENTITY_TOKEN_FILE"), variable("AWS_ROLE_ARN")
        if file and role:
            token = await self.services.file(file, named_by="AWS_WEB_IDENTITY_TOKEN_FILE")
            name = variable("AWS_ROLE_SESSION_NAME") or "penstock"
            return await self._assume(
                "this process", role=role, session=name, token=token, sts=sts, proxy=proxy
            )
        if variable("AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"):
            return await self._container()
        return await self._node_keys()

    async def _assume(  # noqa: PLR0913  # the parts of the request
        self,
        who: str,
        *,
        role: str,
        session: str,
        token: str,
        sts: tuple[str, bool],
        proxy: Proxy | None,
    ) -> SessionKeys:
        """Exchange a token for keys (STS, AssumeRoleWithWebIdentity)."""
        purpose = f"{who} may not assume the role '{role}'; see its trust policy"
        headers, body = web.form(
            Action="AssumeRoleWithWebIdentity",
            Version="2011-06-15",
            RoleArn=role,
            RoleSessionName=_SESSION_NAME.sub("-", session)[:64],
            WebIdentityToken=token,
        )
        url, plain = sts
        answer = await self.services.web.ask(
            "POST",
            f"{url}/",
            purpose=purpose,
            headers={**headers, "Accept": "application/xml"},
            body=body,
            proxy=proxy,
            plain=plain,
        )
        text = answer.decode("utf-8", "replace")
        return SessionKeys(
            access_key=_element(text, "AccessKeyId", purpose),
            secret_key=_element(text, "SecretAccessKey", purpose),
            session_token=_element(text, "SessionToken", purpose),
            expires_at=moment(_element(text, "Expiration", purpose), purpose=purpose),
        )

    async def _container(self) -> SessionKeys:
        """Ask the agent of the container (EKS Pod Identity, ECS)."""
        purpose = "the container's credentials"
        variable = self.services.variable
        url = variable("AWS_CONTAINER_CREDENTIALS_FULL_URI")
        if not url:
            url = _ECS + variable("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI")
        parts = urlsplit(url)
        if parts.scheme != "https" and parts.hostname not in _CONTAINER_HOSTS | _LOOPBACK:
            raise CloudError(f"{purpose}: AWS_CONTAINER_CREDENTIALS_FULL_URI must be https")
        token = variable("AWS_CONTAINER_AUTHORIZATION_TOKEN")
        if file := variable("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"):
            token = await self.services.file(
                file, named_by="AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"
            )
        headers = {"Authorization": token} if token else {}
        answer = await self.services.web.ask_node("GET", url, purpose=purpose, headers=headers)
        return _from_json(web.decoded(answer, purpose=purpose), purpose=purpose)

    async def _node_keys(self) -> SessionKeys:
        """Ask for the credentials of the role of the node."""
        purpose = (
            "this process has no identity at AWS: give its ServiceAccount a role,"
            " or name one in the object's serviceAccountName"
        )
        path = "/latest/meta-data/iam/security-credentials/"
        role = (await self._node(path, purpose=purpose)).strip().partition("\n")[0]
        answer = await self._node(path + web.segment(role), purpose=purpose)
        return _from_json(web.decoded(answer.encode(), purpose=purpose), purpose=purpose)

    async def _node(self, path: str, *, purpose: str) -> str:
        """Query the metadata service of the node, with a session token (IMDSv2)."""
        if self.services.variable("AWS_EC2_METADATA_DISABLED").lower() == "true":
            raise CloudError(purpose)
        base = self.services.variable("AWS_EC2_METADATA_SERVICE_ENDPOINT").rstrip("/") or _NODE
        ask = self.services.web.ask_node
        life = {"X-aws-ec2-metadata-token-ttl-seconds": "60"}
        token = await ask("PUT", f"{base}/latest/api/token", purpose=purpose, headers=life)
        shown = {"X-aws-ec2-metadata-token": token.decode("ascii", "replace")}
        answer = await ask("GET", base + path, purpose=purpose, headers=shown)
        return answer.decode("utf-8", "replace")


def _role(who: Identity) -> str:
    role = who.annotations.get(ROLE, "")
    if not role:
        raise CloudError(f"{who} has no annotation '{ROLE}', which names the role to assume")
    if not _ROLE_ARN.fullmatch(role):
        raise CloudError(f"annotation '{ROLE}' of {who} is not the ARN of a role")
    return role


def _from_json(answer: Mapping[str, object], *, purpose: str) -> SessionKeys:
    fields = dict(answer)

    def value(name: str) -> str:
        return web.text_field(fields, name, purpose=purpose)

    return SessionKeys(
        access_key=value("AccessKeyId"),
        secret_key=value("SecretAccessKey"),
        session_token=value("Token"),
        expires_at=moment(value("Expiration"), purpose=purpose),
    )


def _element(text: str, name: str, purpose: str) -> str:
    """Return the text of the first element of that name; the answer needs no XML parser."""
    found = re.search(rf"<{name}>([^<]{{1,8192}})</{name}>", text)
    if not found:
        raise CloudError(f"{purpose}: the answer lacks '{name}'")
    return html.unescape(found[1]).strip()
