"""Inventories of other clusters, completed with what the user may read there.

The other cluster is the shared control plane, entered with a kubeconfig in a Secret.
"""

import base64
from typing import Any

import pytest

from cli.trees import observing
from controlplane.plane import ControlPlane
from tests.contract.cli.conftest import KUSTOMIZE_GROUP, REVISION, Cluster
from tests.tools.administrator import Administrator
from toolkit.kube import config
from toolkit.kube.client import Client
from toolkit.objects import Json

MANAGER = "kustomize-controller"
APPLY = "application/apply-patch+yaml"


class Far:
    """Objects of a Kustomization that applies with ``spec.kubeConfig``."""

    def __init__(self, cluster: Cluster, administrator: Administrator) -> None:
        self._cluster = cluster
        self._administrator = administrator
        self.namespace = cluster.namespace

    def connect(self, kubeconfig: str) -> None:
        data = {"value": base64.b64encode(kubeconfig.encode()).decode()}
        self._cluster.write(
            {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "far"}, "data": data}
        )

    def lists(self, *ids: str) -> None:
        entries = [{"id": each, "v": "v1"} for each in ids]
        self._cluster.kustomization(
            "app",
            spec={"kubeConfig": {"secretRef": {"name": "far"}}},
            conditions=self._cluster.ready("True", "Applied revision"),
            observedGeneration=1,
            lastAppliedRevision=REVISION,
            inventory={"entries": entries},
        )

    def apply(self, name: str, *, manager: str = MANAGER, owner: str = "app", **body: Any) -> None:
        labels = {
            f"{KUSTOMIZE_GROUP}/name": owner,
            f"{KUSTOMIZE_GROUP}/namespace": self.namespace,
        }
        metadata = {"name": name, "labels": labels} if owner else {"name": name}
        obj = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, **body}
        path = f"/api/v1/namespaces/{self.namespace}/configmaps/{name}"
        query = {"fieldManager": manager, "force": "true"}
        self._administrator.send("PATCH", path, obj, content=APPLY, query=query)

    def take_over(self, name: str) -> None:
        """Change an object, and forget who applied it."""
        path = f"/api/v1/namespaces/{self.namespace}/configmaps/{name}"
        body = {"metadata": {"managedFields": [{}]}, "data": {"v": "2"}}
        content = "application/merge-patch+json"
        self._administrator.send("PATCH", path, body, content=content)

    def served(self) -> Json:
        """Return the inventory as the aggregated API serves it."""
        return {
            "metadata": {"name": "app", "namespace": self.namespace},
            "spec": {"remote": True, "applierRef": {"kind": "Kustomization", "name": "app"}},
            "status": {"objects": 1, "observed": 0, "current": 0, "message": ""},
        }


@pytest.fixture
def far(cluster: Cluster, administrator: Administrator, control_plane: ControlPlane) -> Far:
    found = Far(cluster, administrator)
    found.connect(control_plane.kubeconfig.read_text())
    return found


async def observed(plane: ControlPlane, inventory: Json, *, user: str = "") -> Json:
    async with Client.open(config.from_environment(str(plane.kubeconfig))) as api:
        acting = api.impersonating(user) if user else api
        (found,) = await observing.completed(acting, [inventory])
    return found


async def test_objects_are_judged_as_on_this_cluster(far: Far, control_plane: ControlPlane) -> None:
    far.apply("well", data={"v": "1"})
    far.apply("taken", data={"v": "1"})
    far.take_over("taken")
    far.apply("neighbours", owner="other")
    far.apply("stray", owner="")
    names = ("well", "taken", "neighbours", "stray", "gone")
    far.lists(*(f"{far.namespace}_{name}__ConfigMap" for name in names))

    found = (await observed(control_plane, far.served()))["status"]

    problems = {row["name"]: row for row in found["problems"]}
    assert (found["objects"], found["observed"], found["current"]) == (5, 4, 2)
    assert (found["drifted"], found["missing"], found["foreign"]) == (2, 1, 1)
    assert set(problems) == set(names) - {"well"} | {"taken"}
    assert problems["taken"]["drift"] == "Changed"
    assert problems["gone"]["drift"] == "Missing"
    assert problems["neighbours"]["owner"] == f"{far.namespace}/other"
    assert "lacks the labels" in problems["stray"]["message"]
    assert found["ready"] == "False"


async def test_what_cannot_be_observed_says_why(far: Far, control_plane: ControlPlane) -> None:
    far.apply("well", data={"v": "1"})
    ns = far.namespace
    far.lists(f"{ns}_far__Secret", f"{ns}_x_example.com_Gizmo", f"{ns}_well__ConfigMap")

    found = (await observed(control_plane, far.served()))["status"]

    told = {row["kind"]: row["message"] for row in found["problems"]}
    assert (found["observed"], found["current"]) == (1, 1)
    assert "lacks the labels" in told["Secret"]
    assert "Gizmo cannot be read there: " in told["Gizmo"]


@pytest.mark.parametrize(
    ("kubeconfig", "said"),
    [("{", "not YAML"), ("apiVersion: v1\nkind: Config\n", "current-context")],
)
async def test_a_kubeconfig_that_opens_nothing_is_named_and_the_rest_stays(
    far: Far, control_plane: ControlPlane, kubeconfig: str, said: str
) -> None:
    far.lists(f"{far.namespace}_a__ConfigMap")
    far.connect(kubeconfig)

    found = await observed(control_plane, far.served())

    message = found["status"].pop("message")
    assert found["status"] == {"objects": 1, "observed": 0, "current": 0}
    assert message.startswith("on another cluster (spec.kubeConfig): ")
    assert said in message


async def test_the_rights_of_the_user_are_enough_or_nothing_is_shown(
    far: Far, control_plane: ControlPlane
) -> None:
    far.apply("well", data={"v": "1"})
    far.lists(f"{far.namespace}_well__ConfigMap")

    found = await observed(control_plane, far.served(), user="nobody")

    assert found["status"]["observed"] == 0
    assert 'User "nobody" cannot get resource "kustomizations"' in found["status"]["message"]


async def test_inventories_of_this_cluster_are_left_alone(control_plane: ControlPlane) -> None:
    inventory = {"spec": {"remote": False}, "status": {}}

    assert await observed(control_plane, inventory) is inventory
