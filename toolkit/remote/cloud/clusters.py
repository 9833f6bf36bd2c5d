"""Choose the endpoint of a cluster, among those that its cloud provider returns.

An address in a ConfigMap can only choose among them: a token for the cluster, or for the whole
cloud, is never sent to a server that the cloud provider does not list.
"""

import base64
from dataclasses import dataclass, field
from datetime import datetime

from toolkit.remote.cloud.errors import CloudError
from toolkit.remote.cloud.identity import ClusterAccess, ClusterName


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """The endpoints of a cluster, the default first, each with its CA as PEM.

    Without a CA, the certificate of the endpoint is publicly trusted.
    """

    endpoints: tuple[tuple[str, bytes | None], ...] = field(repr=False)
    expires_at: datetime


def access(
    named: ClusterName, found: Description, *, token: str, expires_at: datetime
) -> ClusterAccess:
    """Return the access by the named endpoint, or by the default.

    Raises:
        CloudError: the cluster has no such endpoint.
    """
    wanted = origin(named.address) if named.address else ""
    for endpoint, ca in found.endpoints:
        if wanted in {"", origin(endpoint)}:
            return ClusterAccess(
                server=origin(endpoint), ca=named.ca or ca, token=token, expires_at=expires_at
            )
    known = ", ".join(origin(endpoint) for endpoint, _ in found.endpoints) or "none"
    raise CloudError(
        f"cluster '{named.cluster}' has no endpoint '{named.address}': leave the address out,"
        f" or name one of: {known}"
    )


def origin(address: str) -> str:
    """Return an address as ``https://host[:port]``, in lower case and without the usual port."""
    rest = address.lower().removeprefix("https://").rstrip("/").removesuffix(":443")
    return f"https://{rest}"


def pem(text: str, *, purpose: str) -> bytes:
    """Decode a CA as clouds give it: PEM in base64.

    Raises:
        CloudError: it is not base64.
    """
    try:
        return base64.b64decode(text, validate=True)
    except ValueError as exc:
        raise CloudError(f"{purpose}: the cluster's CA cannot be read") from exc
