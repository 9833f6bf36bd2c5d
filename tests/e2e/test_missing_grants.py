"""Where missing grants are only warned of, a fleet is moved first and closed afterwards."""

import pytest
import yaml

from controlplane.errors import ControlPlaneError
from tests.e2e.conftest import (
    CONFIG_MAP,
    KUSTOMIZATION,
    NAMESPACE,
    Space,
    condition,
    config_map,
    is_ready,
)
from toolkit.objects import Json

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.rough]


def lacking(obj: Json) -> Json:
    return condition(obj, "ReferencesGranted")


async def test_a_reference_without_a_grant_is_warned_of_and_works(space: Space) -> None:
    theirs = f"{space.namespace}-theirs"
    metadata = {"name": theirs}
    await space.world.api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
    repository = space.repository()
    commit = repository.commit({"a.yaml": config_map("a", v="1")})
    source = space.source(repository)
    app = space.kustomization()
    app["spec"]["sourceRef"]["namespace"] = theirs

    await space.world.apply(source | {"metadata": source["metadata"] | {"namespace": theirs}})
    with pytest.raises(ControlPlaneError, match="admitted because of --cross-namespace-refs=warn"):
        space.world.plane.kubectl(
            *("apply", "--dry-run=server", "--warnings-as-errors", "-f", "-"),
            stdin=yaml.safe_dump(app),
        )
    await space.world.apply(app)
    obj = await space.ready(revision=commit)

    message = lacking(obj)["message"]
    assert lacking(obj)["reason"] == "GrantMissing"
    await space.told(message)
    assert (await space.get(CONFIG_MAP, "a"))["data"] == {"v": "1"}

    given = message.partition("to allow it, apply: ")[2].rpartition(" (see docs/tenancy.md")[0]
    await space.world.apply(yaml.safe_load(given))
    await space.world.until(
        *(KUSTOMIZATION, space.namespace, "app"),
        lambda obj: is_ready(obj) and not lacking(obj),
    )
    await space.world.api.delete(NAMESPACE, theirs)
