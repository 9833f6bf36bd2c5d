"""The image's own interpreter, run on this machine without a container.

The dynamic loader of the image runs it, with the C libraries of the image: neither the machine's
Python nor its libraries have a part in what comes out. Bytecode and compressed layers are the same
for all architectures, so the interpreter of this machine's architecture works for others too.
"""

import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import Final

from release import inside, trees
from release.errors import ReleaseError

LOADERS: Final = MappingProxyType(
    {
        "amd64": "usr/lib64/ld-linux-x86-64.so.2",
        "arm64": "usr/lib/ld-linux-aarch64.so.1",
    }
)
_LIBRARIES: Final = MappingProxyType(
    {"amd64": "usr/lib/x86_64-linux-gnu", "arm64": "usr/lib/aarch64-linux-gnu"}
)
_PROGRAM: Final = "usr/bin/python3.11"
_MACHINES: Final = MappingProxyType({"x86_64": "amd64", "aarch64": "arm64"})


def of_this_machine() -> str:
    """Return this machine's architecture by Debian's name.

    Raises:
        ReleaseError: there is no image for it.
    """
    machine = os.uname().machine
    if machine not in _MACHINES:
        known = ", ".join(_MACHINES)
        raise ReleaseError(f"the image cannot be built on {machine}: use one of {known}")
    return _MACHINES[machine]


@dataclass(frozen=True, slots=True, kw_only=True)
class Interpreter:
    """An interpreter in a folder; ``paths`` are where it finds modules besides its own."""

    root: Path
    paths: Sequence[str] = ()

    def run(self, *arguments: str, stdin: bytes = b"") -> bytes:
        """Run a command of ``release.inside`` and return what it prints.

        Raises:
            ReleaseError: it failed; carries what it said.
        """
        architecture = of_this_machine()
        loader = (LOADERS[architecture], "--argv0", _PROGRAM, "--library-path")
        command = (*loader, _LIBRARIES[architecture], _PROGRAM, "-P", inside.__file__, *arguments)
        answer = subprocess.run(
            command,
            cwd=self.root,
            env=self._environment(),
            input=stdin,
            capture_output=True,
            check=False,
        )
        if answer.returncode != 0:
            what = " ".join(arguments)[:60]
            raise ReleaseError(f"{what} in the image failed:\n{answer.stderr.decode()}")
        return answer.stdout

    def _environment(self) -> Mapping[str, str]:
        return {
            "PYTHONHOME": str(self.root / "usr"),
            "PYTHONPATH": os.pathsep.join(str(self.root / path) for path in self.paths),
            # The order of sets is that of their hashes.
            "PYTHONHASHSEED": "0",
            "PYTHONDONTWRITEBYTECODE": "1",
        }


@contextmanager
def unpacked(*contents: trees.Tree, paths: Sequence[str] = ()) -> Iterator[Interpreter]:
    """Write trees, of which one is a root file system, to a folder; yield the interpreter in it."""
    with TemporaryDirectory(prefix="penstock-image-") as scratch:
        for tree in contents:
            trees.write(tree, Path(scratch))
        yield Interpreter(root=Path(scratch), paths=paths)


def compiled(interpreter: Interpreter, tree: trees.Tree) -> dict[str, trees.Node]:
    """Return ``tree`` with the bytecode of its modules, where the interpreter looks for it."""
    with TemporaryDirectory(prefix="penstock-image-") as scratch:
        root = Path(scratch)
        modules = {path: node for path, node in tree.items() if path.endswith(".py")}
        trees.write(modules, root)
        interpreter.run("compile", str(root))
        made = {
            str(path.relative_to(root)): trees.Node(content=path.read_bytes())
            for path in root.rglob("*.pyc")
        }
    return {**tree, **made}
