"""AWS KMS (``kms``): ``Decrypt``, signed with SigV4.

1. The ARN is that of a key or an alias, and its region one of AWS's. The host is made from these
   alone.
2. The role of the document is assumed with the identity that signs in here, so AWS decides whether
   this identity may assume it. A profile of the document is one of its author's machine: it is not
   read.
3. The encryption context of the document is passed on; AWS binds the data key to it.
4. The key that AWS says it used must be the one that was named.
"""

import base64
import binascii
import html
import json
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final
from urllib.parse import urlencode

from toolkit.decrypt.errors import DecryptionError
from toolkit.decrypt.keys import TITLES, Recipient
from toolkit.decrypt.kms import asking, logins
from toolkit.decrypt.kms.logins import AwsUser
from toolkit.decrypt.kms.ways import Access, Way, over, shown
from toolkit.errors import PenstockError
from toolkit.remote.cloud import awskeys
from toolkit.remote.cloud.awskeys import AwsKeys
from toolkit.remote.cloud.errors import ForeignHostError
from toolkit.remote.cloud.identity import Identity
from toolkit.remote.cloud.services import Services
from toolkit.remote.cloud.sigv4 import Keys, Signer
from toolkit.remote.http import http
from toolkit.remote.http.http import Endpoint, HttpError

ENTRY: Final = logins.AWS

_ARN: Final = re.compile(
    r"arn:aws[a-z-]{0,16}:kms:(?P<region>[a-z0-9-]{1,40}):(?P<owner>[0-9]{12})"
    r":(?P<kind>key|alias)/[A-Za-z0-9/_-]{1,256}"
)
_ROLE: Final = re.compile(r"arn:aws[a-z-]{0,16}:iam::[0-9]{12}:role/[\w+=,.@/-]{1,512}")
_TARGET: Final = "TrentService.Decrypt"
_FORM: Final = "application/x-www-form-urlencoded"
_LIMIT: Final = 64 << 10


def ways(recipient: Recipient, access: Access, services: Services) -> list[Way]:
    """Return the ways to call AWS KMS.

    Raises:
        DecryptionError: the ARN, the role or the data key is invalid.
    """
    # 1. Where is it?
    arn = recipient.field("arn").strip()
    found = _ARN.fullmatch(arn)
    if not found:
        raise DecryptionError(f"{_title(recipient)} is not the ARN of a key of AWS KMS")
    try:
        region = awskeys.checked_region(found["region"])
    except ForeignHostError as error:
        raise DecryptionError(f"{_title(recipient)}: {error}") from None
    role = recipient.field("role").strip()
    if role and not _ROLE.fullmatch(role):
        raise DecryptionError(f"{_title(recipient)} has a role that is not the ARN of one")
    # 3. The context.
    context = {"EncryptionContext": dict(recipient.context)} if recipient.context else {}
    body = {"KeyId": arn, "CiphertextBlob": _checked(recipient), **context}

    async def ask(who: AwsUser | Identity | None) -> bytes:
        call = _Call(services, region, _question(recipient, shown(who, ENTRY)))
        keys = await call.keys(who)
        if role:
            keys = await call.assumed(role, keys)
        return await call.decrypt(keys, body, arn=arn if found["kind"] == "key" else "")

    return over(access, [login.aws for login in access.logins], ask)


class _Call:
    """Asks AWS in one region."""

    def __init__(self, services: Services, region: str, question: asking.Question) -> None:
        self._services = services
        self._region = region
        self._question = question

    async def keys(self, who: AwsUser | Identity | None) -> Keys:
        """Return the keys for the signature."""
        if isinstance(who, AwsUser):
            return who.keys
        try:
            session = await AwsKeys(services=self._services).get(
                who, region=self._region, proxy=None
            )
        except PenstockError as error:
            raise self._question.unsigned(error) from None
        return Keys(
            access_key=session.access_key,
            secret_key=session.secret_key,
            session_token=session.session_token,
        )

    async def assumed(self, role: str, keys: Keys) -> Keys:
        """Become the role of the document (STS, AssumeRole)."""
        # 2. With these keys and no others.
        url, endpoint = self._place("sts")
        form = {
            "Action": "AssumeRole",
            "Version": "2011-06-15",
            "RoleArn": role,
            "RoleSessionName": "penstock-sops",
            "DurationSeconds": "900",
        }
        body = urlencode(form).encode()
        headers = self._signed("sts", url, body, keys, {"Content-Type": _FORM})
        question = replace(
            self._question,
            key=f"role '{role}' for {self._question.key}",
            remedy="allow it sts:AssumeRole, and name it in the role's trust policy",
        )
        try:
            async with self._services.web.http.request(
                "POST", url, endpoint=endpoint, headers=headers, body=body, timeout=asking.SECONDS
            ) as response:
                answer = (await http.read(response, limit=_LIMIT)).decode("utf-8", "replace")
        except HttpError as error:
            raise question.refused(error) from None
        names = ("AccessKeyId", "SecretAccessKey", "SessionToken")
        found = [re.search(rf"<{name}>([^<]{{1,8192}})</{name}>", answer) for name in names]
        access, secret, token = (html.unescape(m[1]).strip() if m else "" for m in found)
        if not (access and secret and token):
            raise DecryptionError(f"{question.key}: the answer of STS lacks credentials")
        return Keys(access_key=access, secret_key=secret, session_token=token)

    async def decrypt(self, keys: Keys, body: Mapping[str, Any], *, arn: str) -> bytes:
        """Return the data key; ``arn`` is the key that must have decrypted it, if it is known."""
        url, endpoint = self._place("kms")
        sent = json.dumps(body).encode()
        given = {"Content-Type": "application/x-amz-json-1.1", "X-Amz-Target": _TARGET}
        answer = await asking.post(
            self._services.web.http,
            url,
            sent,
            question=self._question,
            endpoint=endpoint,
            headers=self._signed("kms", url, sent, keys, given),
        )
        # 4. Was it this key?
        if arn and asking.text(answer, "KeyId", question=self._question) != arn:
            raise DecryptionError(f"{self._question.key} was requested, and another key responded")
        plain = asking.text(answer, "Plaintext", question=self._question)
        try:
            return base64.b64decode(plain, validate=True)
        except (binascii.Error, ValueError):
            message = f"{self._question.key} sent an unreadable response"
            raise DecryptionError(message) from None

    def _place(self, service: str) -> tuple[str, Endpoint]:
        url, plain = AwsKeys(services=self._services).endpoint(service, self._region)
        return f"{url}/", replace(self._services.web.trust, plain_http=plain)

    def _signed(
        self, service: str, url: str, body: bytes, keys: Keys, headers: Mapping[str, str]
    ) -> dict[str, str]:
        signer = Signer(keys=keys, region=self._region, service=service)
        now = self._services.now()
        return signer.headers("POST", url, now=now, headers=headers, body=body)


def _checked(recipient: Recipient) -> str:
    try:
        base64.b64decode(recipient.encrypted, validate=True)
    except (binascii.Error, ValueError):
        raise DecryptionError(f"the data key for {_title(recipient)} is not base64") from None
    return recipient.encrypted


def _question(recipient: Recipient, who: str) -> asking.Question:
    return asking.Question(key=_title(recipient), who=who, remedy="allow it kms:Decrypt on the key")


def _title(recipient: Recipient) -> str:
    return f"{TITLES['kms']} key '{recipient.name}'"
