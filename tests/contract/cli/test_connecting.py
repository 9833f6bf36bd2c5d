"""Flags that say how to connect, and as whom, against a real API server."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cli import connecting
from cli.connection import Connection
from controlplane.plane import ControlPlane
from tests.contract.cli.conftest import Result
from toolkit.kube import config
from toolkit.kube.client import Client

REVIEW = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


@pytest.fixture
def files(control_plane: ControlPlane, tmp_path: Path) -> dict[str, str]:
    """Write what the administrator's kubeconfig holds into files, as flags name them."""
    cluster = config.from_environment(str(control_plane.kubeconfig))
    flags = {"--server": control_plane.server}
    for name, content in (
        ("--certificate-authority", cluster.ca),
        ("--client-certificate", cluster.client_cert),
        ("--client-key", cluster.client_key),
    ):
        if content:
            (tmp_path / name).write_bytes(content)
            flags[name] = str(tmp_path / name)
    if cluster.token is not None:
        flags["--token"] = cluster.token()
    return flags


def test_flags_do_without_a_kubeconfig(
    cluster: Any,
    penstock: Callable[..., Result],
    files: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    cluster.kustomization("apps")
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    words = [word for pair in files.items() for word in pair]

    listed = penstock("-n", cluster.namespace, "get", "ks", *words)
    unknown = penstock("get", "ks", "--server", files["--server"], "--token=wrong")

    assert listed.code == 0, listed.err
    assert "apps" in listed.out
    assert unknown.code == 1
    assert "certificate" in unknown.err


@pytest.mark.parametrize("flag", ["--cluster", "--user"])
def test_rows_of_the_kubeconfig_that_do_not_exist_are_named(
    penstock: Callable[..., Result], flag: str
) -> None:
    ended = penstock("get", "ks", flag, "nothing")

    assert ended.code == 1
    assert f"kubeconfig has no {flag[2:]} 'nothing'" in ended.err


async def test_all_of_a_user_is_acted_as(control_plane: ControlPlane) -> None:
    flags = {"--as-uid": ["7"], "--as-user-extra": ["team=a", "team=b"]}
    wanted = Connection(
        kubeconfig=str(control_plane.kubeconfig),
        context="",
        namespace="",
        timeout=1,
        user="ada",
        groups=("crew",),
        flags=flags,
    )
    body: dict[str, Any] = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}

    async with Client.open(connecting.cluster(wanted)) as api:
        answer = await connecting.acting(api, wanted).request("POST", REVIEW, body=body)

    found = answer["status"]["userInfo"]
    assert (found["username"], found["uid"], found["extra"]) == ("ada", "7", {"team": ["a", "b"]})
    assert "crew" in found["groups"]
