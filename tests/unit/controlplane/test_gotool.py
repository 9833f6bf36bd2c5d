"""Which Go is taken, with shell scripts in place of toolchains."""

from hashlib import sha256
from pathlib import Path

import pytest

from controlplane import gotool


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a directory that is all of PATH but for the shell's own programs."""
    directory = tmp_path / "bin"
    directory.mkdir()
    monkeypatch.setenv("PATH", f"{directory}:/usr/bin:/bin")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return directory


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("go version go1.26.8 linux/amd64", (1, 26)),
        ("go version go1.27rc1 linux/arm64", (1, 27)),
        ("go version devel go1.28-abcdef linux/amd64", (1, 28)),
        ("something else", (0, 0)),
    ],
)
def test_version_is_what_the_program_says(
    path: Path, answer: str, expected: tuple[int, int]
) -> None:
    assert gotool.version(_script(path / "go", f"echo {answer}")) == expected


def test_program_that_cannot_run_has_no_version(tmp_path: Path) -> None:
    assert gotool.version(tmp_path / "missing") == (0, 0)


def test_go_is_judged_by_itself_and_not_by_what_it_would_download(path: Path) -> None:
    go = _script(path / "go", 'test "$GOTOOLCHAIN" = local && echo go version go1.26.0')

    assert gotool.version(go) == (1, 26)


def test_new_enough_go_on_path_is_used(path: Path) -> None:
    go = _script(path / "go", "echo go version go1.26.0 linux/amd64")

    assert gotool.find() == go


def test_installed_wheel_is_used_when_the_one_on_path_is_too_old(
    path: Path, tmp_path: Path
) -> None:
    _script(path / "go", "echo go version go1.19.8 linux/amd64")
    digest = sha256(gotool.REQUIREMENTS.read_bytes()).hexdigest()[:8]
    environment = tmp_path / "cache" / "penstock" / "go" / f"venv-{digest}"
    package = environment / "lib" / "go"
    (package / "bin").mkdir(parents=True)
    go = _script(package / "bin" / "go", "echo go version go1.27.3 linux/amd64")
    (environment / "bin").mkdir()
    _script(environment / "bin" / "python", f"echo {package}/__init__.py")
    (environment / "complete").touch()

    assert gotool.find() == go


def _script(path: Path, text: str) -> Path:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path
