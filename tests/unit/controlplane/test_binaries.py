"""Which program is taken from where, with shell scripts in place of the real ones."""

from collections.abc import Callable
from pathlib import Path

import pytest

from controlplane import binaries

VERSIONS = {
    "kube-apiserver": "Kubernetes v1.37.0",
    "kube-controller-manager": "Kubernetes v1.37.9",
    "kube-scheduler": "Kubernetes v1.37.1",
    "kubectl": "Client Version: v1.37.1",
    "etcd": "etcd Version: 3.7.1",
    "kwok": "kwok version v0.8.0 go1.26.8 (linux/amd64)",
}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Put programs that only tell their version into the assets, on PATH or into the cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path / "assets"))
    monkeypatch.setenv("PATH", f"{tmp_path / 'path'}:/usr/bin:/bin")

    def put(where: str, **versions: str) -> Path:
        directory = binaries.cache_directory() if where == "cache" else tmp_path / where
        directory.mkdir(exist_ok=True)
        for name, version in versions.items():
            program = directory / name
            program.write_text(f"#!/bin/sh\necho '{version}'\n")
            program.chmod(0o755)
        return directory

    return put


def test_every_pinned_version_is_known() -> None:
    assert {program.name: program.version for program in binaries.PROGRAMS} == {
        "kube-apiserver": "v1.37.1",
        "kube-controller-manager": "v1.37.1",
        "kube-scheduler": "v1.37.1",
        "kubectl": "v1.37.1",
        "etcd": "v3.7.0",
        "kwok": "v0.8.0",
    }


def test_assets_of_the_user_come_first(place: Callable[..., Path]) -> None:
    place("cache", **VERSIONS)
    place("path", **VERSIONS)
    assets = place("assets", **VERSIONS)

    found = binaries.locate(report=pytest.fail)

    assert found == {name: assets / name for name in VERSIONS}


def test_what_is_nowhere_is_missing(place: Callable[..., Path]) -> None:
    place("assets", **{**VERSIONS, "etcd": "etcd Version: 3.4.0"})
    place("path", kwok=VERSIONS["kwok"])

    assert binaries.missing() == ("etcd",)


def test_only_what_is_asked_for_is_looked_for(place: Callable[..., Path]) -> None:
    assets = place("assets", kubectl="Client Version: v1.37.1")

    assert binaries.locate("kubectl") == {"kubectl": assets / "kubectl"}


def test_what_was_built_comes_before_path(place: Callable[..., Path]) -> None:
    place("path", **VERSIONS)
    built = place("cache", **VERSIONS)

    found = binaries.locate(report=pytest.fail)

    assert found == {name: built / name for name in VERSIONS}


def test_programs_on_path_are_used_before_anything_is_built(
    place: Callable[..., Path],
) -> None:
    path = place("path", **VERSIONS)

    found = binaries.locate(report=pytest.fail)

    assert found == {name: path / name for name in VERSIONS}


@pytest.mark.parametrize(
    ("program", "version", "said"),
    [
        ("kubectl", "Client Version: v1.32.4-dispatcher", "is v1.32.4-dispatcher, not v1.37"),
        ("kube-apiserver", "Kubernetes v1.38.0", "is v1.38.0, not v1.37"),
        ("etcd", "etcd Version: 3.5.21", "is v3.5.21, not v3.7"),
        ("kwok", "nothing", "is of no known version, not v0.8"),
    ],
)
def test_program_of_another_release_is_passed_over_and_named(
    place: Callable[..., Path], program: str, version: str, said: str
) -> None:
    assets = place("assets", **{**VERSIONS, program: version})
    path = place("path", **VERSIONS)
    reported: list[str] = []

    found = binaries.locate(report=reported.append)

    assert found[program] == path / program
    assert reported == [f"{assets / program} {said}: not used"]


def test_cache_directory_is_named_by_the_version(place: Callable[..., Path]) -> None:
    assert place("cache").name.startswith("v1.37.1-")
