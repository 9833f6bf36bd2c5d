"""Rows of tables: what one object cannot show costs a cell."""

from typing import Literal

import msgspec
import pytest

from apiserver.item import Item
from apiserver.resource import Column
from apiserver.shapes import Metadata
from apiserver.table import Rows
from toolkit.objects import Json, ObjectKey


def cells(column: Column) -> list[object]:
    name = Column(name="Name", cell=lambda obj: str(obj["metadata"]["name"]), description="Name.")
    rows = Rows((name, column, name), "None", Metadata("meta.k8s.io/v1"))
    obj: Json = {"metadata": {"name": "x", "namespace": "apps"}}
    row = msgspec.json.decode(rows.row(Item(ObjectKey("apps", "x"), obj, 1)))
    found: list[object] = row["cells"]
    return found


@pytest.mark.parametrize(
    ("kind", "shown"), [("string", "<invalid>"), ("integer", None), ("date", "<unknown>")]
)
@pytest.mark.parametrize("fault", [ValueError, KeyError, OverflowError])
def test_a_cell_that_cannot_be_made_costs_itself_only(
    kind: Literal["string", "integer", "date"], shown: object, fault: type[Exception]
) -> None:
    def fail(obj: Json) -> str:
        raise fault(str(obj))

    column = Column(name="Stored", type=kind, cell=fail, description="Fails.")

    assert cells(column) == ["x", shown, "x"]
