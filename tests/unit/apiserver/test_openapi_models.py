"""The schemas of what is really served."""

import json

from apiserver import schemas
from apiserver.artifacts import model as artifacts
from apiserver.inventories import model as inventories
from apiserver.schemas import Schemas
from crds import schema


def test_every_model_has_a_schema_whose_references_are_closed() -> None:
    found = Schemas((), schemas.V3)
    for model in (
        *(artifacts.Artifact, artifacts.ArtifactFiles, artifacts.ArtifactDiff),
        *(inventories.Inventory, inventories.InventoryTree, inventories.InventoryPlan),
        *(inventories.InventoryObjects, inventories.InventoryReconcile),
    ):
        found._object(model.__name__, model)

    text = json.dumps(found.found)
    references = {part.partition('"')[0] for part in text.split(schemas.V3)[1:]}
    assert references <= set(found.found)
    assert all(each.get("description") for each in found.found.values())


def test_a_struct_inside_another_may_be_referred_to() -> None:
    made = schema.shallow(artifacts.Artifact, lambda model: {"$ref": model.__name__})

    assert made["properties"]["spec"]["$ref"] == "ArtifactSpec"
