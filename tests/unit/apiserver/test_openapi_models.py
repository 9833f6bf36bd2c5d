"""The schemas of what is really served."""

import json

from apiserver import schemas
from apiserver.artifacts import model as artifacts
from apiserver.inventories import model as inventories
from apiserver.schemas import Schemas
from crds import schema
from toolkit.objects import Json


def every() -> dict[str, Json]:
    found = Schemas((), schemas.V3)
    for model in (
        *(artifacts.Artifact, artifacts.ArtifactFiles, artifacts.ArtifactDiff),
        *(inventories.Inventory, inventories.InventoryTree, inventories.InventoryPlan),
        *(inventories.InventoryObjects, inventories.InventoryReconcile),
    ):
        found._object(model.__name__, model)
    return found.found


def test_every_model_has_a_schema_whose_references_are_closed() -> None:
    found = every()

    text = json.dumps(found)
    references = {part.partition('"')[0] for part in text.split(schemas.V3)[1:]}
    assert references <= set(found)
    assert all(each.get("description") for each in found.values())


def test_explain_says_nothing_twice() -> None:
    found = every()

    # kubectl tells what a field is for, and after that what its type is.
    fields = [field for each in found.values() for field in each["properties"].values()]
    told = [
        (field.get("description"), found[reference["$ref"].removeprefix(schemas.V3)]["description"])
        for field in fields
        for reference in field.get("allOf", ())
    ]
    assert told
    assert [field for field, of_type in told if field == of_type] == []


def test_a_struct_inside_another_may_be_referred_to() -> None:
    made = schema.shallow(artifacts.Artifact, lambda model: {"$ref": model.__name__})

    assert made["properties"]["spec"]["$ref"] == "ArtifactSpec"
