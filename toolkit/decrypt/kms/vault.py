"""The transit engine of HashiCorp Vault and OpenBao (``hc_vault``).

The document names the server, and the token is sent to it. So the steps of ``ways``:

1. The address is that of a server, engine and key are plain names: only ``decrypt`` of a transit
   engine is requested.
2. If the Secret lists addresses (``sops.vault-address``), the server must be one of them. A user
   who may use the keys without reading them must not have the token sent to a server of their own,
   so outside a Kustomization the list is required.
3. Without a list, the server must prove its identity: the token is never sent without TLS.

Vault's own environment (``VAULT_ADDR``, ``VAULT_TOKEN``) is not read, because no object may use it,
and redirects are not followed. The HTTP client refuses the metadata server of the node.
"""

import base64
import binascii
import json
import re
from typing import Final

from toolkit.decrypt.errors import DecryptionError
from toolkit.decrypt.keys import TITLES, Recipient
from toolkit.decrypt.kms import asking, logins
from toolkit.decrypt.kms.logins import VaultToken
from toolkit.decrypt.kms.ways import Access, Way, over, shown
from toolkit.remote.cloud.identity import Identity
from toolkit.remote.cloud.services import Services
from toolkit.remote.http.http import Endpoint

ENTRY: Final = logins.VAULT

_NAME: Final = r"(?!\.{1,2}(?:/|$))[\w.-]{1,128}"
_KEY: Final = re.compile(_NAME)
_ENGINE: Final = re.compile(f"{_NAME}(?:/{_NAME}){{0,7}}")


def ways(recipient: Recipient, access: Access, services: Services) -> list[Way]:
    """Return the ways to call a transit engine.

    Raises:
        DecryptionError: the address, the engine or the key is not allowed.
    """
    # 1. Validate address, engine and key.
    address = logins.origin(recipient.field("vault_address"))
    engine, key = recipient.field("engine_path").strip("/"), recipient.field("key_name")
    if not address or not _ENGINE.fullmatch(engine) or not _KEY.fullmatch(key):
        raise DecryptionError(f"{_title(recipient)} is not the key of a transit engine")

    async def ask(who: VaultToken | Identity | None) -> bytes:
        if not isinstance(who, VaultToken):
            raise DecryptionError(f"{_title(recipient)} can only be used with a token")
        # 2. and 3. Is the token for this server?
        _require_allowed(address, who, listed=access.listed, recipient=recipient)
        question = asking.Question(
            key=_title(recipient),
            who=shown(who, ENTRY),
            remedy=f"allow its policy 'update' on '{engine}/decrypt/{key}'",
        )
        endpoint = Endpoint(ca=who.ca, plain_http=address.startswith("http://"))
        answer = await asking.post(
            services.web.http,
            f"{address}/v1/{engine}/decrypt/{key}",
            json.dumps({"ciphertext": recipient.encrypted}).encode(),
            question=question,
            endpoint=endpoint,
            headers={
                "Content-Type": "application/json",
                "X-Vault-Token": who.token,
                "X-Vault-Request": "true",
            },
        )
        return _plain(asking.text(answer, "data", "plaintext", question=question), question)

    # This process has no token, and an account none that a Vault takes without being asked first.
    return over(Access(logins=access.logins), [login.vault for login in access.logins], ask)


def _require_allowed(address: str, who: VaultToken, *, listed: bool, recipient: Recipient) -> None:
    if address in who.addresses:
        return
    if who.addresses or listed:
        raise DecryptionError(
            f"{_title(recipient)} is not contacted, because the token is not for that server: list "
            f"the address under '{logins.VAULT_ADDRESS}' in the Secret if it is"
        )
    if not address.startswith("https://"):
        raise DecryptionError(
            f"{_title(recipient)} is not contacted without TLS: use https, or list the address "
            f"under '{logins.VAULT_ADDRESS}' in the Secret"
        )


def _title(recipient: Recipient) -> str:
    return f"{TITLES['hc_vault']} key '{recipient.name}'"


def _plain(encoded: str, question: asking.Question) -> bytes:
    try:
        return base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        raise DecryptionError(f"{question.key} sent an unreadable response") from None
