"""What Flux takes is taken as it is: without spec, in old versions, with odd patterns."""

import pytest

from crds.meta import VERIFIED
from tests.e2e.conftest import GIT_REPOSITORY, KUSTOMIZATION, Space, condition, config_map
from tests.e2e.generators import GENERATOR, artifact, generator, made
from tests.e2e.sources import content, digest_of
from toolkit.objects import GroupVersionKind, Json

pytestmark = pytest.mark.asyncio(loop_scope="session")

SOURCES = "source.toolkit.fluxcd.io"
CHART = GroupVersionKind(SOURCES, "v1", "HelmChart")
UNWRITTEN = (
    GIT_REPOSITORY,
    GroupVersionKind(SOURCES, "v1", "OCIRepository"),
    GroupVersionKind(SOURCES, "v1", "Bucket"),
    GroupVersionKind(SOURCES, "v1", "HelmRepository"),
    CHART,
    KUSTOMIZATION,
    GENERATOR,
)


def stalled(obj: Json) -> bool:
    return condition(obj, "Stalled").get("status") == "True"


def ready(obj: Json) -> bool:
    return condition(obj, "Ready").get("status") == "True"


async def test_an_object_without_spec_stalls_until_it_has_one(space: Space) -> None:
    metadata = {"name": "app", "namespace": space.namespace}
    await space.world.apply(
        *(
            {"apiVersion": gvk.api_version, "kind": gvk.kind, "metadata": metadata}
            for gvk in UNWRITTEN
        )
    )

    for gvk in UNWRITTEN:
        obj = await space.world.until(gvk, space.namespace, "app", stalled)
        found = condition(obj, "Ready")
        assert (found["status"], found["reason"]) == ("False", "ValidationFailed"), gvk.kind
        assert "spec is missing, so there is nothing to do: write one with" in found["message"]
        assert "finalizers" not in obj["metadata"]
    repository = space.repository()
    repository.commit({"a.yaml": config_map("a", v="1")})
    await space.world.apply(space.source(repository))
    await space.world.until(GIT_REPOSITORY, space.namespace, "app", ready)


async def test_patterns_of_a_generator_mean_what_they_mean_to_flux(space: Space) -> None:
    repository = space.repository()
    repository.commit({"web-eu/a.yaml": config_map("web", v="1"), "x/y/b.yaml": "not matched"})
    split = generator(
        space,
        artifact("{app}.{env}", ("@app/{app}-{env}/**", "@artifact/")),
        pathPattern="@app/{app}-{env}",
    )
    whole = generator(space, artifact("all.apps.v1", ("@app/", "@artifact/")))
    whole["metadata"]["name"] = "whole"
    none = generator(
        space, artifact("{dir}", ("@app/{dir}", "@artifact/")), pathPattern="@app/{dir}/**"
    )
    none["metadata"]["name"] = "none"

    await space.world.apply(space.source(repository), split, whole, none)

    assert list(await content(await made(space, "web.eu"))) == ["a.yaml"]
    assert digest_of(await made(space, "all.apps.v1"))
    obj = await space.world.until(GENERATOR, space.namespace, "none", ready)
    assert condition(obj, "Ready")["message"] == "reconciliation succeeded, generated 0 artifact(s)"


async def test_a_chart_in_git_may_name_keys_in_the_version_that_took_them(space: Space) -> None:
    repository = space.repository()
    repository.commit({"web/Chart.yaml": "apiVersion: v2\nname: web\nversion: 1.0.0\n"})
    chart = {
        "apiVersion": f"{SOURCES}/v1beta2",
        "kind": "HelmChart",
        "metadata": {"name": "web", "namespace": space.namespace},
        "spec": {
            "chart": "web",
            "interval": "1h",
            "sourceRef": {"kind": "GitRepository", "name": "app"},
            "verify": {"provider": "cosign", "secretRef": {"name": "keys"}},
        },
    }

    await space.world.apply(space.source(repository), chart)

    obj = await space.world.until(CHART, space.namespace, "web", ready)
    assert not condition(obj, "SourceVerified")
    assert VERIFIED not in obj["status"]["artifact"]["metadata"]
