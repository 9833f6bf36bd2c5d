"""In which order a pass asks its questions, up to the first that has a wrong answer."""

from typing import Any

import pytest

from controllers.applying.accounts import Accounts
from controllers.applying.dependencies import Gate
from controllers.grants import Refusals
from controllers.kustomize.kustomization import KustomizationReconciler
from controllers.kustomize.memory import Memory
from controllers.kustomize.settings import Settings
from controllers.kustomize.sources import SourceReader
from tests.fakes import kustomizations
from tests.fakes.evaluating import NoEvaluator
from tests.fakes.granting import AnySource, allowing
from toolkit.errors import AccessDeniedError, PenstockError, StalledError, WaitingError
from toolkit.expressions.evaluator import Evaluates, Evaluator
from toolkit.kube.reconciliation import Event
from toolkit.objects import GroupVersionKind, Json, ObjectKey
from toolkit.policy.tenancy import REQUIRED

GIT = GroupVersionKind("source.toolkit.fluxcd.io", "v1", "GitRepository")


class Nothing:
    """A cluster without sources and Kustomizations; it notes what is looked up."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def get(self, key: ObjectKey) -> None:
        self.asked.append(str(key))


class World:
    """A reconciler that has nothing to build from."""

    def __init__(self, evaluates: Evaluates | None = None, **labels: str) -> None:
        self.sources, self.known = Nothing(), 0
        policy = allowing()
        unused: Any = None
        informers: Any = {"GitRepository": (GIT, self.sources)}
        reader = SourceReader(informers, policy=policy, sources=AnySource())
        self.reconciler = KustomizationReconciler(
            settings=Settings(concurrent_ssa=1),
            sources=reader,
            gate=Gate(lookups={}, policy=policy, evaluates=evaluates or NoEvaluator()),
            secrets=unused,
            decryption=unused,
            admission=unused,
            renderer=unused,
            clusters=unused,
            identities=unused,
            memory=Memory(),
            accounts=Accounts(labels=lambda _: labels, default=""),
            refusals=Refusals(),
            known=self._known,
        )

    async def refused(self, **spec: Any) -> PenstockError:
        """Run a pass over a Kustomization, and return why it ends."""
        body = {
            "metadata": {"name": "app", "namespace": "team", "generation": 1},
            "spec": {
                "interval": "1m",
                "prune": True,
                "sourceRef": {"kind": "GitRepository", "name": "app"},
                **spec,
            },
        }
        rec = kustomizations.a_pass(body, self)
        with pytest.raises(PenstockError) as caught:
            await self.reconciler.reconcile(rec)
        return caught.value

    def emit(self, _: Event) -> None:
        raise AssertionError("nothing is to be told")

    async def _known(self) -> None:
        self.known += 1


async def test_missing_source_is_waited_for() -> None:
    world = World()

    error = await world.refused()

    assert isinstance(error, WaitingError)
    assert (str(error), error.reason) == (
        "GitRepository 'team/app' not found: create it, or correct spec.sourceRef",
        "ArtifactFailed",
    )
    assert world.known == 1


@pytest.mark.parametrize(
    "spec",
    [
        {"healthCheckExprs": [{"apiVersion": "v1", "kind": "ConfigMap", "current": "data.x =="}]},
        {"dependsOn": [{"name": "other", "readyExpr": "dep.status.ready =="}]},
    ],
    ids=["healthCheckExprs", "dependsOn"],
)
async def test_broken_expression_stalls_before_a_source_is_looked_up(
    evaluates: Evaluator, spec: Json
) -> None:
    world = World(evaluates)

    error = await world.refused(**spec)

    assert isinstance(error, StalledError)
    assert error.reason == "InvalidCELExpression"
    assert world.sources.asked == []


async def test_namespace_that_requires_an_account_has_nothing_looked_up_without_one() -> None:
    world = World(**{REQUIRED: "true"})

    error = await world.refused()
    named = await world.refused(serviceAccountName="tenant")

    assert isinstance(error, AccessDeniedError)
    assert "spec.serviceAccountName must be set" in str(error)
    assert isinstance(named, WaitingError)
    assert len(world.sources.asked) == 1
