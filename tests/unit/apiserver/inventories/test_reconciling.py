"""What is written when somebody asks for a reconcile."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from apiserver.inventories import wishes
from apiserver.inventories.appliers import Applied, Source
from apiserver.inventories.reconciling import Reconciling
from apiserver.status import StatusError
from tests.unit.apiserver.inventories.scene import applied
from tests.unit.apiserver.inventories.served import Answer, Known, asked
from toolkit.kube import errors
from toolkit.objects import GroupVersionKind, Json

ODD = b'{"forse": true, "reset": false, "reset": true, "force": null}'
NOW = "2026-01-02T03:04:05Z"
REQUESTED, FORCED = "reconcile.fluxcd.io/requestedAt", "reconcile.fluxcd.io/forceAt"


class Api:
    """Remembers patches, or fails them."""

    def __init__(self, failure: Exception | None = None) -> None:
        self.patches: list[tuple[str, str, str, Json, bool]] = []
        self._failure = failure

    async def patch(
        self,
        gvk: GroupVersionKind,
        name: str,
        namespace: str,
        body: Json,
        *,
        strategy: str,
        manager: str,
        dry_run: bool,
    ) -> Json:
        assert (strategy, manager) == ("merge", "penstock-apiserver")
        if self._failure:
            raise self._failure
        self.patches.append((gvk.kind, namespace, name, body, dry_run))
        return {}


async def _ask(api: Any, state: Applied, body: Any = None, **query: str) -> Answer:
    known = Known(state)
    reconciling = Reconciling(
        api, known, known, now=lambda: datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    )
    data = body if isinstance(body, bytes) else json.dumps(body).encode() if body else b""
    async with asked(reconciling.handle) as ask:
        return await ask("POST", data=data, params=query)


async def test_one_annotation_is_written_with_a_stamp_of_ours() -> None:
    api = Api()

    answer = await _ask(api, applied())

    metadata = {"uid": "a-uid", "annotations": {REQUESTED: NOW}}
    assert api.patches == [("Kustomization", "shop", "app", {"metadata": metadata}, False)]
    assert (answer.status, answer.body["requestedAt"]) == (201, NOW)
    assert answer.body["applierRef"]["name"] == "app"


async def test_nothing_of_the_body_gets_into_the_patch() -> None:
    api = Api()
    hostile = {
        "force": True,
        "requestedAt": "evil",
        "spec": {"suspend": True},
        "metadata": {"annotations": {"evil": "1"}, "namespace": "kube-system"},
        "applierRef": {"name": "evil"},
    }

    await _ask(api, applied(), hostile)

    ((_, namespace, name, body, _),) = api.patches
    assert (namespace, name) == ("shop", "app")
    assert body["metadata"]["annotations"] == {REQUESTED: NOW, FORCED: NOW}
    assert set(body) == {"metadata"}


async def test_sources_of_the_own_namespace_are_woken_first_and_no_others() -> None:
    api = Api()
    sources = (
        Source(kind="GitRepository", namespace="shop", name="repo"),
        Source(kind="Bucket", namespace="flux-system", name="shared"),
        Source(kind="ExternalArtifact", namespace="shop", name="made"),
    )

    await _ask(api, applied(sources=sources), {"withSource": True})

    assert [(kind, name) for kind, _, name, _, _ in api.patches] == [
        ("GitRepository", "repo"),
        ("Kustomization", "app"),
    ]


async def test_a_dry_run_is_one() -> None:
    api = Api()

    answer = await _ask(api, applied(), {"withSource": True}, dryRun="All")

    assert answer.status == 201
    assert all(dry_run for *_, dry_run in api.patches)


@pytest.mark.parametrize(
    ("body", "query"),
    [(b"{", {}), (b"[]", {}), (b'{"force": "yes"}', {}), (b"x" * 5000, {}), (b"", {"dryRun": "x"})],
)
async def test_what_cannot_be_understood_is_refused(body: bytes, query: dict[str, str]) -> None:
    api = Api()

    answer = await _ask(api, applied(), body, **query)

    assert (answer.status, api.patches) == (400, [])


async def test_a_suspended_applier_is_not_asked() -> None:
    api = Api()

    answer = await _ask(api, applied(suspended=True))

    assert (answer.status, api.patches) == (409, [])
    assert "suspended" in answer.body["message"]


@pytest.mark.parametrize(
    ("failure", "status"),
    [
        (errors.NotFoundError("gone"), 404),
        (errors.ConflictError("another uid"), 409),
        (errors.ForbiddenError("no right"), 503),
        (errors.UnreachableError("down"), 503),
    ],
)
async def test_failures_to_write_are_told(failure: Exception, status: int) -> None:
    answer = await _ask(Api(failure), applied())

    assert answer.status == status


@pytest.mark.parametrize(
    "body",
    [
        b'{"force": "yes"}',
        b'{"withSource": 1}',
        b'{"requestedAt": 1}',
        b'{"applierRef": "x"}',
        b'{"metadata": []}',
        b'{"kind": "Secret"}',
        b'{"apiVersion": "v1"}',
        b'{"force": NaN}',
        b"[]",
    ],
)
async def test_a_field_of_the_wrong_type_is_refused(body: bytes) -> None:
    api = Api()

    answer = await _ask(api, applied(), body)

    assert (answer.status, answer.body["reason"], api.patches) == (400, "BadRequest", [])


@pytest.mark.parametrize(
    ("level", "warnings"),
    [
        ("", ['299 - "unknown field \\"forse\\""', '299 - "duplicate field \\"reset\\""']),
        ("Warn", ['299 - "unknown field \\"forse\\""', '299 - "duplicate field \\"reset\\""']),
        ("Ignore", []),
    ],
)
def test_unknown_fields_are_warned_about(level: str, warnings: list[str]) -> None:
    assert wishes.read(ODD, level) == (wishes.Wishes(reset=True), warnings)


@pytest.mark.parametrize(("level", "code"), [("Strict", 400), ("strict", 422)])
def test_unknown_fields_are_refused_where_that_is_asked_for(level: str, code: int) -> None:
    with pytest.raises(StatusError) as refused:
        wishes.read(ODD, level)

    assert refused.value.code == code
