"""The runs whose outputs the documents show: each runs the real commands, on real servers."""

import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from controlplane import plane
from tests.docs.pages import ROOT

SECONDS: Final = 300.0
"""After which a run hangs; never a measure of speed."""
_IMAGE: Final = "registry.example.com/penstock:v0.1.0"
_REPOSITORY: Final = {
    "apps/media/ks.yaml": """\
apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {name: audio, namespace: media}
spec:
  interval: 10m
  path: ./audio
  prune: true
  sourceRef: {kind: GitRepository, name: charts, namespace: infra}
""",
    "apps/shop/ks.yaml": """\
apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {name: shop, namespace: shop}
spec:
  intervall: 10m
  interval: 10m
  path: ./shop
  prune: true
  sourceRef: {kind: GitRepository, name: shop}
""",
}


def demo() -> str:
    """Run the demo."""
    return _run((sys.executable, "-m", "cli.demo"), env={"KEEP": ""}, codes=(0,))


def install() -> str:
    """Install in an empty cluster."""
    with plane.start(f"documents-{os.getpid()}") as cluster:
        env = {"KUBECONFIG": str(cluster.kubeconfig)}
        return _session(
            ("penstock check --pre", 0),
            (f"penstock install --image {_IMAGE} --components ha", 0),
            env=env,
        )


def check() -> str:
    """Check a repository with two mistakes."""
    with TemporaryDirectory() as home:
        for name, text in _REPOSITORY.items():
            path = Path(home, name)
            path.parent.mkdir(parents=True)
            path.write_text(text)
        return _session(("penstock check repository .", 1), cwd=Path(home))


RUNS: Final[Mapping[str, Callable[[], str]]] = {"demo": demo, "install": install, "check": check}


def _session(
    *commands: tuple[str, int], env: Mapping[str, str] | None = None, cwd: Path = ROOT
) -> str:
    """Return what a terminal shows of the commands, each with the exit code that it must have."""
    return "\n".join(_lines(commands, env or {}, cwd))


def _lines(commands: Sequence[tuple[str, int]], env: Mapping[str, str], cwd: Path) -> Iterator[str]:
    for command, code in commands:
        yield f"$ {command}"
        program, *arguments = shlex.split(command)
        assert program == "penstock", "only the command of the product is shown"
        yield _run((sys.executable, "-m", "cli", *arguments), env=env, codes=(code,), cwd=cwd)


def _run(
    command: Sequence[str], *, env: Mapping[str, str], codes: Sequence[int], cwd: Path = ROOT
) -> str:
    done: subprocess.CompletedProcess[str] = subprocess.run(
        command,
        cwd=cwd,
        env=os.environ | {"PYTHONPATH": str(ROOT), "COLUMNS": "100"} | dict(env),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    if done.returncode not in codes:
        raise AssertionError(f"{shlex.join(command)} ended with {done.returncode}:\n{done.stdout}")
    return done.stdout.rstrip()
