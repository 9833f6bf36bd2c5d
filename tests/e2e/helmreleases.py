"""A chart of a shop, its HelmRelease, and what is read of them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from tests.e2e.conftest import CONFIG_MAP, SECRET, Space, is_ready
from tests.e2e.helmsources import repository
from tests.fakes.chartrepository import ChartRepository
from tests.fakes.charts import DEPLOYMENT, chart
from toolkit.objects import GroupVersionKind, Json, dig

HELM_RELEASE = GroupVersionKind("helm.toolkit.fluxcd.io", "v2", "HelmRelease")

SETTINGS = """\
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .Release.Name }}
data:
  colour: {{ required "values.colour is missing" .Values.colour | quote }}
  version: {{ .Chart.Version | quote }}
"""
BROKEN = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: broken}\ndata: {a: {b: c}}\n"
"""What the API server refuses."""


def shop(version: str, **files: str) -> dict[str, str]:
    """Return a chart of a Deployment and its settings."""
    return chart(
        "shop",
        version,
        extra=f"appVersion: '{version}'\n",
        **{
            "values.yaml": "colour: red\n",
            "templates__configmap.yaml": SETTINGS,
            "templates__deployment.yaml": DEPLOYMENT,
            **files,
        },
    )


@asynccontextmanager
async def served(space: Space, *versions: str) -> AsyncIterator[ChartRepository]:
    """Offer versions of the chart in a HelmRepository of the namespace."""
    async with ChartRepository() as server:
        for version in versions:
            server.add("shop", version, files=shop(version))
        await space.world.apply(repository(space, server.url))
        yield server


def release(space: Space, **spec: Any) -> Json:
    """Return the HelmRelease ``app`` of the chart."""
    source = {"kind": "HelmRepository", "name": "charts"}
    return {
        "apiVersion": HELM_RELEASE.api_version,
        "kind": "HelmRelease",
        "metadata": {"name": "app", "namespace": space.namespace},
        "spec": {
            "interval": "1h",
            "chart": {"spec": {"chart": "shop", "version": ">=1", "sourceRef": source}},
            **spec,
        },
    }


async def at(space: Space, version: str) -> Json:
    """Return the HelmRelease once it is Ready in a version of the chart."""

    def holds(obj: Json) -> bool:
        return is_ready(obj) and dig(obj, "status", "lastAppliedRevision") == version

    return await space.world.until(HELM_RELEASE, space.namespace, "app", holds)


async def settings(space: Space) -> Json:
    data: Json = (await space.get(CONFIG_MAP, "app"))["data"]
    return data


async def records(space: Space) -> list[str]:
    """Return the names of Helm's records, in the order of their versions."""
    found = await space.world.api.list(SECRET, space.namespace, label_selector="owner=helm")
    return sorted(each["metadata"]["name"] for each in found)
