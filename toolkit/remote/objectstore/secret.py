"""Credentials for object stores, from a Secret in the format of Flux.

Input: bytes. Output: a value whose ``repr`` never shows secrets.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from toolkit.remote import proxy
from toolkit.remote.errors import AuthError
from toolkit.remote.objectstore.errors import CredentialsError
from toolkit.remote.objectstore.place import (
    AzureClient,
    AzureKey,
    AzureSas,
    Credentials,
    GcsServiceAccount,
    LdapIdentity,
    Provider,
    S3Keys,
)

Data = Mapping[str, bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class Trust:
    """The CA and the client certificate, as PEM, from ``certSecretRef``."""

    ca: bytes | None = field(default=None, repr=False)
    client_cert: bytes | None = field(default=None, repr=False)
    client_key: bytes | None = field(default=None, repr=False)


def credentials(provider: Provider, data: Data) -> Credentials:
    """Read ``spec.secretRef`` of a Bucket.

    Raises:
        CredentialsError: keys are missing or not text.
    """
    return _READERS[provider](data)


def trust(data: Data) -> Trust:
    """Read ``certSecretRef``; the older names ``caFile``, ``certFile``, ``keyFile`` count too.

    Raises:
        CredentialsError: only half a client certificate, or nothing at all.
    """
    ca = data.get("ca.crt") or data.get("caFile")
    cert = data.get("tls.crt") or data.get("certFile")
    key = data.get("tls.key") or data.get("keyFile")
    if bool(cert) != bool(key):
        raise CredentialsError(
            "the secret has only one of 'tls.crt' and 'tls.key': a client certificate needs both"
        )
    if not ca and not cert:
        raise CredentialsError("the secret needs 'ca.crt', or 'tls.crt' and 'tls.key'")
    return Trust(ca=ca or None, client_cert=cert or None, client_key=key or None)


def ldap(endpoint: str, data: Data, trusted: Trust) -> LdapIdentity:
    """Read ``spec.sts.secretRef`` of a Bucket.

    Raises:
        CredentialsError: ``username`` or ``password`` is missing.
    """
    return LdapIdentity(
        endpoint=endpoint,
        username=_needed(data, "username", "password"),
        password=_needed(data, "password", "username"),
        ca=trusted.ca,
        client_cert=trusted.client_cert,
        client_key=trusted.client_key,
    )


def _s3(data: Data) -> S3Keys:
    return S3Keys(
        access_key=_needed(data, "accesskey", "secretkey"),
        secret_key=_needed(data, "secretkey", "accesskey"),
    )


def _google(data: Data) -> GcsServiceAccount:
    key = data.get("serviceaccount")
    if not key:
        raise CredentialsError("the secret needs 'serviceaccount', the JSON key of one")
    return GcsServiceAccount(key=key)


def _azure(data: Data) -> Credentials:
    """Take the first that is complete, in Flux's order (``azure.NewClient``)."""
    tenant, client = _text(data, "tenantId"), _text(data, "clientId")
    secret, certificate = _text(data, "clientSecret"), data.get("clientCertificate")
    if tenant and client and (secret or certificate):
        authority = _text(data, "authorityHost")
        return AzureClient(
            tenant_id=tenant,
            client_id=client,
            secret=secret,
            certificate=None if secret else certificate,
            certificate_password=data.get("clientCertificatePassword"),
            send_chain=(_text(data, "clientCertificateSendChain") or "").lower() in ("1", "true"),
            **({"authority_host": authority} if authority else {}),
        )
    if client and not tenant:
        raise CredentialsError(
            "'clientId' alone in the secret means a managed identity of the node, which no object "
            "may use: name a ServiceAccount in spec.serviceAccountName"
        )
    if key := _text(data, "accountKey"):
        return AzureKey(key=key)
    if sas := _text(data, "sasKey"):
        return AzureSas(token=sas)
    raise CredentialsError(
        "the secret needs 'accountKey', 'sasKey', or 'tenantId' and 'clientId' with 'clientSecret' "
        "or 'clientCertificate'"
    )


_READERS: Final[Mapping[Provider, Callable[[Data], Credentials]]] = MappingProxyType(
    {"generic": _s3, "aws": _s3, "gcp": _google, "azure": _azure}
)


def _needed(data: Data, key: str, other: str) -> str:
    value = _text(data, key)
    if value is None:
        raise CredentialsError(f"the secret needs '{key}' and '{other}', and lacks '{key}'")
    return value


def _text(data: Data, key: str) -> str | None:
    try:
        return proxy.text(data, key)
    except AuthError as exc:
        raise CredentialsError(str(exc)) from exc
