"""Leave a release alone while another client runs an action on it.

Who runs ``helm upgrade`` by hand writes a record with a pending status, and that record wakes the
controller. The action must not be marked as failed and overrun (``deciding.locks``).
"""

from datetime import UTC, datetime
from typing import Final

from controllers.helm.deciding import locks, policies, states
from controllers.helm.deciding.locks import Writer
from controllers.helm.deciding.states import Seen
from controllers.helm.running.work import Work
from toolkit.errors import PenstockError, WaitingError
from toolkit.kube.errors import ForbiddenError, NotFoundError
from toolkit.kube.secrets import SECRET
from toolkit.release import names

_LOOK_AGAIN_SECONDS: Final = 10.0
"""How often the storage of a cluster is read whose records no watch shows."""


async def require_unlocked(work: Work) -> None:
    """Require that no other client is working on the release, unless a request forces an upgrade.

    Raises:
        WaitingError: another client may still be working on it.
        PenstockError: the API server does not say who wrote the record.
    """
    found = work.kept.seen
    action = locks.action(found.status) if found is not None else ""
    if found is None or not action or work.forced:
        return
    wrote = await _writer(work, found)
    target = work.target
    try:
        locks.require_over(
            f"{target.namespace}/{target.name}.v{found.version}",
            found.status,
            wrote,
            timeout=policies.timeout_seconds(work.obj, action),
            now=datetime.now(UTC),
        )
    except WaitingError as error:
        if not target.followed:
            work.kept.read = False
            error.retry_after = min(error.retry_after or 0.0, _LOOK_AGAIN_SECONDS)
        raise


async def _writer(work: Work, found: Seen) -> Writer:
    target = work.target
    name = names.record(target.name, found.version)
    try:
        secret = await target.client.get(SECRET, name, target.storage_namespace, metadata_only=True)
    except (ForbiddenError, NotFoundError):
        return Writer(time=found.since)
    except PenstockError as error:
        reason = states.StateError.default_reason
        raise error.within("Could not determine release state", reason=reason) from error
    return locks.writer(secret, noted=found.since)
