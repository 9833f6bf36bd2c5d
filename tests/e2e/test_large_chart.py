"""A chart of 300 objects and 5 MB comes and goes within the bounds of the processes."""

from contextlib import suppress

import pytest

from tests.e2e.conftest import CONFIG_MAP, SECRET, Space
from tests.e2e.helmreleases import HELM_RELEASE, at, release
from tests.e2e.helmsources import HELM_REPOSITORY, repository
from tests.fakes import largechart
from tests.fakes.chartrepository import ChartRepository
from tests.tools import peaks
from toolkit.helm.actions import MEMORY_LIMIT
from toolkit.kube.errors import NotFoundError
from toolkit.objects import GroupVersionKind

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.rough, pytest.mark.slow]

DEFINITION = GroupVersionKind("apiextensions.k8s.io", "v1", "CustomResourceDefinition")


async def test_large_chart_is_installed_upgraded_and_uninstalled(space: Space) -> None:
    api, group = space.world.api, f"{space.namespace}.example.org"
    source = {"kind": "HelmRepository", "name": "charts"}
    chart = {"spec": {"chart": largechart.NAME, "sourceRef": source}}
    pids = space.world.stack.pids()
    try:
        async with ChartRepository() as server:
            server.add(largechart.NAME, "1.0.0", files=largechart.files(group, "1.0.0"))
            with peaks.watching([pids["helm-0"]]) as held:
                await space.world.apply(
                    repository(space, server.url),
                    release(space, chart=chart, install={"crds": "Create"}),
                )
                first = await at(space, "1.0.0")
                server.add(largechart.NAME, "1.0.1", files=largechart.files(group, "1.0.1"))
                await space.request(HELM_REPOSITORY, "charts")
                second = await at(space, "1.0.1")
        versions = [
            each["data"]["version"]
            for each in await api.list(CONFIG_MAP, space.namespace)
            if "version" in each["data"]
        ]
        records = await api.list(SECRET, space.namespace, label_selector="owner=helm")
        await api.delete(HELM_RELEASE, "app", space.namespace)
        await space.world.gone(HELM_RELEASE, space.namespace, "app")
        left = await api.list(CONFIG_MAP, space.namespace)
    finally:
        for name in largechart.names(group):
            with suppress(NotFoundError):  # it has failed before
                await api.delete(DEFINITION, name)

    assert first["status"]["history"][0]["action"] == "install"
    # An upgrade leaves definitions alone, unless it is told otherwise.
    listed = [len(each["status"]["inventory"]["entries"]) for each in (first, second)]
    assert listed == [largechart.OBJECTS + largechart.DEFINITIONS, largechart.OBJECTS]
    assert set(versions) == {"1.0.1"}
    assert len(records) == 2
    assert [each["metadata"]["name"] for each in left] == ["kube-root-ca.crt"]
    assert 0 < held.largest < MEMORY_LIMIT
