"""Specs that cannot work are refused by a real API server, whichever way they are written."""

import asyncio
import contextlib
import dataclasses
from typing import Any

import pytest
import pytest_asyncio
import yaml

from tests.contract.webhooks.conftest import Gate
from tests.fakes import specs
from toolkit.kube.errors import ApiError, InvalidError
from toolkit.objects import GroupVersionKind, Json
from webhooks import arming
from webhooks.hints import admission as hints
from webhooks.validation import admission as validation

GIT = GroupVersionKind("source.toolkit.fluxcd.io", "v1", "GitRepository")
KUSTOMIZATION = GroupVersionKind("kustomize.toolkit.fluxcd.io", "v1", "Kustomization")
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


@pytest_asyncio.fixture
async def judged(definitions: None, gate: Gate) -> Gate:  # noqa: ARG001 - must be there first
    """Have validation and hints asked in a namespace."""
    await start(gate)
    return gate


async def start(gate: Gate) -> None:
    """Run a process, and wait until it is asked."""
    mine = {"matchLabels": {"kubernetes.io/metadata.name": gate.namespace}}
    await gate.start(*(dataclasses.replace(row, namespace_selector=mine) for row in ROWS))

    async def refuses() -> bool:
        try:
            await gate.admin.apply(git("probe", gate, **BAD), manager="test", dry_run=True)
        except InvalidError:
            return True
        return False

    await gate.until(refuses)


async def test_whichever_way_a_wrong_spec_is_written_it_is_refused_with_every_fault(
    judged: Gate,
) -> None:
    bad = git("app", judged, **BAD)
    worse = yaml.safe_dump(git("there", judged, **BAD))
    change = '{"spec":{"ref":{"semver":"latest"},"sparseCheckout":["../x"]}}'
    await judged.admin.create(git("there", judged))

    refusals = [
        await judged.apply(bad),
        await judged.apply(bad, flags=("--server-side",)),
        await judged.apply(bad, flags=("--dry-run=server",)),
        await judged.apply(bad, flags=("--server-side", "--dry-run=server")),
        await judged.apply({**bad, "apiVersion": "source.toolkit.fluxcd.io/v1beta2"}),
        await judged.kubectl("create", "-f", "-", stdin=yaml.safe_dump(bad)),
        await judged.kubectl("replace", "-f", "-", stdin=worse),
        await judged.kubectl("patch", "gitrepository", "there", "--type=merge", "-p", change),
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


async def test_a_warning_reaches_the_terminal(judged: Gate) -> None:
    body = yaml.safe_dump(kustomization("app", judged, path="../x"))
    config = f"--kubeconfig={judged.control_plane.kubeconfig}"
    process = await asyncio.create_subprocess_exec(
        *(judged.control_plane.kubectl_program, config, "apply", "-f", "-"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )

    out, err = await process.communicate(body.encode())

    assert b"app created" in out
    told = err.decode()
    assert "Warning: spec.path '../x': it leads above the root, where it stops" in told
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
    refused = await judged.apply(git("there", judged, **BAD))

    assert "kustomization.kustomize.toolkit.fluxcd.io/app created (server dry run)" in told
    assert "is not a range of versions" in refused


async def test_a_circle_is_refused_once_the_cluster_holds_its_other_half(judged: Gate) -> None:
    await judged.admin.create(kustomization("b", judged, "a"))

    async def refusal() -> str:
        told = await judged.apply(kustomization("a", judged, "b"), flags=("--dry-run=server",))
        return told if "failed" in told else ""

    told = await judged.until(refusal)

    way = " ".join(f"{judged.namespace}/{name}," for name in "ab")
    assert f"it would wait for itself: {way} {judged.namespace}/a" in told


async def test_a_wrong_object_that_is_there_can_be_labelled_finalized_and_deleted(
    judged: Gate,
) -> None:
    await judged.replicas.pop().stop()
    await arming.disarm(judged.admin)
    wrong = git("old", judged, **BAD)
    wrong["metadata"]["finalizers"] = ["example.com/keep"]

    async def unasked() -> bool:
        with contextlib.suppress(ApiError):
            await judged.admin.create(wrong)
            return True
        return False

    await judged.until(unasked)
    await start(judged)

    labelled = await judged.kubectl("label", "gitrepository", "old", "a=b")
    suspended = await judged.kubectl(
        "patch", "gitrepository", "old", "--type=merge", "-p", '{"spec":{"suspend":true}}'
    )
    worse = await judged.kubectl(
        "patch", "gitrepository", "old", "--type=merge", "-p", '{"spec":{"ignore":"["}}'
    )
    await judged.kubectl("delete", "gitrepository", "old", "--wait=false")
    freed = await judged.kubectl(
        "patch", "gitrepository", "old", "--type=merge", "-p", '{"metadata":{"finalizers":[]}}'
    )
    gone = await judged.kubectl("get", "gitrepository", "old")

    assert "labeled" in labelled
    assert "patched" in suspended
    assert "ignore-rules" in worse
    assert "semver-range" not in worse
    assert "patched" in freed
    assert "NotFound" in gone
