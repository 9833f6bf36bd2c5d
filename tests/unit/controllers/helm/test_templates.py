"""The HelmChart of a HelmRelease: made, changed and deleted, and nobody else's."""

import logging
from typing import Any

import msgspec
import pytest

from controllers.helm.chartcounts import ChartCounts
from controllers.helm.running.draft import Draft
from controllers.helm.sources import KIND, ChartReader
from controllers.helm.templates import Templates
from crds.helm import HelmRelease, other_chart_name
from crds.source_helm import HelmChart
from tests.fakes.granting import AnySource, allowing, grant
from tests.fakes.releases import release
from toolkit import telemetry
from toolkit.errors import AccessDeniedError, TransientError, WaitingError
from toolkit.kube.client import Applied
from toolkit.kube.errors import NotFoundError, UnreachableError
from toolkit.kube.informer import Change
from toolkit.kube.reconciliation import Event, Reconciliation
from toolkit.objects import GroupVersionKind, Json, ObjectKey
from toolkit.policy.references import References

TEMPLATE: Json = {
    "chartRef": None,
    "chart": {"spec": {"chart": "shop", "sourceRef": {"kind": "HelmRepository", "name": "charts"}}},
}
PLACE = ObjectKey("team", "team-app")


class World:
    """HelmCharts, and the requests that were sent about them."""

    def __init__(self, policy: References | None = None, *, limit: int = 0) -> None:
        self.charts: dict[ObjectKey, Json] = {}
        self.sent: list[str] = []
        self.version = 0
        self.shown = True
        self.changed = False
        self.down = False
        self.events: list[str] = []
        client: Any = self
        reader = ChartReader({}, policy=policy or allowing(), sources=AnySource())
        self.counts = ChartCounts(limit)
        self.templates = Templates(
            client=client, reader=reader, lookup=self._lookup, counts=self.counts
        )

    async def run(self, obj: HelmRelease) -> Draft:
        """Run the stage over an object."""

        async def unwritten(obj: HelmRelease, _: Json) -> HelmRelease:
            return obj

        rec = Reconciliation(
            obj,
            KIND,
            id="pass",
            triggers=frozenset(),
            recorder=self,
            log=telemetry.ObjectLogger(logging.getLogger(__name__), {}),
            write_status=unwritten,
        )
        draft = Draft(rec)
        self.changed = await self.templates.reconcile(draft)
        return draft

    def emit(self, event: Event) -> None:
        self.events.append(f"{event.severity} {event.reason}")

    def _lookup(self, key: ObjectKey) -> HelmChart | None:
        found = self.charts.get(key) if self.shown else None
        return msgspec.convert(found, HelmChart) if found else None

    async def get(self, _: GroupVersionKind, name: str, namespace: str) -> Json:
        self.sent.append("get")
        if ObjectKey(namespace, name) not in self.charts:
            raise NotFoundError("not found")
        return self.charts[ObjectKey(namespace, name)]

    async def apply(self, obj: Json, *, manager: str) -> Applied:
        self.sent.append(f"apply {manager}")
        if self.down:
            raise UnreachableError("the API server is away")
        key = ObjectKey(obj["metadata"]["namespace"], obj["metadata"]["name"])
        created = key not in self.charts
        version = {"resourceVersion": self._version(), "uid": "u"}
        added = {} if created else self.charts[key]["spec"].keys() - obj["spec"].keys()
        spec = obj["spec"] | {name: self.charts[key]["spec"][name] for name in added}
        if created or self.charts[key]["spec"] != spec:
            self.charts[key] = obj | {"metadata": obj["metadata"] | version, "spec": spec}
        return Applied(object=self.charts[key], created=created)

    async def patch(
        self,
        _: GroupVersionKind,
        name: str,
        namespace: str,
        body: list[Json],
        *,
        strategy: str,
        manager: str,
    ) -> Json:
        self.sent.append(f"patch {strategy} {manager}")
        (change,) = body
        assert (change["op"], change["path"]) == ("replace", "/spec")
        key = ObjectKey(namespace, name)
        metadata = self.charts[key]["metadata"] | {"resourceVersion": self._version()}
        self.charts[key] = self.charts[key] | {"metadata": metadata, "spec": change["value"]}
        return self.charts[key]

    def _version(self) -> str:
        self.version += 1
        return str(self.version)

    async def delete(self, _: GroupVersionKind, name: str, namespace: str, *, uid: str) -> None:
        self.sent.append(f"delete {uid}")
        if self.down:
            raise UnreachableError("the API server is away")
        del self.charts[ObjectKey(namespace, name)]


async def test_helmchart_is_made_with_its_owner() -> None:
    world = World()

    draft = await world.run(release(spec=TEMPLATE))

    assert world.sent == ["get", "apply helm-controller"]
    assert draft.obj.status.helm_chart == "team/team-app"
    assert world.charts[PLACE]["metadata"]["labels"] == {
        "helm.toolkit.fluxcd.io/name": "app",
        "helm.toolkit.fluxcd.io/namespace": "team",
    }
    assert world.events == ["trace HelmChartCreated"]
    assert world.changed


async def test_helmchart_that_is_as_desired_costs_no_request() -> None:
    world = World()
    await world.run(release(spec=TEMPLATE))
    world.sent.clear()

    await world.run(release(spec=TEMPLATE))

    assert world.sent == []
    assert not world.changed


async def test_apply_that_changes_nothing_is_no_change() -> None:
    world = World()
    await world.run(release(spec=TEMPLATE))
    world.shown = False

    await world.run(release(spec=TEMPLATE))

    assert world.sent[-1] == "apply helm-controller"
    assert not world.changed


async def test_release_without_a_template_changes_no_helmchart() -> None:
    world = World()

    await world.run(release())

    assert not world.changed


async def test_changed_template_changes_the_helmchart() -> None:
    world = World()
    await world.run(release(spec=TEMPLATE))
    chart = {"spec": {**TEMPLATE["chart"]["spec"], "version": "2.x"}}

    await world.run(release(spec={**TEMPLATE, "chart": chart}))

    assert world.charts[PLACE]["spec"]["version"] == "2.x"
    assert world.events == ["trace HelmChartCreated", "trace HelmChartConfigured"]


@pytest.mark.parametrize(
    ("added", "sent"),
    [
        ({"chart": "other"}, ["get", "apply helm-controller"]),
        (
            {"valuesFiles": ["values-dev.yaml"]},
            ["get", "apply helm-controller", "patch json helm-controller"],
        ),
        ({"suspend": True}, ["get", "apply helm-controller", "patch json helm-controller"]),
    ],
    ids=["changed", "values", "suspended"],
)
async def test_spec_that_others_have_changed_is_corrected(added: Json, sent: list[str]) -> None:
    world = World()
    await world.run(release(spec=TEMPLATE))
    made = dict(world.charts[PLACE]["spec"])
    world.charts[PLACE]["spec"] |= added
    world.sent.clear()

    await world.run(release(spec=TEMPLATE))

    assert world.charts[PLACE]["spec"] == made
    assert world.sent == sent
    assert world.changed
    assert world.events[-1] == "trace HelmChartConfigured"


async def test_helmchart_of_another_release_is_not_touched() -> None:
    world = World()
    await world.run(release(spec=TEMPLATE))
    labels = world.charts[PLACE]["metadata"]["labels"]
    labels["helm.toolkit.fluxcd.io/namespace"] = "mallory"
    world.sent.clear()

    theirs = dict(world.charts[PLACE])
    draft = await world.run(release(spec=TEMPLATE))
    gone = release(spec=TEMPLATE, status={"helmChart": str(PLACE)}, deleted=True)
    await world.run(gone)

    assert world.sent == ["get", "get", "apply helm-controller", "delete u"]
    assert world.charts == {PLACE: theirs}
    assert draft.obj.status.helm_chart == "team/helmrelease.team.app"


SHARED = ObjectKey("shared", "team-app")
FAR: Json = {
    **TEMPLATE,
    "chart": {
        "spec": {
            "chart": "shop",
            "sourceRef": {
                "kind": "HelmRepository",
                "name": "charts",
                "namespace": SHARED.namespace,
            },
        }
    },
}


def written_by(manager: str, place: ObjectKey = SHARED) -> Json:
    """Return a HelmChart without owner."""
    return {
        "metadata": {
            "name": place.name,
            "namespace": place.namespace,
            "uid": "u",
            "managedFields": [{"manager": manager, "operation": "Update"}],
        },
        "spec": {
            "chart": "nginx",
            "interval": "1h",
            "sourceRef": {"kind": "HelmRepository", "name": "charts"},
        },
    }


def everything() -> References:
    """Return the decision that every HelmRelease may use the sources of the other namespace."""
    of = {"group": "helm.toolkit.fluxcd.io", "kind": "HelmRelease", "namespace": "*"}
    to = {"group": "source.toolkit.fluxcd.io", "kind": "HelmRepository"}
    return allowing(grant(SHARED.namespace, of=of, to=to))


@pytest.fixture
def granted() -> World:
    """Give the world in which the HelmRelease may use the source of another namespace."""
    of = {"group": "helm.toolkit.fluxcd.io", "kind": "HelmRelease", "namespace": "team"}
    to = {"group": "source.toolkit.fluxcd.io", "kind": "HelmRepository"}
    return World(allowing(grant(SHARED.namespace, of=of, to=to)))


async def test_helmchart_that_somebody_shares_is_not_taken(granted: World) -> None:
    granted.charts[SHARED] = written_by("kubectl")

    await granted.run(release(spec=FAR))

    assert granted.charts[SHARED]["spec"]["chart"] == "nginx"
    assert granted.charts[OTHER]["spec"]["chart"] == "shop"


OTHER = ObjectKey("shared", "helmrelease.team.app")


async def test_two_releases_of_one_flux_name_have_a_helmchart_each() -> None:
    """A tenant with ``a/b-c`` neither keeps ``a-b/c`` from its chart nor chooses it."""

    def named(namespace: str, name: str, chart: str, told: str = "") -> HelmRelease:
        template = {"chart": {"spec": {**FAR["chart"]["spec"], "chart": chart}}}
        spec = {**FAR, **template}
        metadata = {"namespace": namespace, "name": name}
        return release(spec=spec, status={"helmChart": told}, metadata=metadata)

    world = World(everything())
    first = await world.run(named("a", "b-c", "evil"))
    second = await world.run(named("a-b", "c", "good"))
    told = second.obj.status.helm_chart
    again = await world.run(named("a-b", "c", "better", told))
    kept = await world.run(named("a", "b-c", "evil", first.obj.status.helm_chart))

    charts = {key.name: each["spec"]["chart"] for key, each in world.charts.items()}
    assert charts == {"a-b-c": "evil", "helmrelease.a-b.c": "better"}
    assert again.obj.status.helm_chart == "shared/helmrelease.a-b.c"
    assert kept.obj.status.helm_chart == "shared/a-b-c"


async def test_helmchart_keeps_its_other_name_until_the_release_goes(granted: World) -> None:
    granted.charts[SHARED] = written_by("kubectl")
    await granted.run(release(spec=FAR))
    del granted.charts[SHARED]
    status = {"helmChart": str(OTHER)}

    kept = await granted.run(release(spec=FAR, status=status))
    await granted.run(release(spec=FAR, status=status, deleted=True))

    assert kept.obj.status.helm_chart == str(OTHER)
    assert granted.charts == {}


@pytest.mark.parametrize("told", [str(SHARED), str(OTHER), ""])
async def test_helmchart_under_both_names_of_another_owner_is_refused(
    granted: World, told: str
) -> None:
    for place in (SHARED, OTHER):
        granted.charts[place] = written_by("kubectl", place)

    with pytest.raises(AccessDeniedError, match="was not made for this HelmRelease"):
        await granted.run(release(spec=FAR, status={"helmChart": told}))

    assert {each["spec"]["chart"] for each in granted.charts.values()} == {"nginx"}


def test_no_release_has_the_other_name_of_another_as_its_flux_name() -> None:
    other = other_chart_name(namespace="a-b", name="c.d-e")

    splits = [(other[:at], other[at + 1 :]) for at, char in enumerate(other) if char == "-"]

    assert splits
    assert all("." in namespace for namespace, _ in splits)  # which no namespace has
    assert other != other_chart_name(namespace="a", name="b.c.d-e")


async def test_helmcharts_in_another_namespace_are_bounded_by_namespace() -> None:
    world = World(everything(), limit=2)

    async def made(namespace: str, name: str, **more: Any) -> Draft:
        metadata = {"namespace": namespace, "name": name}
        return await world.run(release(spec=FAR, metadata=metadata, **more))

    await made("team", "one")
    await made("team", "two")
    with pytest.raises(WaitingError, match="have 2 HelmCharts in namespace 'shared'") as refused:
        await made("team", "three")
    await made("team", "one")
    await made("ads", "three")
    await made("shared", "three")
    assert refused.value.reason == "HelmChartLimitExceeded"
    assert len(world.charts) == 4

    two = ObjectKey("shared", "team-two")
    shown = msgspec.convert(world.charts[two], HelmChart)
    world.counts.saw(Change("DELETED", two, shown, None))
    await made("team", "three")

    assert ObjectKey("shared", "team-three") in world.charts


async def test_helmcharts_that_others_label_count_only_where_they_are() -> None:
    world = World(everything(), limit=1)
    labels = {"helm.toolkit.fluxcd.io/name": "x", "helm.toolkit.fluxcd.io/namespace": "team"}
    for place in (ObjectKey("evil", "team-x"), ObjectKey("shared", "copy")):
        theirs = written_by("kubectl", place)
        theirs["metadata"]["labels"] = labels
        chart = msgspec.convert(theirs, HelmChart)
        world.counts.saw(Change("ADDED", place, None, chart))

    await world.run(release(spec=FAR))

    assert SHARED in world.charts


async def test_helmchart_that_could_not_be_made_does_not_count() -> None:
    world = World(everything(), limit=1)
    world.down = True
    with pytest.raises(UnreachableError):
        await world.run(release(spec=FAR))
    world.down = False

    await world.run(release(spec=FAR))

    assert SHARED in world.charts


async def test_helmchart_of_a_suspended_release_goes_with_it() -> None:
    world = World()
    await world.run(release(spec=TEMPLATE))
    suspended: Json = {**TEMPLATE, "suspend": True}

    await world.run(release(spec=suspended, status={"helmChart": str(PLACE)}))
    assert PLACE in world.charts
    await world.run(release(spec=suspended, status={"helmChart": str(PLACE)}, deleted=True))

    assert world.charts == {}


async def test_helmchart_of_older_flux_is_taken_over(granted: World) -> None:
    granted.charts[SHARED] = written_by("helm-controller")

    await granted.run(release(spec=FAR))

    assert granted.charts[SHARED]["spec"]["chart"] == "shop"


@pytest.mark.parametrize("name", ["nginx", "team-app"])
async def test_status_that_somebody_wrote_deletes_no_helmchart(granted: World, name: str) -> None:
    place = ObjectKey("shared", name)
    # our own manager is on every HelmChart of a HelmRelease, so it proves nothing of another name
    granted.charts[place] = written_by(
        "kubectl" if name == "team-app" else "helm-controller", place
    )

    draft = await granted.run(release(status={"helmChart": str(place)}))

    assert place in granted.charts
    assert draft.obj.status.helm_chart == ""


async def test_helmchart_goes_when_the_chart_is_named_otherwise() -> None:
    world = World()
    await world.run(release(spec=TEMPLATE))
    world.sent.clear()

    draft = await world.run(release(status={"helmChart": str(PLACE)}))

    assert world.sent == ["delete u"]
    assert draft.obj.status.helm_chart == ""


async def test_helmchart_that_the_watch_has_not_shown_goes_as_well() -> None:
    world = World()
    await world.run(release(spec=TEMPLATE))
    world.sent.clear()
    world.shown = False

    await world.run(release(status={"helmChart": str(PLACE)}))

    assert world.sent == ["get", "delete u"]
    assert world.charts == {}


async def test_helmchart_goes_with_its_owner_and_is_not_made_again() -> None:
    world = World()
    await world.run(release(spec=TEMPLATE))
    world.sent.clear()

    await world.run(release(spec=TEMPLATE, status={"helmChart": str(PLACE)}, deleted=True))

    assert world.sent == ["delete u"]
    assert world.charts == {}


async def test_helmchart_that_no_status_tells_of_goes_with_its_owner() -> None:
    world = World()
    await world.run(release(spec=TEMPLATE))
    world.templates.forget(ObjectKey("team", "app"))

    await world.run(release(spec=TEMPLATE, deleted=True))

    assert world.charts == {}


@pytest.mark.parametrize("told", ["", "team/before"])
async def test_helmchart_that_the_status_does_not_tell_of_yet_goes(told: str) -> None:
    world = World()
    await world.run(release(spec=TEMPLATE, status={"helmChart": told}))

    draft = await world.run(release(status={"helmChart": told}))

    assert world.charts == {}
    assert draft.obj.status.helm_chart == ""


async def test_helmchart_that_is_gone_is_not_taken_for_a_new_one() -> None:
    world = World()
    await world.run(release(spec=TEMPLATE))
    await world.run(release())

    draft = await world.run(release())

    assert draft.obj.status.helm_chart == ""
    assert world.sent[-1] == "delete u"


async def test_helmchart_that_cannot_be_deleted_is_not_forgotten() -> None:
    world = World()
    await world.run(release(spec=TEMPLATE))
    world.down = True

    with pytest.raises(TransientError, match="failed to delete HelmChart 'team/team-app'"):
        await world.run(release(status={"helmChart": str(PLACE)}))

    assert PLACE in world.charts


async def test_helmchart_that_is_gone_already_is_no_failure() -> None:
    world = World()

    draft = await world.run(release(status={"helmChart": str(PLACE)}))

    assert world.sent == ["get"]
    assert draft.obj.status.helm_chart == ""


async def test_source_of_another_namespace_gets_no_helmchart_without_a_grant() -> None:
    world = World()
    source = {"kind": "HelmRepository", "name": "charts", "namespace": "shared"}
    chart = {"spec": {"chart": "shop", "sourceRef": source}}

    with pytest.raises(AccessDeniedError, match="no ReferenceGrant"):
        await world.run(release(spec={**TEMPLATE, "chart": chart}))

    assert world.sent == []
