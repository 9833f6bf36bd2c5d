"""Receivers: the path of the hook, made of the token, the name and the namespace."""

from collections.abc import Iterator
from typing import Final

from controllers.notification.receiving import senders
from crds.notification_receiver import Receiver
from toolkit.apply import expressions
from toolkit.errors import TransientError
from toolkit.kube.reconciliation import Outcome, Reconciliation
from toolkit.kube.secrets import Secrets

NO_TOKEN: Final = "TokenNotFound"  # noqa: S105 - a reason


class ReceiverReconciler:
    """Writes the path of a Receiver into its status."""

    def __init__(self, secrets: Secrets) -> None:
        self._secrets = secrets

    async def reconcile(self, rec: Reconciliation[Receiver]) -> Outcome:
        """Require valid expressions and a token, and write the path."""
        for text in _texts(rec.obj):
            expressions.Expression(text)
        path = senders.path(await self._token(rec.obj), rec.key.name, rec.key.namespace)
        rec.status({"webhookPath": path})
        return Outcome(
            message=f"Receiver initialized for path: {path}",
            requeue_after=rec.obj.spec.interval_seconds,
            quiet=rec.obj.status.webhook_path == path,
        )

    async def finalize(self, _rec: Reconciliation[Receiver]) -> None:
        """Undo nothing: a path without a Receiver is not found."""

    async def _token(self, receiver: Receiver) -> bytes:
        ref = receiver.spec.secret_ref
        if ref is None:
            return b""
        data = await self._secrets.read(receiver.metadata.namespace, ref.name, reason=NO_TOKEN)
        token = data.get("token", b"").strip()
        if not token:
            raise TransientError(
                f"Secret '{receiver.metadata.namespace}/{ref.name}' has no 'token': write one",
                reason=NO_TOKEN,
            )
        return token


def _texts(receiver: Receiver) -> Iterator[str]:
    spec = receiver.spec
    yield from filter(None, (spec.resource_filter, *(each.filter for each in spec.resources)))
    for issuer in spec.oidc_providers:
        yield from (each.expression for each in issuer.variables)
        yield from (each.expression for each in issuer.validations)
