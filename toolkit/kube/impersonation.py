"""Names for impersonation: service-account users, and the provenance that writes carry.

Only our controllers hold ``impersonate`` on ``userextras/provenance.penstock.dev/*``, so admission
may believe the extras: this object comes from revision R of source S, verified by V.
"""

from typing import Final

PREFIX: Final = "provenance.penstock.dev/"
CLAIMS: Final = ("applier", "source", "revision", "digest", "verified")


def service_account(namespace: str, name: str) -> str:
    """Return the user name of a service account."""
    return f"system:serviceaccount:{namespace}:{name}"


def provenance(
    *, applier: str, source: str, revision: str, digest: str, verified: str
) -> dict[str, str]:
    """Return the ``userInfo.extra`` of a write; an empty claim is not made at all."""
    claims = {
        "applier": applier,
        "source": source,
        "revision": revision,
        "digest": digest,
        "verified": verified,
    }
    return {PREFIX + key: value for key, value in claims.items() if value}
