"""AWS KMS and the part of STS that lends roles, as they check requests (JSON 1.1, SigV4).

Ciphertext is bound to its key and its encryption context, as AWS's is; who may decrypt with a key
stands in ``allowed`` (ARNs of users, or of roles as which somebody is signed in).
"""

import base64
import json
import os
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qsl

from aiohttp import web
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from tests.fakes.cloudaws import Aws, Session
from tests.fakes.issuer import RefusedError

ARN = "arn:aws:kms:eu-west-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab"
ALIAS = "arn:aws:kms:eu-west-1:111122223333:alias/sops"
USER = "arn:aws:iam::111122223333:user/sops"

_XML = """<AssumeRoleResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleResult>
<Credentials><AccessKeyId>{key}</AccessKeyId><SecretAccessKey>{secret}</SecretAccessKey>
<SessionToken>{token}</SessionToken><Expiration>{end}</Expiration></Credentials>
</AssumeRoleResult></AssumeRoleResponse>"""


class KmsError(Exception):
    """What KMS calls the mistake; the status is 400, whatever it is."""


@dataclass
class AwsKms:
    """What KMS knows. ``trust`` by role: who may assume it. ``fault`` is answered instead."""

    aws: Aws
    keys: dict[str, bytes] = field(default_factory=lambda: {ARN: os.urandom(32)})
    aliases: dict[str, str] = field(default_factory=lambda: {ALIAS: ARN})
    allowed: set[str] = field(default_factory=set)
    trust: dict[str, set[str]] = field(default_factory=dict)
    fault: tuple[int, str] | None = None
    lies: str = ""
    asked: int = 0

    def user(self, arn: str = USER) -> dict[str, str]:
        """Return the credentials of a user, as Flux's Secret has them."""
        key = f"AKIA{secrets.token_hex(8).upper()}"
        self.aws.sessions[key] = Session(arn, secrets.token_hex(20), "")
        return {
            "aws_access_key_id": key,
            "aws_secret_access_key": self.aws.sessions[key].secret,
        }

    def encrypt(
        self, plain: bytes, arn: str = ARN, context: Mapping[str, str] | None = None
    ) -> str:
        """Return a ciphertext blob, base64, as SOPS keeps it."""
        key = self.aliases.get(arn, arn)
        nonce = os.urandom(12)
        bound = json.dumps(sorted((context or {}).items())).encode()
        sealed = AESGCM(self.keys[key]).encrypt(nonce, plain, bound)
        return base64.b64encode(key.encode() + b"\0" + nonce + sealed).decode()

    async def answer(self, request: web.BaseRequest, body: bytes) -> web.Response:
        """Answer as ``kms.<region>.amazonaws.com``."""
        self.asked += 1
        if self.fault:
            status, name = self.fault
            return web.json_response({"__type": f"com.amazonaws.kms#{name}"}, status=status)
        try:
            return web.json_response(self._do(request, body))
        except KmsError as error:
            return web.json_response({"__type": str(error), "message": "sentence"}, status=400)

    def _do(self, request: web.BaseRequest, body: bytes) -> dict[str, str]:
        found = re.match(r"kms\.([a-z0-9-]+)\.", request.host)
        region = found[1] if found else "eu-west-1"
        try:
            session = self.aws.signed(request, body, service="kms", region=region)
        except (RefusedError, KeyError):
            raise KmsError("UnrecognizedClientException") from None
        assert request.headers["Content-Type"] == "application/x-amz-json-1.1"
        asked = json.loads(body)
        arn = self.aliases.get(asked["KeyId"], asked["KeyId"])
        if session.arn not in self.allowed:
            raise KmsError("AccessDeniedException")
        if arn not in self.keys or f":{region}:" not in arn:
            raise KmsError("NotFoundException")
        context = asked.get("EncryptionContext") or {}
        if request.headers["X-Amz-Target"] == "TrentService.Encrypt":
            plain = base64.b64decode(asked["Plaintext"])
            return {"CiphertextBlob": self.encrypt(plain, arn, context), "KeyId": arn}
        assert request.headers["X-Amz-Target"] == "TrentService.Decrypt"
        return self._decrypt(asked["CiphertextBlob"], arn, context)

    def _decrypt(self, blob: str, arn: str, context: Mapping[str, str]) -> dict[str, str]:
        key, _, rest = base64.b64decode(blob).partition(b"\0")
        if key.decode("ascii", "replace") != arn:
            raise KmsError("IncorrectKeyException")
        bound = json.dumps(sorted(context.items())).encode()
        try:
            plain = AESGCM(self.keys[arn]).decrypt(rest[:12], rest[12:], bound)
        except InvalidTag:
            raise KmsError("InvalidCiphertextException") from None
        return {
            "KeyId": self.lies or arn,
            "Plaintext": base64.b64encode(plain).decode(),
            "EncryptionAlgorithm": "SYMMETRIC_DEFAULT",
        }

    async def sts(self, request: web.BaseRequest, body: bytes) -> web.Response:
        """Answer as ``sts.<region>.amazonaws.com``."""
        form = dict(parse_qsl(body.decode()))
        if form.get("Action") != "AssumeRole":
            return self.aws.assume(body)
        region = request.host.split(".")[1] if request.host.startswith("sts.") else "eu-west-1"
        session = self.aws.signed(request, body, service="sts", region=region)
        role = form["RoleArn"]
        if session.arn not in self.trust.get(role, ()):
            raise RefusedError("not authorized to perform: sts:AssumeRole")
        key, given = self.aws.session(role, name=form["RoleSessionName"])
        end = datetime.now(UTC) + timedelta(seconds=int(form["DurationSeconds"]))
        text = _XML.format(
            key=key, secret=given.secret, token=given.token, end=f"{end:%Y-%m-%dT%H:%M:%SZ}"
        )
        return web.Response(text=text, content_type="text/xml")
