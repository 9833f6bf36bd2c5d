"""Labels of namespaces, from the cache or as they are stored."""

import pytest

from tests.fakes import admission
from tests.fakes.apiserver import FakeApiServer
from webhooks.namespaces import Namespaces
from webhooks.plugin import DeniedError


async def test_namespace_that_does_not_exist_has_no_labels() -> None:
    server = FakeApiServer()
    server.kinds["", "v1", "namespaces"] = "Namespace"
    async with server.running() as client:
        namespaces = Namespaces(admission.services([], client=client))

        with pytest.raises(DeniedError, match="namespace 'absent' not found") as caught:
            await namespaces.labels("absent")

    assert (caught.value.code, caught.value.reason) == (404, "NotFound")
