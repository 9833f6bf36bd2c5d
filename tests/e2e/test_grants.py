"""References to other namespaces live and die with their grants."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
import yaml

from tests.e2e.conftest import (
    CONFIG_MAP,
    GIT_REPOSITORY,
    KUSTOMIZATION,
    NAMESPACE,
    Space,
    condition,
    config_map,
)
from toolkit.kube.errors import ForbiddenError
from toolkit.objects import GroupVersionKind, Json

pytestmark = pytest.mark.asyncio(loop_scope="session")

GRANT = GroupVersionKind("policy.penstock.dev", "v1alpha1", "ReferenceGrant")
GENERATOR = GroupVersionKind("source.extensions.fluxcd.io", "v1beta1", "ArtifactGenerator")
SOURCES = ("source.toolkit.fluxcd.io", "GitRepository")


@pytest_asyncio.fixture(loop_scope="session")
async def theirs(space: Space) -> AsyncIterator[str]:
    """Make another namespace."""
    name = f"{space.namespace}-theirs"
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    await space.world.api.create(namespace)
    yield name
    await space.world.api.delete(NAMESPACE, name)


def grant(space: Space, theirs: str, holder: GroupVersionKind, to: tuple[str, str]) -> Json:
    group, kind = to
    of = {"group": holder.group, "kind": holder.kind, "namespace": space.namespace}
    return {
        "apiVersion": GRANT.api_version,
        "kind": GRANT.kind,
        "metadata": {"name": "guests", "namespace": theirs},
        "spec": {"from": [of], "to": [{"group": group, "kind": kind}]},
    }


def in_namespace(obj: Json, namespace: str) -> Json:
    return obj | {"metadata": obj["metadata"] | {"namespace": namespace}}


async def denied(space: Space, gvk: GroupVersionKind = KUSTOMIZATION, name: str = "app") -> Json:
    obj = await space.refused(gvk, name, saying="no ReferenceGrant in namespace")
    assert condition(obj, "Ready")["reason"] == "AccessDenied"
    assert condition(obj, "Stalled")["status"] == "True"
    return obj


async def unwelcome(space: Space, obj: Json) -> None:
    """Expect admission to refuse the object, in words that need no target."""
    with pytest.raises(ForbiddenError, match="no ReferenceGrant in namespace"):
        await space.world.apply(obj)


async def test_use_stops_with_the_grant_and_goes_on_with_the_next(
    space: Space, theirs: str
) -> None:
    repository = space.repository()
    first = repository.commit({"a.yaml": config_map("a", v="1")})
    app = space.kustomization(sourceRef={"kind": "GitRepository", "name": "app"})
    app["spec"]["sourceRef"]["namespace"] = theirs
    given = grant(space, theirs, KUSTOMIZATION, SOURCES)

    await space.world.apply(in_namespace(space.source(repository), theirs))
    await unwelcome(space, app)
    await space.world.apply(given, app)
    await space.ready(revision=first)

    await space.world.api.delete(GRANT, "guests", theirs)
    await denied(space)
    second = repository.commit({"a.yaml": config_map("a", v="2")})
    stamp = {"metadata": {"annotations": {"reconcile.fluxcd.io/requestedAt": "now"}}}
    await space.world.api.patch(GIT_REPOSITORY, "app", theirs, stamp, strategy="merge")
    await space.world.until(
        *(GIT_REPOSITORY, theirs, "app"),
        lambda obj: second in obj["status"]["artifact"]["revision"],
    )
    await space.request()
    await denied(space)
    kept = await space.get(CONFIG_MAP, "a")

    await space.world.apply(given)
    await space.ready(revision=second)

    assert kept["data"] == {"v": "1"}
    assert (await space.get(CONFIG_MAP, "a"))["data"] == {"v": "2"}


async def test_a_grant_wakes_the_root_whose_children_were_refused(
    space: Space, theirs: str
) -> None:
    repository = space.repository()
    files, names = dict[str, str](), [f"child-{number}" for number in range(4)]
    for name in names:
        child = space.kustomization(name, interval="1h", retryInterval="1h", path=f"./{name}")
        child["spec"]["sourceRef"]["namespace"] = theirs
        files |= {f"root/{name}.yaml": yaml.safe_dump(child), f"{name}/a.yaml": config_map(name)}
    commit = repository.commit(files)
    root = space.kustomization("root", interval="1h", retryInterval="1h", path="./root")
    source = space.source(repository)

    await space.world.apply(source, in_namespace(source, theirs), root)
    refused = await space.refused(name="root", saying="to allow it, apply: ")
    message = condition(refused, "Ready")["message"]
    assert message.startswith("4 objects failed for the same reason (Kustomization/")
    assert message.count("no ReferenceGrant") == 1
    given = message.partition("to allow it, apply: ")[2].rpartition(" (see docs/tenancy.md")[0]
    await space.world.apply(yaml.safe_load(given))

    await space.ready(name="root", revision=commit)
    for name in names:
        await space.ready(name=name, revision=commit)


async def test_generator_takes_from_another_namespace_what_is_granted(
    space: Space, theirs: str
) -> None:
    repository = space.repository()
    repository.commit({"a.yaml": config_map("a")})
    copy = [{"from": "@app/**", "to": "@artifact/"}]
    app = {"alias": "app", "kind": "GitRepository", "name": "app", "namespace": theirs}
    generator = {
        "apiVersion": GENERATOR.api_version,
        "kind": GENERATOR.kind,
        "metadata": {"name": "gen", "namespace": space.namespace},
        "spec": {"sources": [app], "artifacts": [{"name": "out", "copy": copy}]},
    }
    await space.world.apply(in_namespace(space.source(repository), theirs))

    await unwelcome(space, generator)
    await space.world.apply(grant(space, theirs, GENERATOR, SOURCES), generator)
    await space.ready(GENERATOR, "gen")
    await space.world.api.delete(GRANT, "guests", theirs)

    await denied(space, GENERATOR, "gen")


ALERT = GroupVersionKind("notification.toolkit.fluxcd.io", "v1beta3", "Alert")
RECEIVER = GroupVersionKind("notification.toolkit.fluxcd.io", "v1", "Receiver")


@pytest.mark.parametrize("name", ["*", "app"])
@pytest.mark.parametrize(
    ("kind", "field", "spec"),
    [
        (ALERT, "eventSources", {"providerRef": {"name": "sink"}}),
        (RECEIVER, "resources", {"type": "generic", "secretRef": {"name": "token"}}),
    ],
)
async def test_a_tenant_hears_and_wakes_what_others_grant(  # noqa: PLR0917 - the world
    space: Space, theirs: str, kind: GroupVersionKind, field: str, spec: Json, name: str
) -> None:
    wanted = {"kind": "GitRepository", "name": name, "namespace": theirs}
    obj = {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {"name": "app", "namespace": space.namespace},
        "spec": {**spec, field: [wanted]},
    }

    await unwelcome(space, obj)
    await space.world.apply(grant(space, theirs, kind, SOURCES), obj)
