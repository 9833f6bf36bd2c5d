"""All of Penstock as processes: who they are, that they come back, and that they go.

On a control plane apart: the cluster roles of an installation are bound to one namespace.
"""

import asyncio
import json
import os
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from cli import errors
from cli.stack import COMPONENTS, install, stack, state
from cli.stack.components import Component
from controlplane.plane import ControlPlane
from tests.tools.waiting import until


@pytest.fixture
def plane(second_control_plane: ControlPlane) -> ControlPlane:
    return second_control_plane


def alive(pid: int) -> bool:
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):  # before, or while it was read
        return False
    return text.rpartition(")")[2].split()[0] != "Z"


def taken(url: str) -> bool:
    """Tell whether nobody else can listen where a process of the stack does."""
    with socket.socket() as other:
        try:
            other.bind(("127.0.0.1", urlsplit(url).port))
        except OSError:
            return True
    return False


def arguments(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/cmdline").read_text().split("\0")


def kubectl(plane: ControlPlane, kubeconfig: Path, *arguments: str) -> "tuple[int, str]":
    command = [str(plane.kubectl_program), f"--kubeconfig={kubeconfig}", *arguments]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return answer.returncode, answer.stdout


def penstock(home: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return command(*arguments, f"--state={home}")


def command(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "cli", *arguments],
        env={**os.environ, "PYTHONPATH": str(install.ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def registered(plane: ControlPlane) -> list[str]:
    """Return the kinds of objects by which the API server asks a process of ours."""
    hooks = ("get", "validatingwebhookconfigurations,mutatingwebhookconfigurations", "-o", "json")
    found = [obj["kind"] for obj in json.loads(plane.kubectl(*hooks))["items"]]
    apis = json.loads(plane.kubectl("get", "apiservices", "-o", "json"))["items"]
    found += [api["kind"] for api in apis if api["spec"].get("service")]
    definitions = json.loads(plane.kubectl("get", "crds", "-o", "json"))["items"]
    converted = [d["spec"].get("conversion", {}).get("strategy") for d in definitions]
    return [
        *found,
        *("CustomResourceDefinition" for strategy in converted if strategy == "Webhook"),
    ]


@pytest.fixture(scope="module")
def home(
    second_control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Path]:
    """Run ``penstock up --detach`` for the tests that only look."""
    state = tmp_path_factory.mktemp("up")
    plane = f"--kubeconfig={second_control_plane.kubeconfig}"
    up = penstock(state, "up", "--detach", "--gate", "--name=looked-at", plane)
    assert up.returncode == 0, up.stderr
    assert f"export KUBECONFIG={second_control_plane.kubeconfig}" in up.stdout
    assert "Receivers are at http://127.0.0.1:" in up.stderr
    yield state
    penstock(state, "down")  # unless the last test has


@pytest.mark.parametrize("component", COMPONENTS, ids=lambda c: c.name)
def test_every_component_is_a_service_account_and_no_administrator(
    plane: ControlPlane, home: Path, component: Component
) -> None:
    mine = home / "kubeconfigs" / f"{component.service_account}.yaml"

    _, who = kubectl(plane, mine, "auth", "whoami", "-o", "json")
    denied, _ = kubectl(plane, mine, "auth", "can-i", "*", "*")

    name = f"system:serviceaccount:{stack.NAMESPACE}:{component.service_account}"
    assert json.loads(who)["status"]["userInfo"]["username"] == name
    assert denied == 1


def test_no_process_is_told_of_the_administrator(plane: ControlPlane, home: Path) -> None:
    record = state.running(home)
    assert record is not None
    accounts = {component.name: component.service_account for component in COMPONENTS}

    for name, pid in record.processes.items():
        told = (Path(f"/proc/{pid}/{file}").read_text() for file in ("environ", "cmdline"))
        words = [word for text in told for word in text.split("\0")]
        account = accounts[name.rpartition("-")[0]]
        assert f"KUBECONFIG={home}/kubeconfigs/{account}.yaml" in words
        assert not [word for word in words if str(plane.kubeconfig) in word], name
    assert len(record.processes) == len(COMPONENTS)


def test_nobody_else_can_read_the_tokens(home: Path) -> None:
    tokens = list((home / "tokens").iterdir())

    assert {t.name for t in tokens} == {install.KEEPER, *(c.service_account for c in COMPONENTS)}
    assert {stat.S_IMODE(token.stat().st_mode) for token in tokens} == {0o600}
    assert stat.S_IMODE((home / "tokens").stat().st_mode) == 0o700


def test_keeper_of_the_tokens_may_do_nothing_else(plane: ControlPlane, home: Path) -> None:
    mine = home / "kubeconfigs" / f"{install.KEEPER}.yaml"
    create = ("auth", "can-i", "create", "--subresource=token", "-n", stack.NAMESPACE)

    granted, _ = kubectl(plane, mine, *create, "serviceaccounts/source-controller")
    foreign, _ = kubectl(plane, mine, *create, "serviceaccounts/default")
    secrets, _ = kubectl(plane, mine, "auth", "can-i", "get", "secrets", "-n", stack.NAMESPACE)

    assert (granted, foreign, secrets) == (0, 1, 1)


def test_running_stack_answers_status_and_logs(home: Path) -> None:
    shown, logs = penstock(home, "status"), penstock(home, "logs")

    assert (shown.returncode, logs.returncode) == (0, 0)
    assert "kustomize-0" in shown.stdout
    record = state.running(home)
    assert record is not None
    assert record.addresses["receivers"] in shown.stdout
    assert record.addresses["metrics of source-0"] in shown.stdout
    assert "listening" in logs.stdout


def test_check_status_and_flux_know_an_up(
    plane: ControlPlane, home: Path, flux_program: Path
) -> None:
    by_name = command("check", "--name=looked-at")
    shown = command("status", "--name=looked-at")
    flux = subprocess.run(
        [flux_program, "migrate", "--dry-run"],
        env={"PATH": os.defpath, "HOME": "/nonexistent", "KUBECONFIG": str(plane.kubeconfig)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    found, names = kubectl(
        plane, plane.kubeconfig, "get", "crds", "-l", "app.kubernetes.io/part-of=flux", "-o", "name"
    )

    assert by_name.returncode == 0, by_name.stdout + by_name.stderr
    assert f"(state directory {home})" in by_name.stdout
    assert "Deployments" not in by_name.stdout
    assert shown.returncode == 0
    assert "no CRDs found" not in flux.stdout + flux.stderr
    assert (found, names.split()) == (
        0,
        ["customresourcedefinition.apiextensions.k8s.io/distributions.penstock.dev"],
    )


def test_second_stack_in_the_same_directory_is_refused(plane: ControlPlane, home: Path) -> None:
    again = penstock(home, "up", "--detach", f"--kubeconfig={plane.kubeconfig}")

    assert again.returncode == 1
    assert "already runs" in again.stderr


def test_second_stack_in_another_directory_and_an_installation_are_refused(
    plane: ControlPlane, home: Path, tmp_path: Path
) -> None:
    cluster = f"--kubeconfig={plane.kubeconfig}"

    again = penstock(tmp_path, "up", "--detach", cluster)
    installed = command("install", cluster)

    for refused in (again, installed):
        assert refused.returncode == 1
        assert str(home) in refused.stderr
        assert "penstock down" in refused.stderr
    assert not (tmp_path / "tokens").exists() or not list((tmp_path / "tokens").iterdir())


async def test_component_comes_back_at_its_address_when_it_is_killed_or_restarted(
    plane: ControlPlane, tmp_path: Path
) -> None:
    async with stack.start(plane.kubeconfig, state=tmp_path) as running:
        address, first = running.storage_address, running.pids()["source-0"]

        await running.kill("source")
        await until(lambda: running.pids().get("source-0") not in (None, first))
        await running.wait_ready("source")

        assert running.storage_address == address
        assert running.starts("source") == 2

        await running.stop("kustomize")
        assert "kustomize-0" not in running.pids()
        assert taken(running.metrics("kustomize"))
        await running.restart("kustomize", flags=["--log-level=debug"])

        assert "--log-level=debug" in arguments(running.pids()["kustomize-0"])


async def test_error_of_the_block_comes_out_and_no_process_is_left(
    plane: ControlPlane, tmp_path: Path
) -> None:
    pids: dict[str, int] = {}

    async def fail_inside() -> None:
        options = stack.Options(replicas=2)
        async with stack.start(plane.kubeconfig, state=tmp_path, options=options) as running:
            pids.update(running.pids())
            _ = 1 // 0

    with pytest.raises(ZeroDivisionError):
        await fail_inside()

    names = ("notification", "source", "kustomize", "helm", "image")
    assert set(pids) == {f"{name}-{n}" for name in names for n in (0, 1)}
    assert [pid for pid in pids.values() if alive(pid)] == []


async def test_component_that_cannot_run_is_told_with_its_log(
    plane: ControlPlane, tmp_path: Path
) -> None:
    options = stack.Options(components=("source",), flags={"source": ["--nonsense"]})

    with pytest.raises(
        errors.FailedError, match=r"^source-0: .*unrecognized arguments: --nonsense"
    ):
        async with stack.start(plane.kubeconfig, state=tmp_path, options=options):
            pass


def test_down_leaves_no_process_no_token_and_no_gate(plane: ControlPlane, home: Path) -> None:
    """Takes down what the tests above looked at."""
    record = json.loads((home / "up.json").read_text())
    pids = (record["pid"], *record["processes"].values())
    assert all(alive(pid) for pid in pids)
    asked = registered(plane)

    down = command("down", "--name=looked-at")

    assert down.returncode == 0
    assert not any(alive(pid) for pid in pids)
    assert not (home / "tokens").exists()
    assert {"ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"} < set(asked)
    assert "APIService" in asked
    assert "CustomResourceDefinition" in asked
    assert registered(plane) == []


def test_up_is_refused_beside_an_installation(plane: ControlPlane, tmp_path: Path) -> None:
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "name": "kustomize-controller",
            "namespace": "default",
            "labels": {
                "app.kubernetes.io/part-of": "flux",
                "app.kubernetes.io/instance": "penstock-system",
            },
        },
        "spec": {
            "selector": {"matchLabels": {"app": "x"}},
            "template": {
                "metadata": {"labels": {"app": "x"}},
                "spec": {"containers": [{"name": "x", "image": "x"}]},
            },
        },
    }
    manifest = tmp_path / "deployment.json"
    manifest.write_text(json.dumps(deployment))
    plane.kubectl("apply", "-f", str(manifest))
    try:
        beside = penstock(tmp_path, "up", "--detach", f"--kubeconfig={plane.kubeconfig}")
    finally:
        plane.kubectl("delete", "-f", str(manifest))

    assert beside.returncode == 1
    assert "Deployment default/kustomize-controller reconciles the same objects" in beside.stderr
    assert "penstock uninstall -n default" in beside.stderr


async def test_processes_end_with_a_killed_supervisor(plane: ControlPlane, tmp_path: Path) -> None:
    up = await asyncio.to_thread(
        penstock, tmp_path, "up", "--detach", f"--kubeconfig={plane.kubeconfig}"
    )
    assert up.returncode == 0, up.stderr
    record = json.loads((tmp_path / "up.json").read_text())
    pids = record["processes"].values()
    assert all(alive(pid) for pid in pids)

    os.kill(record["pid"], 9)

    await until(lambda: not any(alive(pid) for pid in pids))
    assert (await asyncio.to_thread(penstock, tmp_path, "status")).returncode == 1

    # It starts again at once: its Lease is known to be its own.
    again = await asyncio.to_thread(
        penstock, tmp_path, "up", "--detach", f"--kubeconfig={plane.kubeconfig}"
    )
    assert again.returncode == 0, again.stderr
    assert "may still run" not in again.stderr
    assert (await asyncio.to_thread(penstock, tmp_path, "down")).returncode == 0
