"""Objects in the forms of the API: what many readers are sent is one text in memory."""

import pytest

from apiserver import shapes
from apiserver.item import Item
from apiserver.negotiation import Accepted, Form
from tests.fakes.readserver import gauge, new_view, resource
from toolkit.objects import ObjectKey


@pytest.mark.parametrize("form", ["", "Table"])
@pytest.mark.parametrize("first", [True, False])
def test_readers_of_a_large_object_share_its_text(form: Form, *, first: bool) -> None:
    item = Item(ObjectKey("apps", "n"), gauge("n", text="x" * 100_000), 1)
    served = resource(new_view())

    one, other = (
        shapes.single(served, Accepted(form=form), "Object").parts(item, first=first)
        for _ in range(2)
    )

    assert b"".join(one) == b"".join(other)
    assert max(one, key=len) is max(other, key=len)
    assert sum(map(len, one)) - max(map(len, one)) < 2_000, "nothing else is large"
