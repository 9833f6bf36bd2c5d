"""Receivers: the path of the hook, made of the token, the name and the namespace."""

from collections.abc import Iterator
from typing import Final

from controllers.notification.receiving import oidc, resources, senders
from crds.notification_receiver import Receiver
from toolkit.errors import TransientError
from toolkit.expressions import evaluator
from toolkit.expressions import expression as expressions
from toolkit.expressions.evaluator import Evaluates
from toolkit.expressions.expression import Expression
from toolkit.kube.reconciliation import Outcome, Reconciliation
from toolkit.kube.secrets import Secrets

NO_TOKEN: Final = "TokenNotFound"  # noqa: S105 - a reason


class ReceiverReconciler:
    """Writes the path of a Receiver into its status."""

    def __init__(self, secrets: Secrets, evaluates: Evaluates) -> None:
        self._secrets = secrets
        self._evaluates = evaluates

    async def reconcile(self, rec: Reconciliation[Receiver]) -> Outcome:
        """Require valid expressions and a token, and write the path."""
        asked = dict(_expressions(rec.obj))
        expressions.require_few(each.text for each in asked.values())
        await evaluator.require_valid(self._evaluates, rec.key.namespace, asked)
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


def _expressions(receiver: Receiver) -> Iterator[tuple[str, Expression]]:
    """Yield the expressions by their fields."""
    spec = receiver.spec
    filters = {"spec.resourceFilter": spec.resource_filter}
    filters |= {f"spec.resources[{n}].filter": each.filter for n, each in enumerate(spec.resources)}
    for field, text in filters.items():
        if text:
            yield field, Expression(text=text, variables=resources.VARIABLES)
    for number, issuer in enumerate(spec.oidc_providers):
        given = zip(("variables", "validations"), oidc.expressions_of(issuer), strict=True)
        for name, listed in given:
            for count, each in enumerate(listed):
                yield f"spec.oidcProviders[{number}].{name}[{count}].expression", each
