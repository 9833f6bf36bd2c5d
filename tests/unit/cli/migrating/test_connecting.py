"""Which pods may fetch artifacts while Flux and Penstock are both there."""

from dataclasses import replace

from cli.migrating import connecting
from cli.migrating.survey import nothing
from tests.fakes import fluxinstallation
from toolkit.objects import Json


def rule() -> Json:
    parts = fluxinstallation.manifests()
    deployments = tuple(each for each in parts if each["kind"] == "Deployment")
    found = replace(nothing("flux-system"), deployments=deployments)
    spec = connecting.policy(found, "penstock-system")["spec"]
    assert spec["podSelector"]["matchLabels"]["app.kubernetes.io/component"] == "source-controller"
    (only,) = spec["ingress"]
    return dict(only)


def test_the_pods_of_flux_s_controllers_may_fetch_and_no_others() -> None:
    sources = rule()["from"]

    places = {
        each["namespaceSelector"]["matchLabels"]["kubernetes.io/metadata.name"] for each in sources
    }
    assert places == {"flux-system"}
    assert [each["podSelector"]["matchLabels"] for each in sources] == [
        {"app": name} for name in fluxinstallation.CONTROLLERS
    ]


def test_they_reach_the_artifact_server_and_nothing_else() -> None:
    assert rule()["ports"] == [{"port": "http", "protocol": "TCP"}]
