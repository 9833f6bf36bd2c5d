"""``penstock check`` and the gate agree: on what is refused, and on what the grants allow."""

import asyncio
import dataclasses
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import yaml

from cli.__main__ import main
from cli.check import builds, files
from cli.check.subjects import Subject
from controlplane.plane import ControlPlane
from tests.contract.webhooks.conftest import Gate, opened
from tests.fakes import fleets, specs
from toolkit.kube.errors import ApiError, InvalidError
from toolkit.objects import GroupVersionKind, Json, dig
from webhooks import references
from webhooks.validation import admission as validation

pytestmark = pytest.mark.asyncio(loop_scope="module")

GRANT = GroupVersionKind("policy.penstock.dev", "v1alpha1", "ReferenceGrant")
ROWS = (validation.ROW, references.ROW)


@dataclasses.dataclass
class Fleet:
    """A fleet below a directory, in namespaces of the gate."""

    gate: Gate
    directory: Path
    objects: list[Subject]
    namespaces: set[str]

    async def refused(self) -> set[str]:
        """Return the names of the objects that the API server refuses."""
        return {each.ref.name for each in self.objects if not await self.admitted(each.obj)}

    async def admitted(self, obj: Json) -> bool:
        try:
            await self.gate.admin.apply(obj, manager="test", dry_run=True)
        except ApiError:
            return False
        return True


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gate(control_plane: ControlPlane, definitions: None) -> AsyncIterator[Gate]:
    del definitions
    async with opened(control_plane) as gate:
        await gate.start(
            *(dataclasses.replace(row, namespace_selector=gate.selector) for row in ROWS)
        )
        await gate.converting()
        yield gate


@pytest_asyncio.fixture(loop_scope="module")
async def fleet(gate: Gate, tmp_path: Path) -> Fleet:
    """Write the fleet; its sources of flux-system are elsewhere and shared."""
    named = {name: (await gate.beside()).namespace for name in ("media", "shop", "infra")}
    shared = (await gate.beside()).namespace
    directory = fleets.write(tmp_path, **{**named, "flux-system": shared})
    await gate.admin.apply(grant_to_all(shared), manager="test")
    written = files.read(directory).subjects
    built = await builds.build(directory, written, shared, 60.0)
    objects = [each for each in built.subjects if not each.partial]
    fleet = Fleet(gate, directory, objects, {*named.values(), shared})
    await refusing(fleet)
    return fleet


def grant_to_all(namespace: str) -> Json:
    to = [{"group": "source.toolkit.fluxcd.io", "kind": "GitRepository"}]
    of = {"group": "kustomize.toolkit.fluxcd.io", "kind": "Kustomization", "namespace": "*"}
    return {
        "apiVersion": GRANT.api_version,
        "kind": GRANT.kind,
        "metadata": {"name": "default", "namespace": namespace},
        "spec": {"from": [of], "to": to},
    }


async def refusing(fleet: Fleet) -> None:
    """Wait until both plugins are asked about the namespaces, and know the grant that is there."""
    shop = next(each.obj for each in fleet.objects if each.ref.name == "web")
    spec = {**specs.RIGHT["GitRepository"], "ref": {"semver": "latest"}}
    metadata = {"name": "probe", "namespace": shop["metadata"]["namespace"]}
    git = {"apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "GitRepository"}

    async def refuses() -> bool:
        try:
            await fleet.gate.admin.apply(
                {**git, "metadata": metadata, "spec": spec}, manager="test", dry_run=True
            )
        except InvalidError:
            return "music" in await fleet.refused()
        except ApiError:  # kinds are away for a moment while their definition is updated
            return False
        return False

    await fleet.gate.until(refuses)


async def check(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, Any]]:
    capsys.readouterr()
    code = await asyncio.to_thread(main, ("check", *arguments, "-o", "json"))
    return code, json.loads(capsys.readouterr().out)


def told(document: dict[str, Any], namespaces: set[str]) -> set[str]:
    return {
        each["name"]
        for each in document["findings"]
        if each["result"] == "refused" and each["namespace"] in namespaces
    }


async def test_the_gate_refuses_what_is_told_and_admits_it_with_the_grants(
    fleet: Fleet, capsys: pytest.CaptureFixture[str]
) -> None:
    shared = next(each.ref.namespace for each in fleet.objects if each.ref.name == "apps")
    repository = ("repository", str(fleet.directory), "--install-namespace", shared, "-n", shared)

    _, before = await check(capsys, *repository)
    refused = await fleet.refused()
    file = fleet.directory / "grants.yaml"
    await check(capsys, *repository, "--fix", str(file))
    grants = list(yaml.safe_load_all(file.read_text()))
    for each in grants:
        await fleet.gate.admin.apply(each, manager="test")
    _, after = await check(capsys, *repository)

    assert told(before, fleet.namespaces) == refused
    assert {"audio", "till", "often", "misspelt"} < refused
    assert told(after, fleet.namespaces) == await fleet.refused()
    assert {"often", "misspelt"} <= told(after, fleet.namespaces)
    assert not {"audio", "till"} & told(after, fleet.namespaces)


async def test_objects_of_a_cluster_are_told_when_their_grant_goes(
    fleet: Fleet, control_plane: ControlPlane, capsys: pytest.CaptureFixture[str]
) -> None:
    admin, kubeconfig = fleet.gate.admin, str(control_plane.kubeconfig)
    audio = next(each.obj for each in fleet.objects if each.ref.name == "audio")
    infra = dig(audio, "spec", "sourceRef", "namespace")
    await admin.apply(grant_to_all(infra), manager="test")
    await admin.apply(audio, manager="test")

    _, granted = await check(capsys, "cluster", "--kubeconfig", kubeconfig)
    await admin.delete(GRANT, "default", infra)
    code, document = await check(capsys, "cluster", "--kubeconfig", kubeconfig)

    assert told(granted, fleet.namespaces) == set()
    assert (code, told(document, fleet.namespaces)) == (1, {"audio"})
    found = [each for each in document["findings"] if each["namespace"] in fleet.namespaces]
    assert [each["field"] for each in found] == ["spec.sourceRef"]
    grants = [each for each in document["grants"] if each["metadata"]["namespace"] == infra]
    assert len(grants) == 1
