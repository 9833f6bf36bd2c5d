"""Google Cloud KMS (``gcp_kms``): ``decrypt`` of a crypto key.

1. The resource is a crypto key's name, part by part; the host is Google's, whatever it says.
2. A service account's key (``sops.gcp-kms``) is exchanged for a token at Google's own address, not
   at the one in the file: anyone who wrote the Secret would otherwise choose whom we ask.
"""

import base64
import binascii
import json
import re
from dataclasses import replace
from datetime import timedelta
from typing import Final

from toolkit.decrypt.errors import DecryptionError
from toolkit.decrypt.keys import TITLES, Recipient
from toolkit.decrypt.kms import asking, assertions, logins
from toolkit.decrypt.kms.logins import GoogleAccount
from toolkit.decrypt.kms.ways import Access, Way, over, shown
from toolkit.errors import PenstockError
from toolkit.remote.cloud import web
from toolkit.remote.cloud.azuretokens import lifetime
from toolkit.remote.cloud.gcptokens import GcpTokens
from toolkit.remote.cloud.identity import Bearer, Identity
from toolkit.remote.cloud.services import Services

ENTRY: Final = logins.GOOGLE

_PART: Final = r"[A-Za-z0-9_.:-]{1,128}"
_RESOURCE: Final = re.compile(
    rf"projects/{_PART}/locations/{_PART}/keyRings/{_PART}/cryptoKeys/{_PART}"
)
_SCOPE: Final = "https://www.googleapis.com/auth/cloudkms"
_TOKENS: Final = "https://oauth2.googleapis.com/token"
_GRANT: Final = "urn:ietf:params:oauth:grant-type:jwt-bearer"
_LIFE: Final = timedelta(hours=1)


def ways(recipient: Recipient, access: Access, services: Services) -> list[Way]:
    """Return the ways to call Google Cloud KMS.

    Raises:
        DecryptionError: the resource is not the name of a key, or the data key is not base64.
    """
    # 1. Which key is it?
    name = recipient.field("resource_id").strip()
    title = f"{TITLES['gcp_kms']} key '{recipient.name}'"
    if not _RESOURCE.fullmatch(name) or ".." in name:
        raise DecryptionError(f"{title} is not the name of a crypto key")
    try:
        base64.b64decode(recipient.encrypted, validate=True)
    except (binascii.Error, ValueError):
        raise DecryptionError(f"the data key for {title} is not base64") from None

    async def ask(who: GoogleAccount | Identity | None) -> bytes:
        question = asking.Question(
            key=title,
            who=shown(who, ENTRY),
            remedy="grant it roles/cloudkms.cryptoKeyDecrypter on the key",
        )
        try:
            token = await _token(who, services)
        except PenstockError as error:
            raise question.unsigned(error) from None
        url, plain = GcpTokens(services=services).endpoint("cloudkms")
        answer = await asking.post(
            services.web.http,
            f"{url}/v1/{name}:decrypt",
            json.dumps({"ciphertext": recipient.encrypted}).encode(),
            question=question,
            endpoint=replace(services.web.trust, bearer_token=token.token, plain_http=plain),
            headers={"Content-Type": "application/json"},
        )
        try:
            encoded = asking.text(answer, "plaintext", question=question)
            return base64.b64decode(encoded, validate=True)
        except (binascii.Error, ValueError):
            raise DecryptionError(f"{title} sent an unreadable response") from None

    return over(access, [login.google for login in access.logins], ask)


async def _token(who: GoogleAccount | Identity | None, services: Services) -> Bearer:
    if not isinstance(who, GoogleAccount):
        return await GcpTokens(services=services).get(who, proxy=None)

    async def fetch() -> Bearer:
        purpose = f"'{who.email}' gets no token: see its key in '{ENTRY}'"
        # 2. At Google.
        headers, body = web.form(grant_type=_GRANT, assertion=_assertion(who, services))
        answer = web.decoded(
            await services.web.ask("POST", _TOKENS, purpose=purpose, headers=headers, body=body),
            purpose=purpose,
        )
        end = services.now() + lifetime(answer, purpose)
        return Bearer(token=web.text_field(answer, "access_token", purpose=purpose), expires_at=end)

    return await services.cache.get("gcp", ("key", who.digest), fetch)


def _assertion(who: GoogleAccount, services: Services) -> str:
    now = services.now()
    claims = {
        "iss": who.email,
        "scope": _SCOPE,
        "aud": _TOKENS,
        "iat": int(now.timestamp()),
        "exp": int((now + _LIFE).timestamp()),
    }
    return assertions.sign("RS256", {"kid": who.key_id}, claims, pem=who.key, entry=ENTRY)
