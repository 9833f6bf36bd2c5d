"""One set of flags and of versions, so that each package is compiled once."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from controlplane import gotool
from toolkit.compiling import flags

ROOT = Path(__file__).parents[4]
GIB = 1 << 30

PLANE = "controlplane/tools/kubernetes/go.mod"
EQUAL = ("engine/go.mod", "tests/tools/helm/go.mod", "tests/tools/informer/go.mod")
"""What shares most with the control plane has the very same versions."""
AT_LEAST = {
    # module file: modules that may be older, because the program needs another API of theirs
    **{
        f"tests/tools/{name}/go.mod": frozenset[str]()
        for name in ("cosign", "fakegcs", "nats", "notation", "registry", "sops", "versitygw")
    },
    "tests/tools/flux/raised.mod": frozenset({"go.opentelemetry.io/proto/otlp"}),
}
"""What needs newer versions of some modules compiles these, and what is above them, once more."""
APART = frozenset(
    {
        # another release of Kubernetes is the point
        "controlplane/tools/oldest/go.mod",
        # CoreDNS, for a real node alone
        "controlplane/tools/node/go.mod",
        # they compile nothing
        "tests/tools/flux/go.mod",
        "tests/tools/gatewayapi/go.mod",
        # it requires nothing
        "tests/tools/podprobe/go.mod",
    }
)

_REQUIRED = re.compile(r"^(?:require )?\s*(\S+) (v\S+?)(?: // indirect)?$", re.MULTILINE)
_REPLACED = re.compile(r"^\s*(\S+) => \1 (v\S+)$", re.MULTILINE)


def required(path: str) -> dict[str, str]:
    """Return the version of each module that a module file requires."""
    text = (ROOT / path).read_text()
    found = dict(_REQUIRED.findall(text))
    return found | {name: v for name, v in _REPLACED.findall(text) if name in found}


def key(version: str) -> tuple[tuple[int, ...], bool, str]:
    """Return what orders versions: numbers, then a release after what comes before it."""
    core, _, before = version.removeprefix("v").partition("+")[0].partition("-")
    return tuple(map(int, core.split("."))), not before, before


@pytest.mark.parametrize("path", EQUAL)
def test_modules_have_the_versions_of_the_control_plane(path: str) -> None:
    pinned, own = required(PLANE), required(path)

    assert {name: (v, pinned[name]) for name, v in own.items() if pinned.get(name, v) != v} == {}


@pytest.mark.parametrize("path", AT_LEAST)
def test_no_module_of_a_test_program_is_older_than_the_control_planes(path: str) -> None:
    pinned, own = required(PLANE), required(path)

    older = {name for name, v in own.items() if name in pinned and key(v) < key(pinned[name])}

    assert older == AT_LEAST[path]


def test_every_module_file_is_in_one_of_the_tables() -> None:
    folders = ("engine", "controlplane/tools", "tests/tools")
    found = {
        str(path.relative_to(ROOT)) for folder in folders for path in (ROOT / folder).rglob("*.mod")
    }

    assert found == {PLANE, *EQUAL, *AT_LEAST, *APART}


def test_the_makefile_has_the_flags() -> None:
    line = next(
        line for line in (ROOT / "Makefile").read_text().splitlines() if line.startswith("GO_FLAGS")
    )

    assert line.partition(" := ")[2].split() == [flags.PROGRAM, *flags.COMPILER]


def test_a_program_and_a_library_differ_in_how_they_are_linked_alone() -> None:
    program, library = flags.build(flags.PROGRAM), flags.build(flags.LIBRARY)

    assert set(program) ^ set(library) == {flags.PROGRAM, flags.LIBRARY}


@pytest.mark.parametrize(
    ("physical", "processors", "expected"),
    [(4 * GIB, 2, GIB), (64 * GIB, 2, 2 * GIB), (2 * GIB, 8, GIB // 2)],
)
def test_compilers_together_take_half_of_the_memory(
    physical: int, processors: int, expected: int
) -> None:
    assert flags.compiler_memory(physical=physical, processors=processors) == expected


@pytest.mark.parametrize("mode", [flags.PROGRAM, flags.STATIC])
def test_several_programs_are_built_at_once(mode: str, tmp_path: Path) -> None:
    (tmp_path / "go.mod").write_text("module example.com/programs\n\ngo 1.26\n")
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "main.go").write_text("package main\n\nfunc main() {}\n")

    command = [str(gotool.find()), *flags.build(mode), "-n", "-o", "linked/", "./one", "./two"]
    planned = subprocess.run(
        command,
        cwd=tmp_path,
        env=os.environ | flags.environment(static=mode == flags.STATIC),
        capture_output=True,
        text=True,
        check=False,
    )

    assert planned.returncode == 0, planned.stderr
