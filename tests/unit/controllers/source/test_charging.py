"""Who asked for a HelmChart is charged for it, and no label can charge another namespace."""

from typing import Any

import msgspec
import pytest

from controllers.source.charging import Charging
from crds.source_helm import HelmChart
from toolkit.errors import TransientError
from toolkit.kube.errors import ForbiddenError, NoMatchError, NotFoundError
from toolkit.objects import GroupVersionKind, Json

OWNER = {"helm.toolkit.fluxcd.io/name": "app", "helm.toolkit.fluxcd.io/namespace": "team"}


class Releases:
    """HelmReleases by namespace and name."""

    def __init__(self, *found: Json) -> None:
        self.found = {
            (each["metadata"]["namespace"], each["metadata"]["name"]): each for each in found
        }
        self.error: Exception | None = None
        self.asked = 0

    async def get(self, gvk: GroupVersionKind, name: str, namespace: str = "") -> Json:
        assert gvk.kind == "HelmRelease"
        self.asked += 1
        if self.error:
            raise self.error
        if (namespace, name) not in self.found:
            raise NotFoundError(f"{namespace}/{name}")
        return self.found[namespace, name]


def release(source: str | None = "platform", *, made: str = "", namespace: str = "team") -> Json:
    reference = {"kind": "GitRepository", "name": "x"} | ({"namespace": source} if source else {})
    return {
        "metadata": {"name": "app", "namespace": namespace},
        "spec": {"chart": {"spec": {"chart": "app", "sourceRef": reference}}},
        "status": {"helmChart": made} if made else {},
    }


def chart(name: str = "team-app", namespace: str = "platform", **metadata: Any) -> HelmChart:
    body = {
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": "1",
            "generation": 1,
            "labels": OWNER,
            **metadata,
        },
        "spec": {"chart": "app", "interval": "1m", "sourceRef": {"kind": "Bucket", "name": "x"}},
    }
    return msgspec.convert(body, HelmChart)


async def test_the_namespace_of_the_release_is_charged() -> None:
    assert await Charging(Releases(release())).account(chart()) == "team"


async def test_a_chart_under_its_other_name_is_charged_once_the_status_names_it() -> None:
    other = chart("helmrelease.team.app")
    named = release(made="platform/helmrelease.team.app")

    assert await Charging(Releases(named)).account(other) == "team"
    with pytest.raises(TransientError, match="does not use it"):
        await Charging(Releases(release(made="platform/team-app"))).account(other)


async def test_a_release_that_changed_is_charged_for_what_it_made() -> None:
    suspended = release("elsewhere", made="platform/team-app")
    by_reference = {**release(made="platform/team-app"), "spec": {"chartRef": {"name": "x"}}}

    assert await Charging(Releases(suspended)).account(chart()) == "team"
    assert await Charging(Releases(by_reference)).account(chart()) == "team"


@pytest.mark.parametrize(
    "made",
    [
        chart(labels={}),
        chart(labels={"helm.toolkit.fluxcd.io/name": "app"}),
        chart("copy"),
        chart("team-app-2"),
        chart("app"),
    ],
    ids=["no labels", "half an owner", "copy", "other name", "short name"],
)
async def test_what_is_made_by_hand_is_charged_where_it_is(made: HelmChart) -> None:
    releases = Releases(release())

    assert await Charging(releases).account(made) == "platform"
    assert releases.asked == 0


async def test_a_release_beside_its_source_needs_no_request() -> None:
    releases = Releases(release(None))

    assert await Charging(releases).account(chart(namespace="team")) == "team"
    assert releases.asked == 0


@pytest.mark.parametrize(
    "releases",
    [
        Releases(),
        Releases(release("elsewhere")),
        Releases(release(None)),
        Releases(release("elsewhere", made="elsewhere/team-app")),
        Releases({**release(), "spec": {"chartRef": {"kind": "OCIRepository", "name": "x"}}}),
        Releases(release(namespace="other")),
    ],
    ids=["none", "other source", "own source", "other chart", "no template", "other release"],
)
async def test_labels_alone_charge_nobody_and_nothing_is_stored(releases: Releases) -> None:
    with pytest.raises(TransientError) as refused:
        await Charging(releases).account(chart())

    assert refused.value.reason == "OwnerNotFound"
    assert "HelmRelease 'team/app'" in str(refused.value)
    assert "HelmChart 'platform/team-app'" in str(refused.value)


async def test_a_cluster_without_releases_charges_nobody() -> None:
    releases = Releases()
    releases.error = NoMatchError("HelmRelease is not served")

    with pytest.raises(TransientError, match="does not exist"):
        await Charging(releases).account(chart())


async def test_an_api_server_that_does_not_answer_is_asked_again() -> None:
    releases = Releases(release())
    charging = Charging(releases)
    releases.error = ForbiddenError("forbidden")

    with pytest.raises(ForbiddenError):
        await charging.account(chart())
    releases.error = None

    assert await charging.account(chart()) == "team"


async def test_one_request_for_a_generation() -> None:
    releases = Releases(release())
    charging = Charging(releases)

    for _ in range(3):
        await charging.account(chart())
    once = releases.asked
    releases.found.clear()
    with pytest.raises(TransientError):
        await charging.account(chart(generation=2))
    with pytest.raises(TransientError):
        await charging.account(chart(uid="2"))

    assert (once, releases.asked) == (1, 3)
