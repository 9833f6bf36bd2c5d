"""Whether an unfinished action on a release may still be running at another client. Pure.

Helm's records do not say who runs an action, nor until when. The API server keeps the field manager
that wrote a record, and the time. An action of another client counts as running for as long as the
HelmRelease gives an action of that kind. An action of this controller does not: a reconciliation
sees its record only after the action was interrupted.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Final

from toolkit import times
from toolkit.errors import Told, WaitingError
from toolkit.objects import Json, dig

RECORDER: Final = "penstock"
"""Field manager of the records that this controller writes; Flux's is ``helm-controller``."""

_ACTIONS: Final = MappingProxyType(
    {
        "pending-install": "install",
        "pending-upgrade": "upgrade",
        "pending-rollback": "rollback",
        "uninstalling": "uninstall",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Writer:
    """The field manager that wrote a record, and when; empty texts if that is unknown."""

    manager: str = ""
    time: str = ""


def action(status: str) -> str:
    """Return the action that a status says is unfinished; empty if it says none."""
    return _ACTIONS.get(status, "")


def writer(secret: Json, *, noted: str) -> Writer:
    """Return who wrote the content of a record, from the metadata of its Secret.

    ``noted`` is the time in the record, which counts if the API server knows none.
    """
    entries: list[Json] = dig(secret, "metadata", "managedFields", default=[])
    wrote = [
        Writer(manager=str(each.get("manager", "")), time=str(each.get("time") or noted))
        for each in entries
        if dig(each, "fieldsV1", "f:data", "f:release") is not None
    ]
    return max(wrote, key=lambda each: each.time, default=Writer(time=noted))


def require_over(
    release: str, status: str, wrote: Writer, *, timeout: float, now: datetime
) -> None:
    """Require that an unfinished action is one of this controller, or older than ``timeout``.

    ``release`` is the release as messages name it. A time that lies further in the future than the
    timeout is wrong, and the action counts as over.

    Raises:
        WaitingError: another client may still be working on the release; it asks for another look
            when the action is older than the timeout.
    """
    if wrote.manager == RECORDER:
        return
    since = times.moment(wrote.time)
    if since is None or abs(now - since) >= timedelta(seconds=timeout):
        return
    until = since + timedelta(seconds=timeout)
    by = f"'{wrote.manager}'" if wrote.manager else "another client"
    raise WaitingError(
        f"Helm release {release} has the status '{status}' since {_shown(since)}: {by} is working"
        f" on it; the release is left alone until that ends, or until {_shown(until)}",
        reason="PendingRelease",
        retry_after=(until - now).total_seconds(),
        told=Told(event=""),
    )


def _shown(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
