"""Refuse a Secret that still contains ciphertext, so that none is stored by mistake.

If its label is missing, misspelt or removed, a Secret with ciphertext would look correct, but no
workload could use it. The guard sees the object as it would be stored, also after webhooks that run
behind this one. It has no selector, because a Secret without the label would not match one.
Instead the API server itself searches for the marker, so no other Secret depends on this process.
The exception is a Secret with thousands of entries: to search it costs more than an expression may.
"""

import asyncio
import base64
from typing import Final

from toolkit.decrypt import envelope, objects
from toolkit.decrypt.cipher import MARKER
from webhooks.plugin import Answer, Cause, Condition, DeniedError, Row, Rule
from webhooks.request import Request
from webhooks.services import Services


class CiphertextGuard:
    """Looks at Secrets in which the marker of SOPS was found."""

    @classmethod
    def make(cls, _: Services) -> "CiphertextGuard":
        """Need nothing of the process."""
        return cls()

    async def review(self, request: Request) -> Answer:
        """Deny ciphertext that the old object does not have."""
        secret = request.object
        if secret is None:
            return Answer()
        # Off the loop: it may have a hundred thousand entries.
        name = await asyncio.to_thread(envelope.stray, secret, request.old)
        if name is None:
            return Answer()
        field = f"data[{name}]"
        remedy = (
            f"{_remedy(secret)}, or annotate it with {objects.OPT_OUT}=disabled if ciphertext"
            " is meant to be stored"
        )
        raise DeniedError(
            f"{request.ref} holds SOPS ciphertext at {field}: {remedy}",
            causes=(
                Cause(
                    reason="FieldValueForbidden", message=f"SOPS ciphertext: {remedy}", field=field
                ),
            ),
        )


def _remedy(secret: dict[str, object]) -> str:
    if envelope.opted_in(secret):
        return (
            "it was not decrypted: is decryption at admission offered here, or does another"
            " admission webhook put it back"
        )
    return (
        f"label it {envelope.LABEL}=true and send the whole encrypted manifest under"
        f" data.{envelope.CARRIER} (`penstock apply` does)"
    )


def encoded_markers() -> tuple[str, ...]:
    """Return the base64 forms of the marker, for each of the three offsets."""
    found = []
    for shift in range(3):
        text = base64.b64encode(b"\0" * shift + MARKER.encode()).decode()
        first, last = -(-8 * shift // 6), 8 * (shift + len(MARKER)) // 6
        found.append(text[first:last])
    return tuple(found)


_ENTRIES: Final = 4096
"""Entries that the expression looks through: beyond its cost limit, which 10,000 keep and 40,000
do not, the API server denies the request (``k8s.io/apiserver``, ``PerCallLimit``)."""
_FOUND: Final = " || ".join(f"object.data[k].contains('{text}')" for text in encoded_markers())
_TEXT: Final = "type(object.data[k]) == string"
"""An empty value is null in some requests, and the API server stores it as an empty one."""

ROW: Final = Row(
    name="ciphertextguard",
    rules=(Rule(groups=("",), versions=("v1",), resources=("secrets",)),),
    make=CiphertextGuard.make,
    # The condition skips all writes that a cluster needs to start.
    everywhere=True,
    conditions=(
        Condition(
            name="holds-ciphertext",
            expression=(
                "has(object.data) && type(object.data) == map"
                f" && (size(object.data) > {_ENTRIES}"
                f" || object.data.exists(k, {_TEXT} && ({_FOUND})))"
            ),
        ),
    ),
)
