"""HelmReleases in protected namespaces: their charts are followed, and nobody else chooses them."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.e2e.conftest import CONFIG_MAP, GIT_REPOSITORY, NAMESPACE, Space, condition
from tests.e2e.helmreleases import HELM_RELEASE, at, release, settings, shop
from tests.e2e.provenance import POLICY, change, refuses
from tests.fakes.charts import chart
from tests.tools.waiting import until
from toolkit.kube.errors import ForbiddenError
from toolkit.objects import GroupVersionKind, Json, dig
from toolkit.policy.provenance import LABEL

pytestmark = pytest.mark.asyncio(loop_scope="session")

HELM_CHART = GroupVersionKind("source.toolkit.fluxcd.io", "v1", "HelmChart")
CONTROLLER = "system:serviceaccount:penstock-system:helm-controller"
OTHER = """\
apiVersion: v1
kind: ConfigMap
metadata:
  name: other
"""


@pytest_asyncio.fixture(loop_scope="session")
async def protected(space: Space) -> AsyncIterator[Space]:
    """Remove the policy in the end, which holds for the namespace of the test."""
    yield space
    if await space.world.exists(POLICY, "", space.namespace):
        await space.world.api.delete(POLICY, space.namespace)


async def protect(space: Space, url: str) -> None:
    """Admit only charts of this repository, which HelmReleases install."""
    policy: Json = {
        "apiVersion": POLICY.api_version,
        "kind": POLICY.kind,
        "metadata": {"name": space.namespace},
        "spec": {
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": space.namespace}},
            "origins": [
                {
                    "applier": {"kind": "HelmRelease"},
                    "source": {"kind": "HelmChart", "urls": [url]},
                }
            ],
        },
    }
    await space.world.apply(policy)
    await change(space, NAMESPACE, "", space.namespace, {"metadata": {"labels": {LABEL: "yes"}}})

    async def refused() -> bool:
        return await refuses(space, space.namespace)

    await until(refused)


def files(version: str) -> dict[str, str]:
    return {f"charts/shop/{path}": text for path, text in shop(version).items()}


def template(space: Space) -> Json:
    source: dict[str, Any] = {"kind": "GitRepository", "name": "app"}
    return release(space, chart={"spec": {"chart": "charts/shop", "sourceRef": source}})


async def test_chart_of_an_allowed_repository_is_released_and_followed(protected: Space) -> None:
    space, name = protected, f"{protected.namespace}-app"
    repository = space.repository()
    repository.commit(files("1.0.0"))
    await space.world.apply(space.source(repository), template(space))
    await at(space, "1.0.0")
    await protect(space, repository.url)
    before = await space.get(HELM_CHART, name)

    with pytest.raises(ForbiddenError, match="only objects from a repository"):
        await change(space, HELM_CHART, space.namespace, name, {"spec": {"chart": "charts/evil"}})
    with pytest.raises(ForbiddenError, match="only objects from a repository"):
        await space.world.api.delete(HELM_CHART, name, space.namespace)
    controller = space.world.api.impersonating(CONTROLLER)
    await controller.delete(HELM_CHART, name, space.namespace)

    def anew(obj: Json) -> bool:
        return bool(obj["metadata"]["uid"] != before["metadata"]["uid"])

    await space.world.until(HELM_CHART, space.namespace, name, anew)
    repository.commit(files("1.1.0"))
    await space.request(GIT_REPOSITORY)
    await at(space, "1.1.0")
    assert (await settings(space))["version"] == "1.1.0"


async def test_chart_that_is_not_admitted_does_not_uninstall_the_release(protected: Space) -> None:
    """A HelmChart in a namespace that is not protected is changed to one with another name."""
    space = protected
    repository, evil = space.repository(), space.repository("evil")
    repository.commit(files("1.0.0"))
    other = chart("other", "1.0.0", **{"templates__other.yaml": OTHER})
    evil.commit({f"charts/other/{path}": text for path, text in other.items()})
    await space.world.apply(space.source(repository), space.source(evil, "evil"), template(space))
    await at(space, "1.0.0")
    # as if the HelmChart were elsewhere, where the policy holds for no HelmChart
    await protect(space, repository.url)
    elsewhere = {"resources": [{"apiGroups": [""], "resources": ["*"]}, *APPS]}
    await change(space, POLICY, "", space.namespace, {"spec": elsewhere})
    source = {"kind": "GitRepository", "name": "evil"}
    spec = {"chart": {"spec": {"chart": "charts/other", "sourceRef": source}}}

    async def changed() -> bool:
        try:
            await change(space, HELM_RELEASE, space.namespace, "app", {"spec": spec})
        except ForbiddenError:
            return False
        return True

    await until(changed)

    def stays(obj: Json) -> bool:
        ready = condition(obj, "Ready")
        return bool(
            ready["reason"] == "UninstallFailed" and "the release stays" in ready["message"]
        )

    await space.world.until(HELM_RELEASE, space.namespace, "app", stays)
    live = await space.get(CONFIG_MAP, "app")
    assert "deletionTimestamp" not in live["metadata"]
    assert dig(live, "data", "version") == "1.0.0"


APPS = [{"apiGroups": ["apps"], "resources": ["*"]}]
