"""What the tests of protected namespaces share."""

import yaml

from tests.e2e.conftest import Space, config_map
from toolkit.kube.errors import ForbiddenError
from toolkit.objects import GroupVersionKind, Json

POLICY = GroupVersionKind("policy.penstock.dev", "v1alpha1", "ProvenancePolicy")


async def refuses(space: Space, namespace: str) -> bool:
    """Tell whether people may create nothing."""
    try:
        await space.world.api.apply(made("probe", namespace), manager="kubectl", dry_run=True)
    except ForbiddenError:
        return True
    return False


async def change(
    space: Space, gvk: GroupVersionKind, namespace: str, name: str, body: Json
) -> None:
    await space.world.api.patch(gvk, name, namespace, body, strategy="merge")


def made(name: str, namespace: str, **data: str) -> Json:
    found: Json = yaml.safe_load(config_map(name, **data))
    found["metadata"]["namespace"] = namespace
    return found
