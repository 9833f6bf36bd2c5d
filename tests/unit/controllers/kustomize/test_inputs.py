"""Where variables come from, and which of them wins."""

from typing import Any

import pytest

from controllers.kustomize import inputs
from controllers.kustomize.inputs import Inputs
from tests.fakes.apiserver import FakeApiServer
from tests.fakes.kustomizations import kustomization
from toolkit.errors import StalledError, TransientError
from toolkit.kube.secrets import Secrets


async def gathered(server: FakeApiServer, **post_build: Any) -> Inputs:
    async with server.running() as client:
        return await inputs.gather(kustomization(postBuild=post_build), Secrets(client))


async def test_later_objects_win_over_earlier_ones_and_the_spec_over_all() -> None:
    server = FakeApiServer()
    server.put("configmaps", "early", "prod", data={"a": "1", "b": "1"})
    # 2 with a line break, 2 and 2
    server.put("secrets", "late", "prod", data={"b": "Mgo=", "c": "Mg==", "d": "Mg=="})
    given = [
        {"kind": "ConfigMap", "name": "early"},
        {"kind": "Secret", "name": "late"},
        {"kind": "ConfigMap", "name": "absent", "optional": True},
    ]

    found = await gathered(server, substitute={"d": "3", "e": "3"}, substituteFrom=given)

    assert found.variables == {"a": "1", "b": "2", "c": "2", "d": "3", "e": "3"}
    assert found.secrets == {"2"}
    assert len(found.versions) == 2


async def test_missing_object_is_named_unless_it_is_optional() -> None:
    given = [{"kind": "ConfigMap", "name": "absent"}]

    with pytest.raises(TransientError) as caught:
        await gathered(FakeApiServer(), substituteFrom=given)

    assert str(caught.value) == (
        "ConfigMap 'prod/absent' not found: create it, or correct its name"
    )
    assert caught.value.reason == "BuildFailed"


async def test_variable_of_the_spec_alone_costs_no_request() -> None:
    server = FakeApiServer()

    found = await gathered(server, substitute={"a": "1"})

    assert found.variables == {"a": "1"}
    assert server.requests == []


async def test_too_many_objects_to_substitute_from_are_neither_read_nor_watched() -> None:
    server = FakeApiServer()
    given = [{"kind": "ConfigMap", "name": "vars", "optional": True}] * 20_000

    with pytest.raises(StalledError, match=r"substituteFrom has 20000 references, more than 256"):
        await gathered(server, substituteFrom=given)

    assert server.requests == []
    named = inputs.references(kustomization(postBuild={"substituteFrom": given}))
    assert len(list(named)) == 256
