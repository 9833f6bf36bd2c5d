"""The library appears whole, once, and under a name that tells what it was built from."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from toolkit.errors import StalledError
from toolkit.native import build, library

_BUILT = "built\n" * 2  # with Helm, and without


@pytest.fixture
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.delenv("PENSTOCK_ENGINE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "penstock" / "engine"


def _install_go(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, script: str) -> None:
    """Put a program named go first on PATH; ``script`` sees the arguments of ``go build``."""
    go = tmp_path / "bin" / "go"
    go.parent.mkdir()
    go.write_text(
        f'#!/bin/sh\nif [ "$1" = env ]; then echo go1.26.8; exit; fi\n'
        f'while [ "$1" != -o ]; do shift; done\n{script}\n'
    )
    go.chmod(0o755)
    monkeypatch.setenv("PATH", f"{go.parent}{os.pathsep}{os.environ['PATH']}")


def test_a_chosen_library_is_taken_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_ENGINE", "/chosen/lib.so")

    assert build.build() == Path("/chosen/lib.so")
    assert library.find() == Path("/chosen/lib.so")


def test_what_was_built_is_found_and_not_built_again(
    cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    _install_go(monkeypatch, tmp_path, f'echo built >>"{tmp_path}/log"; echo library >"$2"')

    first, second = build.build(), build.build()

    assert first == second == library.find()
    assert first == cache / f"{library.sources_digest()}-go1.26.8" / "libengine.so"
    assert (tmp_path / "log").read_text() == _BUILT
    assert library.with_helm(first).is_file()
    assert sorted(path.name for path in cache.iterdir()) == sorted([first.parent.name, "lock"])


def test_a_failed_build_leaves_nothing_and_tells_why(
    cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    _install_go(monkeypatch, tmp_path, 'echo half >"$2"; echo "x.go:1: syntax error" >&2; exit 1')

    with pytest.raises(StalledError, match=r"cannot build libengine\.so: \nx\.go:1: syntax error"):
        build.build()

    assert [path.name for path in cache.iterdir()] == ["lock"]
    assert library.find_built() is None


def test_what_a_killed_build_left_is_cleared_away(
    cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (cache / "building-killed").mkdir(parents=True)
    (cache / "building-killed" / "libengine.so").write_text("half")
    _install_go(monkeypatch, tmp_path, 'echo library >"$2"')

    built = build.build()

    assert sorted(path.name for path in cache.iterdir()) == sorted([built.parent.name, "lock"])


def test_two_commands_build_once(
    cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    until_told = f'while ! [ -e "{tmp_path}/go-on" ]; do sleep 0.02; done'
    script = f'echo built >>"{tmp_path}/log"; {until_told}; echo library >"$2"'
    _install_go(monkeypatch, tmp_path, script)
    command = [sys.executable, "-m", "toolkit.native.build"]
    repository = Path(build.__file__).parents[2]

    def started() -> subprocess.Popen[str]:
        return subprocess.Popen(
            command, cwd=repository, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    first = started()
    while first.poll() is None and not (tmp_path / "log").exists():
        time.sleep(0.02)
    second = started()
    assert second.stderr is not None
    waits = any("another process is building the engine" in line for line in second.stderr)
    (tmp_path / "go-on").touch()
    outputs = [process.communicate(timeout=120) for process in (first, second)]

    assert waits
    assert {stdout.strip() for stdout, _ in outputs} == {str(library.find_built())}
    assert (tmp_path / "log").read_text() == _BUILT
    assert cache.is_dir()


def test_an_old_toolchain_is_not_used(tmp_path: Path) -> None:
    go = tmp_path / "go"
    go.write_text("#!/bin/sh\necho go1.25.9\n")
    go.chmod(0o755)

    assert build._version(str(go)) is None
    go.write_text("#!/bin/sh\necho go1.26rc1\n")
    assert build._version(str(go)) == "go1.26rc1"


def test_sources_tell_versions_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "SOURCES", tmp_path)
    digests = set()
    for name, content in (
        ("a.go", "1"),
        ("a.go", "2"),
        ("go.mod", "1"),
        ("b/a.go", "1"),
        ("b/x.s", ""),
    ):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(content)
        digests.add(library.sources_digest())
    before = library.sources_digest()
    (tmp_path / "a_test.go").write_text("tests are not part of it")

    assert len(digests) == 5
    assert library.sources_digest() == before
