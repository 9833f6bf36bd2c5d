"""Names for impersonation: service-account users, and the provenance extras of writes.

Only Penstock's controllers have ``impersonate`` on ``userextras/provenance.penstock.dev/*``. So
admission can rely on the extras: this object comes from revision R of source S, verified by V.
Admission also compares them with the objects in the cluster (``toolkit.policy.claims``).
"""

import re
from typing import Final

PREFIX: Final = "provenance.penstock.dev/"
CLAIMS: Final = ("applier", "source", "revision", "digest", "verified")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")


def service_account(namespace: str, name: str) -> str:
    """Return the user name of a service account."""
    return f"system:serviceaccount:{namespace}:{name}"


def provenance(
    *, applier: str, source: str = "", revision: str = "", digest: str = "", verified: str = ""
) -> dict[str, str]:
    """Return the ``userInfo.extra`` of a write; an empty claim is not made at all.

    Claims travel in headers, so what no header can carry is escaped: a hostile Git server may call
    its branch anything.
    """
    claims = {
        "applier": applier,
        "source": source,
        "revision": revision,
        "digest": digest,
        "verified": verified,
    }
    return {PREFIX + key: escaped(value) for key, value in claims.items() if value}


def escaped(claim: str) -> str:
    """Return a claim as it travels, which is as admission sees it."""
    return _CONTROL.sub(_escape, claim)


def _escape(control: re.Match[str]) -> str:
    return f"\\x{ord(control[0]):02x}"
