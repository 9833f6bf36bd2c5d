"""What is read of a cluster of Flux, where some kinds and versions are not known."""

import asyncio

from cli.check import cluster
from tests.fakes.apiserver import FakeApiServer

GROUP = "kustomize.toolkit.fluxcd.io"


def flux() -> FakeApiServer:
    """Return an old Flux: Kustomizations in their second version, and no kind of ours."""
    server = FakeApiServer()
    server.kinds[GROUP, "v1beta2", "kustomizations"] = "Kustomization"
    labels = {f"{GROUP}/name": "root", f"{GROUP}/namespace": "flux-system"}
    server.put(
        "kustomizations", "web", "shop", metadata={"labels": labels}, spec={"dependsOn": None}
    )
    server.put("gitrepositories", "fleet", "flux-system", spec={"url": "https://example.com/fleet"})
    return server


def read(server: FakeApiServer) -> cluster.Found:
    async def inside() -> cluster.Found:
        async with server.running() as api:
            return await cluster.read(api)

    return asyncio.run(inside())


def test_kinds_and_versions_that_are_not_served_are_passed_over() -> None:
    found = read(flux())

    assert not found.knows_grants
    assert {str(each.ref) for each in found.subjects} == {
        "GitRepository/flux-system/fleet",
        "Kustomization/shop/web",
    }


def test_objects_say_what_applies_them() -> None:
    by = {each.ref.name: str(each.by) for each in read(flux()).subjects if each.by}

    assert by == {"web": "flux-system/root"}


def test_grants_of_a_cluster_are_known() -> None:
    server = flux()
    server.kinds["policy.penstock.dev", "v1alpha1", "referencegrants"] = "ReferenceGrant"

    assert read(server).knows_grants
