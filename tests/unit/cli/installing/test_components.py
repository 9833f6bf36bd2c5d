"""The kinds of operators that components have objects of."""

from cli.installing import components, manifests
from crds import KINDS
from toolkit.objects import gvk_of


async def test_every_group_of_an_operator_names_its_component() -> None:
    built = await manifests.build(manifests.Choice(components=components.NAMES))

    groups = {gvk_of(obj).group for obj in built}
    of_operators = {
        group
        for group in groups - {kind.group for kind in KINDS}
        if "." in group and not group.endswith(".k8s.io")
    }
    assert of_operators == set(components.NEEDS)
