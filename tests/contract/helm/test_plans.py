"""Plans of HelmReleases: rendered by the real engine, asked of the real API server, and no more."""

import base64
import functools
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
import pytest_asyncio
import yaml

from controllers.helm.deciding import orders
from controllers.helm.deciding.decisions import Action
from controllers.helm.planning import PlanError, Planner
from controllers.helm.running.engine import Run
from controllers.planning.plans import Change, Plan
from tests.contract.helm.world import World, hook
from tests.fakes import charts, helmworld
from toolkit.errors import PenstockError, TransientError, WaitingError
from toolkit.helm import actions
from toolkit.kube.secrets import Secrets

pytestmark = pytest.mark.asyncio(loop_scope="session")

DEFINITION = json.dumps(
    {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "unheards.example.org"},
        "spec": {
            "group": "example.org",
            "names": {"kind": "Unheard", "plural": "unheards"},
            "scope": "Namespaced",
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": {"type": "object"}},
                }
            ],
        },
    }
)
CUSTOM = "apiVersion: example.org/v1\nkind: Unheard\nmetadata: {name: odd}\n"


def config_map(name: str, *, notes: Mapping[str, str] | None = None, **data: str) -> str:
    """Return the template of a ConfigMap."""
    metadata = {"name": name, **({"annotations": dict(notes)} if notes else {})}
    return yaml.safe_dump(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}, width=1000
    )


class Planning:
    """A HelmRelease ``app``, its plans, and the release itself, made with the same engine."""

    def __init__(self, world: World, directory: Path) -> None:
        self.world = world
        self.directory = directory
        directory.mkdir()
        self.passes = helmworld.World(directory, namespace=world.namespace, client=world.api)

    def chart(self, **templates: str) -> None:
        """Have the source offer a chart of these files."""
        files = {"values_yaml": "colour: red\n", "templates__configmap_yaml": ""} | templates
        where = self.directory / "shop"
        for file in sorted(where.rglob("*"), reverse=True):
            file.rmdir() if file.is_dir() else file.unlink()
        charts.write(where, charts.chart("shop", "1.0.0", **files))

    async def install(self) -> None:
        """Install what the source offers."""
        options = orders.options(self.passes.obj, Action.INSTALL)
        await self.world.run("install", self.directory / "shop", **options)

    async def plan(self, *, run: Run | None = None) -> Plan:
        """Return the plan."""
        unused: Any = None
        stages = replace(self.passes.reconciler, secrets=Secrets(self.world.api))
        real = functools.partial(actions.run, self.world.pool)
        planner = Planner(stages=stages, run=run or real, revisions=unused)
        return await planner.plan(self.passes.obj)


def told(plan: Plan) -> dict[str, str]:
    """Return what would happen, by kind and name."""
    return {f"{each.kind}/{each.name}": each.action for each in plan.changes}


def change(plan: Plan, name: str) -> Change:
    """Return what would happen to one object."""
    return next(each for each in plan.changes if each.name == name)


@pytest_asyncio.fixture(loop_scope="session")
async def planning(world: World, tmp_path: Path) -> Planning:
    """Give a HelmRelease whose account is admin of its namespace."""
    await world.let_apply()
    return Planning(world, tmp_path / "planning")


async def test_first_install_is_planned_with_hooks_that_do_not_run(planning: Planning) -> None:
    planning.chart(
        templates__a_yaml=config_map("a", colour="{{ .Values.colour }}"),
        templates__b_yaml=hook("before", "pre-install"),
        templates__c_yaml=hook("later", "pre-upgrade"),
    )

    plan = await planning.plan()

    assert told(plan) == {"ConfigMap/a": "created"}
    assert plan.revision == helmworld.VERSION
    hooks = plan.hooks or ()
    assert [(each.kind, each.name, each.events) for each in hooks] == [
        ("ConfigMap", "before", ("pre-install",))
    ]
    assert await planning.world.history() == []
    assert planning.world.config_map("a") is None
    assert planning.world.config_map("before") is None
    assert planning.passes.events == []


async def test_upgrade_tells_what_comes_changes_and_goes(planning: Planning) -> None:
    keep = {"helm.sh/resource-policy": "keep"}
    planning.chart(
        templates__a_yaml=config_map("a", v="{{ .Release.IsUpgrade }}"),
        templates__b_yaml=config_map("b", v="1"),
        templates__c_yaml=config_map("c", notes=keep, v="1"),
        templates__d_yaml=config_map("d", v="1"),
    )
    await planning.install()
    before = planning.world.config_map("a")
    planning.chart(
        templates__a_yaml=config_map("a", v="{{ .Release.IsUpgrade }}"),
        templates__d_yaml=config_map("d", v="1"),
        templates__e_yaml=config_map("e", v="1"),
    )

    plan = await planning.plan()

    assert told(plan) == {
        "ConfigMap/a": "drifted",
        "ConfigMap/b": "deleted",
        "ConfigMap/e": "created",
    }
    assert plan.unchanged == 1
    (difference,) = change(plan, "a").differences
    assert (difference.path, difference.before, difference.after) == ("data.v", '"false"', '"true"')
    assert planning.world.config_map("a") == before
    assert planning.world.config_map("b")
    assert await planning.world.history() == [(1, "deployed")]


async def test_no_plan_shows_a_secret(planning: Planning) -> None:
    looked_up, given = "looked-up-word", "given-word"
    for name, content in (("other", {"key": looked_up}), ("given", {"values.yaml": f"w: {given}"})):
        planning.world.make("api/v1 secrets", {"metadata": {"name": name}, "stringData": content})
    read = '(lookup "v1" "Secret" .Release.Namespace "other").data.key'
    names = ("plain", "encoded", "given", "other")
    planning.chart(
        **{f"templates__{name}_yaml": config_map(name, v="1", w="1") for name in names},
        templates__s_yaml=json.dumps(
            {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}}
            | {"stringData": {"password": "of-the-chart-before"}}
        ),
    )
    await planning.install()
    planning.passes.spec(valuesFrom=[{"kind": "Secret", "name": "given"}])
    planning.chart(
        templates__plain_yaml=config_map("plain", v=f"a {{{{ {read} | b64dec }}}}", w="2"),
        templates__encoded_yaml=config_map("encoded", v=f"{{{{ {read} }}}}", w="2"),
        templates__given_yaml=config_map("given", v="{{ .Values.w }}", w="2"),
        templates__other_yaml=config_map("other", v="1", w="2"),
        templates__s_yaml='{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s"},'
        '"stringData":{"password":"of-the-chart"}}',
    )

    plan = await planning.plan()

    assert set(told(plan).values()) == {"drifted"}
    shown = repr(plan)
    for word in (looked_up, given, "of-the-chart"):
        assert word not in shown
        assert base64.b64encode(word.encode()).decode() not in shown
    assert change(plan, "other").differences[0].after == '"2"'
    assert {each.path for each in change(plan, "s").differences} == {"data.password"}


async def test_chart_cannot_tell_a_secret_by_failing(planning: Planning) -> None:
    secret = {"metadata": {"name": "other"}, "stringData": {"key": "looked-up-word"}}
    planning.world.make("api/v1 secrets", secret)
    read = '(lookup "v1" "Secret" .Release.Namespace "other").data.key'
    planning.chart(templates__a_yaml=f'{{{{ fail (printf "it is %s" ({read} | b64dec)) }}}}')

    with pytest.raises(TransientError, match=r"it is \*\*\*"):
        await planning.plan()


@pytest.mark.parametrize("metadata", ["", "text", "[]", "{labels: [a]}", "{annotations: text}"])
async def test_object_that_is_malformed_is_told(planning: Planning, metadata: str) -> None:
    odd = f"apiVersion: example.org/v1\nkind: Unheard\nmetadata: {metadata}\n"
    planning.chart(crds__unheard_yaml=DEFINITION, templates__odd_yaml=odd)

    with pytest.raises(PenstockError):
        await planning.plan()


async def test_definitions_are_planned_as_the_policy_says(planning: Planning) -> None:
    planning.chart(crds__unheard_yaml=DEFINITION, templates__odd_yaml=CUSTOM)

    created = await planning.plan()
    planning.passes.spec(install={"crds": "Skip"})
    skipped = await planning.plan()

    definition = change(created, "unheards.example.org")
    assert definition.action == "refused"  # the account may not make any
    assert "forbidden" in definition.message
    assert change(created, "odd").action == "created"
    assert change(created, "odd").namespace == planning.world.namespace
    assert told(skipped) == {"Unheard/odd": "refused"}


async def test_action_under_way_is_waited_for(planning: Planning) -> None:
    planning.chart(templates__a_yaml=config_map("a", v="1"))
    await planning.install()

    async def unfinished(release: actions.Release, order: actions.Order) -> actions.Outcome:
        outcome = await actions.run(planning.world.pool, release, order)
        newest = outcome.records[0]
        info = msgspec.structs.replace(newest.info, status="pending-upgrade")
        return replace(outcome, records=(msgspec.structs.replace(newest, info=info),))

    with pytest.raises(WaitingError, match="the release is 'pending-upgrade'"):
        await planning.plan(run=unfinished)


async def test_release_that_goes_elsewhere_has_no_plan(planning: Planning) -> None:
    planning.chart(templates__a_yaml=config_map("a", v="1"))
    await planning.install()
    planning.passes.helm.releases.clear()
    status: dict[str, Any] = {
        "storageNamespace": planning.world.namespace,
        "history": [
            {
                "name": "other",
                "namespace": planning.world.namespace,
                "version": 1,
                "chartName": "shop",
                "chartVersion": "1.0.0",
                "status": "deployed",
                "digest": "sha256:1",
                "configDigest": "sha256:1",
                "firstDeployed": "2026-01-01T00:00:00Z",
                "lastDeployed": "2026-01-01T00:00:00Z",
            }
        ],
    }
    await planning.passes._write(planning.passes.obj, status)

    with pytest.raises(PlanError, match="release name has changed"):
        await planning.plan()
