"""AWS as it checks requests: STS, ECR, EKS, and the metadata service of a node."""

import base64
import hashlib
import hmac
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qs, parse_qsl, quote, unquote, urlsplit

from aiohttp import web

from tests.fakes.issuer import Json, RefusedError

_XML = """<AssumeRoleWithWebIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/">
<AssumeRoleWithWebIdentityResult><Credentials><AccessKeyId>{key}</AccessKeyId>
<SecretAccessKey>{secret}</SecretAccessKey><SessionToken>{token}</SessionToken>
<Expiration>{end}</Expiration></Credentials></AssumeRoleWithWebIdentityResult>
</AssumeRoleWithWebIdentityResponse>"""


@dataclass
class Session:
    """Keys that were given out, and as whom they act."""

    arn: str
    secret: str
    token: str
    name: str = ""


@dataclass
class Aws:
    """What AWS knows; ``roles`` are those that a web identity may assume: issuer and subject."""

    claims: Callable[[str, str, str], Json]
    roles: dict[str, tuple[str, str]] = field(default_factory=dict)
    sessions: dict[str, Session] = field(default_factory=dict)
    clusters: dict[str, tuple[str, str]] = field(default_factory=dict)
    seconds: int = 3600
    node_role: str = ""
    container_token: str = ""
    _node_tokens: set[str] = field(default_factory=set)

    def session(self, arn: str, *, name: str = "") -> tuple[str, Session]:
        """Give out keys."""
        key = f"ASIA{secrets.token_hex(8).upper()}"
        self.sessions[key] = Session(arn, secrets.token_hex(20), secrets.token_hex(30), name)
        return key, self.sessions[key]

    async def answer(self, request: web.BaseRequest, body: bytes) -> web.Response:
        """Answer a request to a service."""
        host = request.host
        if host.startswith("sts."):
            return self.assume(body)
        service, region = _service(host)
        session = self.signed(request, body, service=service, region=region)
        if service == "eks":
            return self._describe(request.path.removeprefix("/clusters/"))
        return self._login(request, session, public=service == "ecr-public")

    def assume(self, body: bytes) -> web.Response:
        form = dict(parse_qsl(body.decode()))
        issuer, subject = self.roles.get(form["RoleArn"], ("", ""))
        claims = self.claims(form["WebIdentityToken"], issuer, "sts.amazonaws.com")
        if form["Action"] != "AssumeRoleWithWebIdentity" or claims["sub"] != subject:
            raise RefusedError("Not authorized to perform sts:AssumeRoleWithWebIdentity")
        if not 2 <= len(form["RoleSessionName"]) <= 64:
            raise RefusedError("roleSessionName is too long")
        key, session = self.session(form["RoleArn"], name=form["RoleSessionName"])
        end = datetime.now(UTC) + timedelta(seconds=self.seconds)
        text = _XML.format(
            key=key, secret=session.secret, token=session.token, end=f"{end:%Y-%m-%dT%H:%M:%SZ}"
        )
        return web.Response(text=text, content_type="text/xml")

    def _login(self, request: web.BaseRequest, session: Session, *, public: bool) -> web.Response:
        target = request.headers["X-Amz-Target"]
        wanted = "SpencerFrontendService" if public else "AmazonEC2ContainerRegistry_V20150921"
        if target != f"{wanted}.GetAuthorizationToken":
            raise RefusedError(f"unknown operation {target}")
        token = base64.b64encode(f"AWS:login-of-{session.arn}".encode()).decode()
        data: Json = {"authorizationToken": token}
        data["expiresAt"] = (datetime.now(UTC) + timedelta(hours=12)).timestamp()
        return web.json_response({"authorizationData": data if public else [data]})

    def _describe(self, name: str) -> web.Response:
        if name not in self.clusters:
            return web.json_response({"message": f"No cluster found for name: {name}."}, status=404)
        endpoint, ca = self.clusters[name]
        data = base64.b64encode(ca.encode()).decode()
        body = {"cluster": {"endpoint": endpoint, "certificateAuthority": {"data": data}}}
        return web.json_response(body)

    async def node(self, request: web.BaseRequest, _: bytes) -> web.Response:
        """Answer as the container's agent, or as the metadata service (IMDSv2 only)."""
        if request.path == "/container":
            if request.headers.get("Authorization") != self.container_token:
                raise RefusedError("no token of the pod")
            return self._keys("arn:aws:iam::111122223333:role/pod")
        return self._metadata(request)

    def _metadata(self, request: web.BaseRequest) -> web.Response:
        if request.method == "PUT" and request.path == "/latest/api/token":
            assert 1 <= int(request.headers["X-aws-ec2-metadata-token-ttl-seconds"]) <= 21600
            self._node_tokens.add(token := secrets.token_hex(16))
            return web.Response(text=token)
        if request.headers.get("X-aws-ec2-metadata-token") not in self._node_tokens:
            return web.Response(status=401)
        if request.path == "/latest/meta-data/placement/region":
            return web.Response(text="eu-west-1")
        path = "/latest/meta-data/iam/security-credentials/"
        if not self.node_role or not request.path.startswith(path):
            return web.Response(status=404)
        if request.path == path:
            return web.Response(text=self.node_role)
        return self._keys(f"arn:aws:iam::111122223333:role/{self.node_role}")

    def _keys(self, arn: str) -> web.Response:
        key, session = self.session(arn)
        end = datetime.now(UTC) + timedelta(seconds=self.seconds)
        return web.json_response(
            {
                "AccessKeyId": key,
                "SecretAccessKey": session.secret,
                "Token": session.token,
                "Expiration": f"{end:%Y-%m-%dT%H:%M:%SZ}",
            }
        )

    # Signatures, from the specification and not by the product's code.

    def signed(
        self, request: web.BaseRequest, body: bytes, *, service: str, region: str
    ) -> Session:
        """Return whose keys signed a request with its headers."""
        given = request.headers.get("Authorization", "")
        if not given.startswith("AWS4-HMAC-SHA256 "):
            raise RefusedError("Missing Authentication Token")
        fields = dict(part.strip().split("=", 1) for part in given.partition(" ")[2].split(","))
        key, day, *scope = fields["Credential"].split("/")
        stamp = request.headers["X-Amz-Date"]
        session = self.sessions[key]
        names = fields["SignedHeaders"].split(";")
        required = {n.lower() for n in request.headers if n.lower().startswith("x-amz-")}
        if not required | {"host"} <= set(names):
            raise RefusedError("headers are not signed")
        lines = "".join(f"{name}:{request.headers[name].strip()}\n" for name in names)
        canonical = (
            f"{request.method}\n{quote(unquote(request.path), safe='/-_.~')}\n\n{lines}\n"
            f"{';'.join(names)}\n{hashlib.sha256(body).hexdigest()}"
        )
        self._check(session, canonical, stamp, day, scope, fields["Signature"])
        if scope != [region, service, "aws4_request"]:
            raise RefusedError(f"Credential should be scoped to {region} and {service}")
        if request.headers.get("X-Amz-Security-Token", "") != session.token:
            raise RefusedError("The security token included in the request is invalid")
        return session

    def caller(self, token: str, *, cluster: str) -> str:
        """Return who enters an EKS cluster, as its authenticator finds out."""
        assert token.startswith("k8s-aws-v1.")
        encoded = token.removeprefix("k8s-aws-v1.")
        url = base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)).decode()
        parts = urlsplit(url)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        assert query["Action"] == "GetCallerIdentity"
        key, day, *scope = query["X-Amz-Credential"].split("/")
        session = self.sessions[key]
        assert query["X-Amz-Security-Token"] == session.token
        assert query["X-Amz-SignedHeaders"] == "host;x-k8s-aws-id"
        pairs = sorted(
            (quote(n, safe="-_.~"), quote(v, safe="-_.~"))
            for n, v in query.items()
            if n != "X-Amz-Signature"
        )
        canonical = (
            f"GET\n/\n{'&'.join(f'{n}={v}' for n, v in pairs)}\nhost:{parts.netloc}\n"
            f"x-k8s-aws-id:{cluster}\n\nhost;x-k8s-aws-id\n{hashlib.sha256(b'').hexdigest()}"
        )
        signature = query["X-Amz-Signature"]
        self._check(session, canonical, query["X-Amz-Date"], day, scope, signature)
        return session.arn

    def check_git(self, key: str, password: str, url: str) -> None:
        """Check a login for CodeCommit, as ``git-remote-codecommit`` makes them."""
        stamp, signature = password[:16], password[16:]
        parts = urlsplit(url)
        region = parts.netloc.split(".")[1]
        canonical = f"GIT\n{parts.path}\n\nhost:{parts.netloc}\n\nhost\n"
        digest = hashlib.sha256(canonical.encode()).hexdigest()
        scope = f"{stamp[:8]}/{region}/codecommit/aws4_request"
        text = f"AWS4-HMAC-SHA256\n{stamp.rstrip('Z')}\n{scope}\n{digest}"
        mac = f"AWS4{self.sessions[key].secret}".encode()
        for part in scope.split("/"):
            mac = hmac.digest(mac, part.encode(), "sha256")
        assert hmac.digest(mac, text.encode(), "sha256").hex() == signature

    def _check(  # noqa: PLR0917 - the parts of a signature
        self,
        session: Session,
        canonical: str,
        stamp: str,
        day: str,
        scope: list[str],
        signature: str,
    ) -> None:
        then = datetime.strptime(stamp, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
        if abs((datetime.now(UTC) - then).total_seconds()) > 300 or not stamp.startswith(day):
            raise RefusedError("Signature expired")
        digest = hashlib.sha256(canonical.encode()).hexdigest()
        text = f"AWS4-HMAC-SHA256\n{stamp}\n{day}/{'/'.join(scope)}\n{digest}"
        key = f"AWS4{session.secret}".encode()
        for part in (day, *scope):
            key = hmac.digest(key, part.encode(), "sha256")
        if not hmac.compare_digest(hmac.digest(key, text.encode(), "sha256").hex(), signature):
            raise RefusedError("The request signature we calculated does not match")


def _service(host: str) -> tuple[str, str]:
    parts = host.split(".")
    if parts[0] == "api":
        return parts[1], parts[2]
    return parts[0].removesuffix("-fips"), parts[1]
