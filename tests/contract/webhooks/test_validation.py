"""Specs that cannot work are refused by a real API server, whichever way they are written."""

import dataclasses
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from controlplane.plane import ControlPlane
from tests.contract.webhooks.conftest import LABEL, Gate, opened
from tests.fakes import specs
from tests.tools import namespaces
from toolkit.kube.errors import ApiError, InvalidError
from toolkit.objects import GroupVersionKind, Json
from webhooks.hints import admission as hints
from webhooks.validation import admission as validation

pytestmark = pytest.mark.asyncio(loop_scope="module")

GIT = GroupVersionKind("source.toolkit.fluxcd.io", "v1", "GitRepository")
KUSTOMIZATION = GroupVersionKind("kustomize.toolkit.fluxcd.io", "v1", "Kustomization")
RELEASE = "helm.toolkit.fluxcd.io"
ROWS = (validation.ROW, hints.ROW)
BAD = {"ref": {"semver": "latest"}, "sparseCheckout": ["../x"]}


def git(name: str, gate: Gate, **spec: Any) -> Json:
    body = {**specs.RIGHT["GitRepository"], **spec}
    metadata = {"name": name, "namespace": gate.namespace}
    return {"apiVersion": GIT.api_version, "kind": GIT.kind, "metadata": metadata, "spec": body}


def kustomization(name: str, gate: Gate, *waits_for: str, **spec: Any) -> Json:
    depends = {"dependsOn": [{"name": each} for each in waits_for]} if waits_for else {}
    body = {**specs.RIGHT["Kustomization"], **depends, **spec}
    metadata = {"name": name, "namespace": gate.namespace}
    kind = {"apiVersion": KUSTOMIZATION.api_version, "kind": KUSTOMIZATION.kind}
    return {**kind, "metadata": metadata, "spec": body}


def release(name: str, gate: Gate, version: str = "v2", **spec: Any) -> Json:
    return {
        "apiVersion": f"{RELEASE}/{version}",
        "kind": "HelmRelease",
        "metadata": {"name": name, "namespace": gate.namespace},
        "spec": {**specs.RIGHT["HelmRelease"], **spec},
    }


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(control_plane: ControlPlane, definitions: None) -> AsyncIterator[Gate]:
    """Have validation and hints asked in the namespaces of one gate."""
    del definitions
    async with opened(control_plane) as gate:
        await gate.start(
            *(dataclasses.replace(row, namespace_selector=gate.selector) for row in ROWS)
        )
        await gate.converting()
        await refusing(gate)
        yield gate


@pytest_asyncio.fixture(loop_scope="module")
async def judged(shared: Gate) -> Gate:
    """Give a test a namespace of its own."""
    return await shared.beside()


async def refusing(gate: Gate) -> None:
    """Wait until the API server asks about the namespace."""

    async def refuses() -> bool:
        try:
            await gate.admin.apply(git("probe", gate, **BAD), manager="test", dry_run=True)
        except InvalidError:
            return True
        except ApiError:  # kinds are away for a moment while their definition is updated
            return False
        return False

    await gate.until(refuses)


async def test_whichever_way_a_wrong_spec_is_written_it_is_refused_with_every_fault(
    judged: Gate,
) -> None:
    bad = git("app", judged, **BAD)
    worse = git("there", judged, **BAD)
    change = '{"spec":{"ref":{"semver":"latest"},"sparseCheckout":["../x"]}}'
    await judged.admin.create(git("there", judged))

    refusals = [
        await judged.refused(bad),
        await judged.refused(bad, flags=("--server-side",)),
        await judged.refused(bad, flags=("--dry-run=server",)),
        await judged.refused(bad, flags=("--server-side", "--dry-run=server")),
        await judged.refused({**bad, "apiVersion": "source.toolkit.fluxcd.io/v1beta2"}),
        await judged.kubectl.refused("create", obj=bad),
        await judged.kubectl.refused("replace", obj=worse),
        await judged.kubectl.refused(
            "patch", "gitrepository", "there", "--type=merge", "-p", change
        ),
    ]
    with pytest.raises(InvalidError) as refused:
        await judged.admin.create(bad)

    for told in refusals:
        assert "spec.ref.semver" in told
        assert "'latest' is not a range of versions: write it as '>=1.2.0 <2.0.0'" in told
        assert "spec.sparseCheckout[0]" in told
        assert "is not in the repository" in told
    assert [cause.field for cause in refused.value.causes] == [
        "spec.ref.semver",
        "spec.sparseCheckout[0]",
    ]


async def test_a_release_that_cannot_work_is_refused_in_every_version(judged: Gate) -> None:
    source = {"kind": "Secret", "name": "s", "targetPath": "a."}
    wrong = {"valuesFrom": [source], "dependsOn": [{"name": "app"}]}

    refusals = [
        await judged.refused(release("app", judged, version, **wrong))
        for version in ("v2", "v2beta2", "v2beta1")
    ]

    for told in refusals:
        assert "spec.valuesFrom[0].targetPath" in told
        assert "ends in a dot" in told
        assert "spec.dependsOn[0]: it names this object itself: remove it" in told


async def test_a_warning_reaches_the_terminal(judged: Gate) -> None:
    told = await judged.apply(kustomization("app", judged, path="../x"))

    assert "app created" in told
    assert "Warning: spec.path '../x': it points above the root directory" in told
    assert f"GitRepository '{judged.namespace}/apps' does not exist" in told


@pytest.mark.parametrize(
    "text",
    ["a: " + "[" * 30_000, "a: &a [x, x]\ncurrent-context: [*a, *a]\n"],
    ids=["deep", "wide"],
)
async def test_no_kubeconfig_ends_the_gate_that_looks_into_it(judged: Gate, text: str) -> None:
    metadata = {"name": "far", "namespace": judged.namespace}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata}
    await judged.admin.create({**secret, "stringData": {"value": text}})
    remote = kustomization("app", judged, kubeConfig={"secretRef": {"name": "far"}})

    told = await judged.apply(remote, flags=("--dry-run=server",))
    refused = await judged.refused(git("there", judged, **BAD))

    assert "kustomization.kustomize.toolkit.fluxcd.io/app created (server dry run)" in told
    assert "is not a range of versions" in refused


async def test_a_circle_is_refused_once_the_cluster_holds_its_other_half(judged: Gate) -> None:
    await judged.admin.create(kustomization("b", judged, "a"))

    async def refusal() -> str:
        obj = kustomization("a", judged, "b")
        told = await judged.kubectl.answer("apply", "--dry-run=server", obj=obj)
        return "" if "created" in told else told

    told = await judged.until(refusal)

    way = " ".join(f"{judged.namespace}/{name}," for name in "ab")
    assert f"it would wait for itself: {way} {judged.namespace}/a" in told


async def test_a_circle_of_both_kinds_is_refused(judged: Gate) -> None:
    needs = {"kind": "HelmRelease", "name": "a"}
    await judged.admin.create(kustomization("a", judged, dependsOn=[needs]))
    waiting = release("a", judged, dependsOn=[{"kind": "Kustomization", "name": "a"}])

    async def refusal() -> str:
        told = await judged.kubectl.answer("apply", "--dry-run=server", obj=waiting)
        return "" if "created" in told else told

    told = await judged.until(refusal)

    here = judged.namespace
    way = f"HelmRelease/{here}/a, Kustomization/{here}/a, HelmRelease/{here}/a"
    assert f"it would wait for itself: {way}" in told


async def test_a_wrong_object_that_is_there_can_be_labelled_finalized_and_deleted(
    shared: Gate,
) -> None:
    free = await namespaces.create(shared.admin)
    judged = dataclasses.replace(shared, namespace=free)
    wrong = git("old", judged, **BAD)
    wrong["metadata"]["finalizers"] = ["example.com/keep"]
    await judged.admin.create(wrong)
    label = {"metadata": {"labels": {LABEL: shared.installed}}}
    await judged.admin.patch(namespaces.NAMESPACE, free, "", label, strategy="merge")
    await refusing(judged)
    patch = ("patch", "gitrepository", "old", "--type=merge", "-p")

    await judged.kubectl.run("label", "gitrepository", "old", "a=b")
    await judged.kubectl.run(*patch, '{"spec":{"suspend":true}}')
    worse = await judged.kubectl.refused(*patch, '{"spec":{"ignore":"["}}')
    await judged.kubectl.run("delete", "gitrepository", "old", "--wait=false")
    await judged.kubectl.run(*patch, '{"metadata":{"finalizers":[]}}')
    gone = await judged.kubectl.refused("get", "gitrepository", "old")

    assert "ignore-rules" in worse
    assert "semver-range" not in worse
    assert "NotFound" in gone
