"""What callers learn that do not prove to be API servers: the verdict, and nothing of the cluster.

Each row is asked the same in clusters that differ in what the caller must not learn. Where all of
them deny, the words are the same.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest

from tests.fakes import admission, specs
from tests.fakes.admission import FakeAuthorizer
from tests.fakes.apiserver import FakeApiServer
from tests.unit.webhooks import protected
from toolkit.errors import PenstockError
from toolkit.objects import Json
from toolkit.policy.provenance import LABEL
from webhooks.plugin import Answer, DeniedError, Row
from webhooks.plugins import PLUGINS
from webhooks.request import Request

DOCS: Final = Path("docs/webhooks.md")
BY_NAME: Final = {row.name: row for row in PLUGINS}
TOLD: Final = frozenset({"imagepinning", "imageverification"})
"""Rows whose answer is the digest of an image and who signed it (see ``DOCS``)."""

UNASKED: Final = frozenset({"authorship"})
"""Rows that deny nothing, and answer with the request alone."""


@dataclass(frozen=True, kw_only=True)
class World:
    """What a cluster holds that a stranger must not learn."""

    objects: tuple[Json, ...] = ()
    allowed: tuple[tuple[str, ...], ...] = ()
    stored: tuple[Json, ...] = ()

    async def answer(self, row: Row, asked: Callable[[], Request], *, proven: bool) -> str:
        """Return every word of the answer."""
        server, may = FakeApiServer(), FakeAuthorizer()
        server.kinds |= protected.KINDS
        for obj in (*self.objects, *self.stored):
            meta = obj["metadata"]
            plural = f"{obj['kind'].lower()}s".replace("ys", "ies")
            server.objects[plural, meta.get("namespace", ""), meta["name"]] = obj
        for question in self.allowed:
            may.allow(*question)
        async with server.running() as client:
            services = admission.services(self.objects, client=client, authorize=may, proven=proven)
            return said(await admission.judged(row.make(services), asked()))


@dataclass(frozen=True, kw_only=True)
class Case:
    """A request that every one of the worlds denies."""

    asked: dict[str, Any]
    worlds: Sequence[World]
    differs: bool = field(default=True)
    """Whether API servers are told more than strangers."""


def said(answer: Answer | PenstockError) -> str:
    if isinstance(answer, DeniedError):
        causes = [(cause.field, cause.message) for cause in answer.causes]
        return f"{answer} {causes} {dict(answer.audit)}"
    return str(answer)


def ours(group: str, kind: str, name: str, spec: Json, namespace: str = "shop") -> Json:
    return protected.thing(f"{group}.toolkit.fluxcd.io", kind, name, namespace, spec=spec)


def app(name: str = "app", *waits: str, **spec: Any) -> Json:
    depends = {"dependsOn": [{"name": each} for each in waits]} if waits else {}
    body = {**specs.RIGHT["Kustomization"], **depends, **spec}
    return ours("kustomize", "Kustomization", name, body)


def namespace(**labels: str) -> Json:
    return protected.thing("", "Namespace", "shop", "", metadata={"labels": labels})


def grant(kind: str) -> Json:
    spec = {
        "from": [{"group": "x", "kind": kind, "namespace": "elsewhere"}],
        "to": [{"group": "source.toolkit.fluxcd.io", "kind": "GitRepository"}],
    }
    return protected.thing("policy.penstock.dev", "ReferenceGrant", "g", "infra", spec=spec)


LENDING: Final = app(
    serviceAccountName="deployer",
    decryption={"provider": "sops", "secretRef": {"name": "keys"}},
)
OWNED: Final = protected.deployment(metadata={"labels": protected.OWNER})
PROTECTED: Final = (protected.space(), protected.policy(origins=protected.FROM_GIT))
SOURCES: Final = protected.thing(
    "policy.penstock.dev",
    "SourcePolicy",
    "tenants",
    "",
    spec={"sources": [{"kind": "GitRepository", "urls": ["https://git.example/**"]}]},
)
SECRET: Final = protected.thing(
    "", "Secret", "s", data={"a": "RU5DW0FFUzI1Nl9HQ00sZGF0YTp4LGl2OngsdGFnOngsdHlwZTpzdHJd"}
)


def built(**world: Any) -> World:
    return World(objects=PROTECTED + tuple(world.pop("objects", ())), **world)


CASES: Final[dict[str, Case]] = {
    # who waits for whom
    "validation": Case(
        asked={"obj": app("app", "other")},
        worlds=[
            World(objects=(app("other", "app"),)),
            World(objects=(app("other", "secret"), app("secret", "app"))),
        ],
    ),
    # who else is let in
    "references": Case(
        asked={"obj": app(sourceRef={"kind": "GitRepository", "name": "a", "namespace": "infra"})},
        worlds=[World(), World(stored=(grant("Kustomization"),))],
        differs=False,
    ),
    # which of several things a user may do
    "tenancy": Case(
        asked={"obj": LENDING},
        worlds=[
            World(objects=(namespace(),)),
            World(objects=(namespace(),), allowed=(("alice", "get", "secrets", "shop", "keys"),)),
            World(
                objects=(namespace(),),
                allowed=(("alice", "use", "serviceaccounts", "shop", "deployer"),),
            ),
        ],
    ),
    "namespace-labels": Case(
        asked={
            "obj": namespace(**{LABEL: "no"}),
            "old": namespace(**{LABEL: "yes"}),
        },
        worlds=[World(), World(allowed=(("bob", "update", "namespaces", "", ""),))],
        differs=False,
    ),
    # which other sources there are
    "source-policy": Case(
        asked={
            "obj": ours("source", "GitRepository", "a", {"url": "https://x.example/y"}),
        },
        worlds=[
            World(objects=(SOURCES, namespace())),
            World(objects=(SOURCES, namespace(a="b"), protected.source())),
        ],
        differs=False,
    ),
    # what a Kustomization acts as, is built from and holds
    "provenance": Case(
        asked={"obj": OWNED, "old": OWNED | {"spec": {}}, "user": protected.USER}
        | {"extra": protected.extras()},
        worlds=[
            built(),
            built(objects=[protected.kustomization()]),
            built(objects=[protected.kustomization(serviceAccountName="other")]),
            built(objects=[protected.kustomization(kubeConfig={"secretRef": {"name": "x"}})]),
            built(
                objects=[
                    protected.kustomization(),
                    protected.source(fetched="https://evil.example/x"),
                ]
            ),
        ],
    ),
    "provenancenamespaces": Case(
        asked={"obj": protected.space({}), "old": protected.space()},
        worlds=[World(objects=PROTECTED), World(objects=(*PROTECTED, protected.source()))],
        differs=False,
    ),
    "ciphertextguard": Case(
        asked={"obj": SECRET}, worlds=[World(), World(stored=(SECRET,))], differs=False
    ),
}


def test_every_row_is_looked_at() -> None:
    disclosing = {row.name for row in PLUGINS if row.discloses}

    assert CASES.keys() | disclosing | TOLD | UNASKED == BY_NAME.keys()
    assert disclosing == {"hints", "decryption"}


@pytest.mark.parametrize("name", UNASKED)
def test_some_rows_answer_with_the_request_alone(name: str) -> None:
    obj = ours("image", "ImageUpdateAutomation", "a", {"sourceRef": {"name": "fleet"}})
    worlds = [World(), World(stored=(protected.source(), SECRET))]

    async def main() -> list[str]:
        return [
            await world.answer(BY_NAME[name], lambda: admission.request(obj), proven=False)
            for world in worlds
        ]

    first, second = asyncio.run(main())

    assert first == second


def test_every_row_is_in_the_table() -> None:
    table = DOCS.read_text().partition("### What unproven callers learn")[2].partition("\n#")[0]

    assert [name for name in BY_NAME if f"| `{name}` |" not in table] == []


async def words(name: str, *, proven: bool) -> list[str]:
    case = CASES[name]
    return [
        await world.answer(
            BY_NAME[name], lambda: admission.request(**dict(case.asked)), proven=proven
        )
        for world in case.worlds
    ]


@pytest.mark.parametrize("name", CASES)
def test_strangers_are_told_the_same_whatever_the_cluster_holds(name: str) -> None:
    told = asyncio.run(words(name, proven=False))

    assert len(set(told)) == 1
    assert not told[0].startswith("Answer(")


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.differs])
def test_api_servers_are_told_more(name: str) -> None:
    assert len(set(asyncio.run(words(name, proven=True)))) > 1


def test_the_home_of_an_object_is_told_by_its_own_labels_alone() -> None:
    worlds = [
        built(objects=[protected.kustomization(), protected.source()]),
        built(stored=(OWNED,)),
    ]

    async def main() -> list[str]:
        return [
            await world.answer(
                BY_NAME["provenance"],
                lambda: admission.request(OWNED, old=OWNED | {"spec": {}}),
                proven=False,
            )
            for world in worlds
        ]

    first, second = asyncio.run(main())

    assert first == second
    assert "it is applied by Kustomization/shop/web, change it there" in first
