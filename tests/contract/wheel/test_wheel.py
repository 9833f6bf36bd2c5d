"""The wheel, installed by uv as users install it: nothing of this checkout is within its reach.

The environment, the working directory and the home are new, so that no engine is in a cache.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

import crds
from controlplane import cache
from release import platformwheel
from tests.tools import wheels

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

VERSIONS = ("3.11", "3.12", "3.13", "3.14")
REPOSITORY = {
    "app/kustomization.yaml": {"resources": ["greeting.yaml"], "namePrefix": "demo-"},
    "app/greeting.yaml": {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "greeting"},
        "data": {"text": "hello ${who}"},
    },
    "cluster/app.yaml": {
        "apiVersion": "kustomize.toolkit.fluxcd.io/v1",
        "kind": "Kustomization",
        "metadata": {"name": "app", "namespace": "flux-system"},
        "spec": {
            "interval": "1m",
            "path": "./app",
            "prune": True,
            "sourceRef": {"kind": "GitRepository", "name": "fleet"},
            "postBuild": {"substitute": {"who": "world"}},
        },
    },
}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return wheels.build(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module", params=VERSIONS)
def installed(
    request: pytest.FixtureRequest, wheel: Path, tmp_path_factory: pytest.TempPathFactory
) -> wheels.Installed:
    return wheels.install(wheel, interpreter(request.param), tmp_path_factory.mktemp("tool"))


def interpreter(version: str) -> str:
    """Return a Python of ``version``: ours, one on PATH that runs, or one of pyenv's."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions")
    on_path = shutil.which(f"python{version}")
    candidates = [
        sys.executable,
        *([on_path] if on_path else ()),
        *map(str, pyenv.glob(f"{version}.*/bin/python")),
    ]
    for each in candidates:
        command = (each, "-c", "import sys; print('%d.%d' % sys.version_info[:2])")
        answer = subprocess.run(command, capture_output=True, text=True, check=False)
        if answer.stdout.strip() == version:
            return each
    pytest.skip(f"no Python {version} on this machine")


def test_same_sources_give_the_same_wheel_byte_for_byte(wheel: Path) -> None:
    assert wheel.read_bytes() == platformwheel.build().content


def test_the_command_says_what_it_is_and_can(installed: wheels.Installed) -> None:
    assert installed.run("version", "--client").startswith("penstock: v")
    assert "bootstrap" in installed.run("--help")


def test_a_kustomization_is_built_by_the_engine_of_the_wheel(installed: wheels.Installed) -> None:
    write_repository(installed.home / "built")

    out = installed.run(
        *("build", "kustomization", "app", "--dry-run", "--path=built/app"),
        "--kustomization-file=built/cluster/app.yaml",
    )

    (built,) = yaml.safe_load_all(out)
    assert built["metadata"]["name"] == "demo-greeting"
    assert built["data"] == {"text": "hello world"}


def test_a_repository_is_checked(installed: wheels.Installed) -> None:
    write_repository(installed.home / "checked")

    installed.run("check", "repository", "checked")


def test_an_installation_is_written_from_the_manifests_of_the_wheel(
    installed: wheels.Installed,
) -> None:
    out = installed.run("install", "--export", "--components=ha,monitoring,decryption")

    found = list(yaml.safe_load_all(out))
    definitions = [each for each in found if each["kind"] == "CustomResourceDefinition"]
    assert {each["metadata"]["name"] for each in definitions} == {
        *(f"{kind.plural}.{kind.group}" for kind in crds.KINDS),
        "distributions.penstock.dev",  # by which the flux command knows that there is one
    }
    assert {"Deployment", "PodDisruptionBudget", "ServiceMonitor"} <= {
        each["kind"] for each in found
    }


@pytest.fixture
def stack(wheel: Path, tmp_path: Path) -> Iterator["subprocess.Popen[str]"]:
    """Start the whole product from the wheel, on control plane programs that are built."""
    tool = wheels.install(wheel, sys.executable, tmp_path)
    with subprocess.Popen(
        [tool.program, "up", "--name=pytest-wheel", f"--state={tool.home / 'state'}"],
        env=tool.environment(XDG_CACHE_HOME=str(cache.directory().parent)),
        cwd=tool.home,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        yield process
        process.terminate()


def test_the_whole_product_runs_from_the_wheel(stack: "subprocess.Popen[str]") -> None:
    assert stack.stderr is not None
    said: list[str] = []

    for line in stack.stderr:
        said.append(line)
        if "Penstock is running" in line:
            break

    assert "Penstock is running" in "".join(said[-1:]), "".join(said)


def write_repository(root: Path) -> None:
    for name, content in REPOSITORY.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(yaml.safe_dump(content))
