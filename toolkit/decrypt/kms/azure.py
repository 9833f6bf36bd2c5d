"""Azure Key Vault (``azure_kv``), Managed HSMs too: ``decrypt`` with RSA-OAEP-256.

1. The vault is a host of Microsoft's, by https: a bearer token is worth as much to anyone it is
   sent to. Its domain decides what the token is for, not the challenge of the server.
2. Name and version are plain names.
3. An application (``sops.azure-kv``) shows its secret, or what its certificate's key signed, to
   Entra ID alone.
4. The key that the vault says it used must be the one that was named.
"""

import base64
import binascii
import json
import re
import uuid
from dataclasses import replace
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization

from toolkit.decrypt.errors import DecryptionError
from toolkit.decrypt.keys import TITLES, Recipient
from toolkit.decrypt.kms import asking, assertions, logins
from toolkit.decrypt.kms.logins import AzureApplication
from toolkit.decrypt.kms.ways import Access, Way, over, shown
from toolkit.errors import PenstockError
from toolkit.remote.cloud import web
from toolkit.remote.cloud.azuretokens import AzureTokens, lifetime
from toolkit.remote.cloud.identity import Bearer, Identity
from toolkit.remote.cloud.services import Services

ENTRY: Final = logins.AZURE

_PUBLIC, _CHINA, _GOVERNMENT = logins.AUTHORITIES
VAULTS: Final = (
    # domain, which is the audience of tokens, and where they are given out
    ("vault.azure.net", _PUBLIC),
    ("managedhsm.azure.net", _PUBLIC),
    ("vault.azure.cn", _CHINA),
    ("managedhsm.azure.cn", _CHINA),
    ("vault.usgovcloudapi.net", _GOVERNMENT),
    ("managedhsm.usgovcloudapi.net", _GOVERNMENT),
)
_LABEL: Final = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,62}[a-z0-9])?")
_KEY: Final = re.compile(r"[A-Za-z0-9-]{1,127}")
_API: Final = "7.4"
_ASSERTION: Final = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"


def ways(recipient: Recipient, access: Access, services: Services) -> list[Way]:
    """Return the ways to call Azure Key Vault.

    Raises:
        DecryptionError: the vault is not Microsoft's, or a name is invalid.
    """
    title = f"{TITLES['azure_kv']} key '{recipient.name}'"
    # 1. Whose is the vault?
    vault = logins.origin(recipient.field("vault_url")).removesuffix(":443")
    domain, authority = _domain(vault)
    if not domain:
        raise DecryptionError(f"{title} is not in a key vault of Azure")
    # 2. Which key is it?
    key, version = recipient.field("name"), recipient.field("version")
    if not _KEY.fullmatch(key) or (version and not _KEY.fullmatch(version)):
        raise DecryptionError(f"{title} is not the name of a key")
    path = f"/keys/{key}/{version}".rstrip("/")
    _require_base64(recipient.encrypted, title)

    async def ask(who: AzureApplication | Identity | None) -> bytes:
        question = asking.Question(
            key=title, who=shown(who, ENTRY), remedy="allow it the operation 'decrypt' on the key"
        )
        scope = f"https://{domain}/.default"
        try:
            token = await _token(who, scope, authority, services)
        except PenstockError as error:
            raise question.unsigned(error) from None
        answer = await asking.post(
            services.web.http,
            f"{vault}{path}/decrypt?api-version={_API}",
            json.dumps({"alg": "RSA-OAEP-256", "value": recipient.encrypted}).encode(),
            question=question,
            endpoint=replace(services.web.trust, bearer_token=token.token),
            headers={"Content-Type": "application/json"},
        )
        # 4. Was it this key?
        used = asking.text(answer, "kid", question=question)
        if used != f"{vault}{path}" and (version or not used.startswith(f"{vault}{path}/")):
            raise DecryptionError(f"{title} was requested, and another key responded")
        return _plain(asking.text(answer, "value", question=question), title)

    return over(access, [login.azure for login in access.logins], ask)


def _domain(vault: str) -> tuple[str, str]:
    """Return the domain of a vault and the authority for its tokens; empty if it is not known."""
    host = vault.removeprefix("https://")
    for domain, authority in VAULTS:
        label = host.removesuffix(f".{domain}")
        if label != host != vault and _LABEL.fullmatch(label):
            return domain, authority
    return "", ""


async def _token(
    who: AzureApplication | Identity | None, scope: str, authority: str, services: Services
) -> Bearer:
    if not isinstance(who, AzureApplication):
        return await AzureTokens(services=services).get(who, scope=scope, proxy=None)

    async def fetch() -> Bearer:
        purpose = (
            f"no token as application '{who.client}' of tenant '{who.tenant}':"
            f" see what '{ENTRY}' holds"
        )
        # 3. At Entra ID.
        url = f"{who.authority or authority}/{web.segment(who.tenant)}/oauth2/v2.0/token"
        headers, body = web.form(
            grant_type="client_credentials",
            client_id=who.client,
            scope=scope,
            **_proof(who, url, services),
        )
        answer = web.decoded(
            await services.web.ask("POST", url, purpose=purpose, headers=headers, body=body),
            purpose=purpose,
        )
        end = services.now() + lifetime(answer, purpose)
        return Bearer(token=web.text_field(answer, "access_token", purpose=purpose), expires_at=end)

    return await services.cache.get("azure", ("secret", who.digest, scope), fetch)


def _proof(who: AzureApplication, url: str, services: Services) -> dict[str, str]:
    """Return the client secret, or an assertion signed with the certificate's key."""
    if who.secret:
        return {"client_secret": who.secret}
    try:
        chain = x509.load_pem_x509_certificates(who.certificate.encode())
    except ValueError:
        raise DecryptionError(
            f"'clientCertificate' in '{ENTRY}' of the Secret is not a certificate"
        ) from None
    now = int(services.now().timestamp())
    head: dict[str, object] = {
        "x5t#S256": assertions.encoded(chain[0].fingerprint(hashes.SHA256()))
    }
    if who.chain:
        ders = (each.public_bytes(serialization.Encoding.DER) for each in chain)
        head["x5c"] = [base64.b64encode(der).decode() for der in ders]
    claims = {
        "aud": url,
        "iss": who.client,
        "sub": who.client,
        "jti": str(uuid.uuid4()),
        "nbf": now,
        "exp": now + 600,
    }
    token = assertions.sign("PS256", head, claims, pem=who.certificate, entry=ENTRY)
    return {"client_assertion_type": _ASSERTION, "client_assertion": token}


def _require_base64(text: str, title: str) -> None:
    try:
        _decoded(text)
    except (binascii.Error, ValueError):
        raise DecryptionError(f"the data key for {title} is not base64") from None


def _plain(text: str, title: str) -> bytes:
    try:
        return _decoded(text)
    except (binascii.Error, ValueError):
        raise DecryptionError(f"{title} sent an unreadable response") from None


def _decoded(text: str) -> bytes:
    """Read base64url without padding (RFC 7515)."""
    padded = text + "=" * (-len(text) % 4)
    return base64.b64decode(padded, altchars=b"-_", validate=True)
