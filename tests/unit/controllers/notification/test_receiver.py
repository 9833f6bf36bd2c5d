"""Where a Receiver is called, and what it needs before."""

import asyncio
import base64
import hashlib
import logging
from typing import Any

import msgspec
import pytest

from controllers.notification.receiving.receiver import ReceiverReconciler
from crds.notification_receiver import Receiver
from tests.fakes.apiserver import FakeApiServer
from tests.fakes.evaluating import NoEvaluator
from toolkit.errors import TransientError
from toolkit.kube.reconciliation import Event, Outcome, Reconciliation
from toolkit.kube.secrets import Secrets
from toolkit.objects import GroupVersionKind, Json
from toolkit.telemetry import ObjectLogger

GVK = GroupVersionKind("notification.toolkit.fluxcd.io", "v1", "Receiver")


class Nobody:
    """Nobody is told."""

    def emit(self, event: Event) -> None:
        """Forget it."""


def reconciled(**data: bytes) -> Outcome:
    """Reconcile a Receiver whose Secret holds ``data``."""
    body: dict[str, Any] = {
        "metadata": {"name": "hook", "namespace": "apps"},
        "spec": {"type": "generic", "resources": [], "secretRef": {"name": "token"}},
    }

    async def unchanged(obj: Receiver, _: Json) -> Receiver:
        return obj

    async def main() -> Outcome:
        server = FakeApiServer()
        encoded = {key: base64.b64encode(value).decode() for key, value in data.items()}
        server.put("secrets", "token", "apps", data=encoded)
        async with server.running() as client:
            rec = Reconciliation(
                msgspec.convert(body, Receiver),
                GVK,
                id="1",
                triggers=frozenset(),
                recorder=Nobody(),
                log=ObjectLogger(logging.getLogger("test"), {}),
                write_status=unchanged,
            )
            return await ReceiverReconciler(Secrets(client), NoEvaluator()).reconcile(rec)

    return asyncio.run(main())


def test_the_path_is_of_token_name_and_namespace() -> None:
    digest = hashlib.sha256(b"t0kenhookapps").hexdigest()

    assert reconciled(token=b"t0ken\n").message.endswith(f"/hook/{digest}")


@pytest.mark.parametrize("data", [{}, {"token": b""}, {"token": b" \n"}])
def test_a_path_that_anybody_could_guess_is_not_made(data: dict[str, bytes]) -> None:
    with pytest.raises(TransientError, match="has no 'token'") as caught:
        reconciled(**data)

    assert caught.value.reason == "TokenNotFound"
