"""Helm renders the chart with its definitions and values, and refuses unknown values."""

import subprocess
from collections.abc import Iterable
from pathlib import Path

import pytest

import crds
from cli.chart import builds, templates
from cli.installing import manifests
from cli.installing.manifests import Choice
from tests.tools import installation
from tests.tools.helmcli import Helm
from toolkit.objects import Json, dig

ROOT = Path(__file__).parents[3]
CHART = ROOT / "deploy" / "chart"
PLACE = "gitops"
KEEP = "helm.sh/resource-policy"


@pytest.mark.parametrize(
    "names",
    [(), *((each,) for each in builds.COMPONENTS), builds.COMPONENTS],
    ids=lambda names: "+".join(names) if len(names) < 2 else "all",
)
async def test_the_chart_renders_what_the_command_installs(
    helm: Helm, names: tuple[str, ...]
) -> None:
    switches = (templates.switch(name).removeprefix("$.Values.") for name in names)
    rendered = helm(
        *("template", "penstock", CHART, f"--namespace={PLACE}", "--set=crds.install=false"),
        *(f"--set={switch}=true" for switch in switches),
    )

    wanted = await manifests.build(Choice(namespace=PLACE, components=names))

    assert by_name(installation.documents(rendered)) == by_name(wanted)


def by_name(objects: Iterable[Json]) -> dict[tuple[str, str], Json]:
    """Return objects without those that the release has otherwise, args in any order."""
    kept = [each for each in objects if each["kind"] not in manifests.KEPT]
    for each in kept:
        for container in dig(each, "spec", "template", "spec", "containers", default=()):
            container["args"] = sorted(container["args"])
    return {(each["kind"], each["metadata"]["name"]): each for each in kept}


@pytest.mark.parametrize("keep", [True, False])
def test_the_definitions_are_those_of_the_base(helm: Helm, *, keep: bool) -> None:
    rendered = helm("template", "penstock", CHART, f"--set=crds.keep={str(keep).lower()}")

    found = {
        each["metadata"]["name"]: each
        for each in installation.documents(rendered)
        if each["kind"] == "CustomResourceDefinition"
    }
    # This one has no objects, so nothing is lost with it.
    assert KEEP not in found.pop("distributions.penstock.dev")["metadata"]["annotations"]
    policies = [each["metadata"]["annotations"].pop(KEEP, None) for each in found.values()]
    assert policies == ["keep" if keep else None] * len(crds.KINDS)
    files = (ROOT / "crds" / "yaml").glob("*_*.yaml")
    wanted = [each for file in files for each in installation.documents(file.read_text())]
    assert found == {each["metadata"]["name"]: each for each in wanted}


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ("webhook.replica=1", "additional properties 'replica' not allowed"),
        ("components.ha=true", "at '/components/ha': got boolean, want object"),
        ("image.digest=abc", "at '/image/digest': 'abc' does not match pattern"),
    ],
)
def test_a_value_that_the_chart_does_not_have_is_refused(
    helm_program: Path, wrong: str, said: str
) -> None:
    done = subprocess.run(
        [helm_program, "template", "penstock", CHART, f"--set={wrong}"],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode != 0
    assert said in done.stderr


def test_values_reach_the_pods_and_accounts(helm: Helm) -> None:
    digest = f"sha256:{'0' * 64}"
    rendered = helm(
        *("template", "penstock", CHART, "--show-only=templates/webhook.yaml"),
        *("--show-only=templates/rbac.yaml", f"--set=image.digest={digest}"),
        *("--set=image.pullSecrets[0].name=registry", "--set=webhook.replicas=0"),
        *("--set=webhook.podLabels.app=other", "--set=webhook.podLabels.team=one"),
        *("--set=webhook.affinity.nodeAffinity.a=b", "--set=webhook.tolerations[0].key=k"),
        "--set-string=webhook.podAnnotations.prometheus\\.io/scrape=false",
        "--set=webhook.serviceAccount.annotations.role=r",
    )

    objects = {
        (each["kind"], each["metadata"]["name"]): each for each in installation.documents(rendered)
    }
    deployment = objects["Deployment", "webhook"]["spec"]
    template = deployment["template"]
    assert deployment["replicas"] == 0
    assert template["spec"]["containers"][0]["image"] == f"penstock@{digest}"
    assert template["spec"]["imagePullSecrets"] == [{"name": "registry"}]
    assert template["spec"]["affinity"] == {"nodeAffinity": {"a": "b"}}
    assert template["spec"]["tolerations"] == [{"key": "k"}]
    assert template["metadata"]["annotations"]["prometheus.io/scrape"] == "false"
    assert template["metadata"]["labels"]["team"] == "one"
    assert template["metadata"]["labels"]["app"] == deployment["selector"]["matchLabels"]["app"]
    assert objects["ServiceAccount", "webhook"]["metadata"]["annotations"] == {"role": "r"}


def test_every_process_runs_the_image_of_the_values(helm: Helm) -> None:
    rendered = helm("template", "penstock", CHART, "--set=image.repository=registry.example/p")

    images = {
        container["image"].partition(":")[0]
        for each in installation.documents(rendered)
        for container in dig(each, "spec", "template", "spec", "containers", default=())
    }
    assert images == {"registry.example/p"}
