"""What reconcilers say of objects that the gate would refuse: they may be older, the gate away.

They share a file, since a worker of the test run that has one of them starts a control plane.
"""

import pytest
import yaml

from tests.e2e.conftest import CONFIG_MAP, NAMESPACE, Space, condition, config_map
from tests.e2e.sources import edit, ready, refused

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.ungated]

_VALUE = "the other tenant's"


async def test_a_path_for_a_name_reads_no_other_namespace(space: Space) -> None:
    namespace = f"{space.namespace}-victim"
    metadata = {"name": "key", "namespace": namespace}
    await space.world.apply(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}},
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": metadata,
            "stringData": {"value": _VALUE},
        },
    )
    name = f"../../{namespace}/secrets/key"
    files = {"loot.yaml": config_map("loot", stolen="${value}")}

    repository = space.repository()
    repository.commit(files)
    given = {"substituteFrom": [{"kind": "Secret", "name": name}]}
    await space.world.apply(space.source(repository), space.kustomization(postBuild=given))

    told = await space.refused(saying="invalid name")
    assert _VALUE not in yaml.safe_dump(told)
    assert not await space.world.exists(CONFIG_MAP, space.namespace, "loot")
    await space.world.api.delete(NAMESPACE, namespace, "")


async def test_includes_in_a_circle_are_refused(space: Space) -> None:
    repository = space.repository()
    repository.commit({"a": "1"})
    names = ["one", "two", "three"]
    await space.world.apply(*(space.source(repository, name) for name in names))
    await ready(space, *names)

    for name, other in zip(names, names[1:] + names[:1], strict=True):
        await edit(space, {"include": [{"repository": {"name": other}}]}, name)
    source = (await refused(space, "three"))["three"]

    assert (
        "'three' includes itself: three, one, two, three" in condition(source, "Ready")["message"]
    )
    await edit(space, {"include": None}, "one")
    await ready(space, *names)
