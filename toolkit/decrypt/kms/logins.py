"""The entries of a Secret for key services: Flux's entries, and two for Vault.

``sops.aws-kms``, ``sops.azure-kv``, ``sops.gcp-kms`` and ``sops.vault-token`` are Flux's, with the
same formats (kustomize-controller, internal/decryptor). Entries that would use the identity or the
files of this process are refused by name: a managed identity, and Google's ``external_account``.
Pure; no message contains a value.
"""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

from toolkit import untrusted
from toolkit.decrypt.errors import DecryptionError
from toolkit.remote.cloud.sigv4 import Keys

AWS: Final = "sops.aws-kms"
AZURE: Final = "sops.azure-kv"
GOOGLE: Final = "sops.gcp-kms"
VAULT: Final = "sops.vault-token"
VAULT_ADDRESS: Final = "sops.vault-address"
"""The Vaults that the token is for, one a line."""
VAULT_CA: Final = "sops.vault-ca"
"""PEM: the authorities for Vault's certificate, instead of the system's."""

AUTHORITIES: Final = (
    "https://login.microsoftonline.com",
    "https://login.chinacloudapi.cn",
    "https://login.microsoftonline.us",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AwsUser:
    """Keys of a user or a session; ``digest`` tells it from others, as in all that follow."""

    keys: Keys = field(repr=False)
    digest: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class AzureApplication:
    """An application of Entra ID with its secret, or without one its certificate and key (PEM).

    ``authority`` empty is that of the vault. ``chain`` is whether the certificate is shown whole,
    for applications that trust its issuer and name.
    """

    tenant: str
    client: str
    secret: str = field(repr=False)
    certificate: str = field(repr=False)
    chain: bool
    authority: str
    digest: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class GoogleAccount:
    """A service account of Google with its private key, PEM."""

    email: str
    key: str = field(repr=False)
    key_id: str
    digest: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class VaultToken:
    """A token; without ``addresses`` it is for the addresses that the document names."""

    token: str = field(repr=False)
    addresses: tuple[str, ...]
    ca: bytes | None
    digest: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Logins:
    """The entries of one Secret."""

    aws: AwsUser | None = None
    azure: AzureApplication | None = None
    google: GoogleAccount | None = None
    vault: VaultToken | None = None


def from_secret(data: Mapping[str, bytes]) -> Logins:
    """Parse the entries; others are ignored.

    Raises:
        DecryptionError: an entry is invalid, or would use an identity of this process.
    """
    return Logins(
        aws=_aws(data[AWS]) if AWS in data else None,
        azure=_azure(data[AZURE]) if AZURE in data else None,
        google=_google(data[GOOGLE]) if GOOGLE in data else None,
        vault=_vault(data) if VAULT in data else None,
    )


_ENTRY: Final = untrusted.Bounds(size=64 << 10, depth=16, nodes=2_000)
_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]{0,127}")
_EMAIL: Final = re.compile(r"[\w.+-]{1,128}@[\w.-]{1,128}")
_MAX_ADDRESSES: Final = 16


def _aws(raw: bytes) -> AwsUser:
    given = _mapping(AWS, raw)
    key, secret = given.get("aws_access_key_id"), given.get("aws_secret_access_key")
    if not key or not secret:
        raise _useless(AWS, "it takes 'aws_access_key_id' and 'aws_secret_access_key'")
    token = given.get("aws_session_token", "")
    return AwsUser(
        keys=Keys(access_key=key, secret_key=secret, session_token=token), digest=_digest(raw)
    )


def _azure(raw: bytes) -> AzureApplication:
    given = _mapping(AZURE, raw)
    # In the form of `az ad sp create-for-rbac`, or with the names of the SDK.
    tenant = given.get("tenantId") or given.get("tenant", "")
    client = given.get("clientId") or given.get("appId", "")
    secret = given.get("clientSecret") or given.get("password", "")
    certificate = given.get("clientCertificate", "")
    if given.get("clientCertificatePassword"):
        raise _useless(
            AZURE, "a certificate takes no password here: give its key in PEM without one"
        )
    if client and not tenant:
        raise _useless(
            AZURE,
            "a Secret cannot use a managed identity: name an account in"
            " spec.decryption.serviceAccountName",
        )
    if not _ID.fullmatch(tenant) or not _ID.fullmatch(client) or not (secret or certificate):
        raise _useless(
            AZURE, "it takes 'tenantId', 'clientId' and 'clientSecret' or 'clientCertificate'"
        )
    authority = given.get("authorityHost", "").rstrip("/")
    if authority and authority not in AUTHORITIES:
        raise _useless(AZURE, f"'authorityHost' is not one of {', '.join(AUTHORITIES)}")
    return AzureApplication(
        tenant=tenant,
        client=client,
        secret=secret,
        certificate=certificate,
        chain=given.get("clientCertificateSendChain") == "true",
        authority=authority,
        digest=_digest(raw),
    )


def _google(raw: bytes) -> GoogleAccount:
    given = _mapping(GOOGLE, raw)
    kind = given.get("type", "")
    if kind != "service_account":
        # external_account names files, URLs and programs of the machine that reads it.
        shown = kind if re.fullmatch(r"[a-z_]{1,40}", kind) else "another one"
        raise _useless(GOOGLE, f"it takes the key of a service_account, not {shown}")
    email, key = given.get("client_email", ""), given.get("private_key", "")
    if not _EMAIL.fullmatch(email) or not key:
        raise _useless(GOOGLE, "it lacks 'client_email' or 'private_key'")
    return GoogleAccount(
        email=email, key=key, key_id=given.get("private_key_id", ""), digest=_digest(raw)
    )


def _vault(data: Mapping[str, bytes]) -> VaultToken:
    token = data[VAULT].decode("ascii", "replace").strip()
    if not token.isascii() or not token.isprintable() or not token:
        raise _useless(VAULT, "it is empty, or has characters that no header can carry")
    listed = data.get(VAULT_ADDRESS, b"").decode("utf-8", "replace").split()
    if len(listed) > _MAX_ADDRESSES:
        raise _useless(VAULT_ADDRESS, f"it has more than {_MAX_ADDRESSES} addresses")
    ca = data.get(VAULT_CA)
    return VaultToken(
        token=token,
        addresses=tuple(_origin_of(address) for address in listed),
        ca=ca,
        digest=_digest(b"\0".join((data[VAULT], ca or b""))),
    )


def origin(address: str) -> str:
    """Return scheme, host and port of a URL in a normal form; empty if it is invalid."""
    try:
        parts = urlsplit(address)
        port = parts.port or {"https": 443, "http": 80}.get(parts.scheme, 0)
    except ValueError:
        return ""
    host = parts.hostname or ""
    plain = parts.path in {"", "/"} and not parts.query and not parts.fragment
    if not plain or not port or "@" in parts.netloc or not re.fullmatch(r"[a-z0-9.:-]+", host):
        return ""
    return f"{parts.scheme}://{f'[{host}]' if ':' in host else host}:{port}"


def _origin_of(address: str) -> str:
    found = origin(address)
    if not found:
        raise _useless(
            VAULT_ADDRESS,
            "a line of it is not the address of a server, as in https://vault.example:8200",
        )
    return found


def _mapping(entry: str, raw: bytes) -> dict[str, str]:
    """Parse a YAML or JSON mapping of strings; ``az`` may write UTF-16 under PowerShell."""
    utf16 = raw[:2] in (b"\xff\xfe", b"\xfe\xff")
    try:
        text = raw.decode("utf-16").encode(errors="replace") if utf16 else raw
        given = untrusted.load_yaml(text, _ENTRY)
    except untrusted.UntrustedError as exc:
        raise _useless(entry, str(exc)) from exc
    except UnicodeError:
        raise _useless(entry, "it is not text") from None
    if not isinstance(given, dict):
        raise _useless(entry, "it is not a mapping")
    return {
        name: str(value).lower() if isinstance(value, bool) else value
        for name, value in given.items()
        if isinstance(value, str | bool)
    }


def _digest(raw: bytes) -> str:
    return hashlib.sha256(raw).hexdigest()


def _useless(entry: str, why: str) -> DecryptionError:
    return DecryptionError(f"cannot use the entry '{entry}' of the Secret: {why}")
