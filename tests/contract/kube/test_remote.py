"""Remote clusters: a second control plane behind a kubeconfig, and a trusted service account."""

import base64
import json

import pytest

from controlplane.plane import ControlPlane
from crds.meta import KubeConfigReference, LocalObjectReference, SecretKeyReference
from toolkit.kube import errors
from toolkit.kube.client import Client
from toolkit.kube.remote import RemoteClients
from toolkit.objects import GroupVersionKind, Json

NAMESPACE = GroupVersionKind("", "v1", "Namespace")
REVIEW = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
SECRET = KubeConfigReference(secret_ref=SecretKeyReference(name="remote"))
CONFIG_MAP = KubeConfigReference(config_map_ref=LocalObjectReference(name="remote"))


async def put(client: Client, kind: str, namespace: str, **data: str) -> None:
    body: Json = {"apiVersion": "v1", "kind": kind, "metadata": {"name": "remote"}}
    body["metadata"]["namespace"] = namespace
    body["stringData" if kind == "Secret" else "data"] = data
    await client.create(body)


async def test_a_kubeconfig_secret_leads_to_the_other_cluster(
    client: Client,
    control_plane: ControlPlane,
    second_control_plane: ControlPlane,
    namespace: str,
) -> None:
    second_control_plane.kubectl("create", "namespace", f"only-{namespace}")
    await put(client, "Secret", namespace, value=second_control_plane.kubeconfig.read_text())

    async with (
        RemoteClients(client) as remotes,
        remotes.client(namespace, SECRET) as remote,
    ):
        found = await remote.get(NAMESPACE, f"only-{namespace}")

    assert remote.server == second_control_plane.server != control_plane.server
    assert found["kind"] == "Namespace"
    with pytest.raises(errors.NotFoundError):
        await client.get(NAMESPACE, f"only-{namespace}")


async def test_a_config_map_enters_as_a_service_account(
    client: Client, control_plane: ControlPlane, namespace: str
) -> None:
    control_plane.kubectl("create", "serviceaccount", "tenant", f"--namespace={namespace}")
    claims = control_plane.token(namespace, "tenant").split(".")[1]
    audiences = json.loads(base64.urlsafe_b64decode(claims + "=="))["aud"]
    await put(
        client,
        "ConfigMap",
        namespace,
        provider="generic",
        address=control_plane.server,
        audiences="\n".join(audiences),
        serviceAccountName="tenant",
        **{"ca.crt": control_plane.ca.decode()},
    )
    kind = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}

    async with (
        RemoteClients(client) as remotes,
        remotes.client(namespace, CONFIG_MAP) as remote,
    ):
        review = await remote.request("POST", REVIEW, body=kind)

    user = review["status"]["userInfo"]["username"]
    assert user == f"system:serviceaccount:{namespace}:tenant"


async def test_a_certificate_that_is_not_trusted_is_refused(
    client: Client, control_plane: ControlPlane, namespace: str
) -> None:
    text = control_plane.kubeconfig.read_text()
    lines = [line for line in text.splitlines() if "certificate-authority-data" not in line]
    await put(client, "Secret", namespace, value="\n".join(lines))

    async with (
        RemoteClients(client) as remotes,
        remotes.client(namespace, SECRET) as remote,
    ):
        with pytest.raises(errors.UnreachableError, match="certificate verify failed"):
            await remote.get(NAMESPACE, "default")
