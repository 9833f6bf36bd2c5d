"""What ``tests/mutants.toml`` says: where refusals are, which tests are near, what is excepted."""

import functools
import re
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.tools.mutants import refusals
from tests.tools.mutants.refusals import Refusal

FILE: Final = Path("tests/mutants.toml")


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A file or folder of the product; ``tests`` follow those of the same path, in their order."""

    path: str
    tests: tuple[str, ...] = ()

    def files(self) -> list[str]:
        """Return the modules."""
        root = Path(self.path)
        found = root.rglob("*.py") if root.is_dir() else [root]
        return sorted(map(str, found))

    def levels(self, module: str) -> list[list[str]]:
        """Return where tests of a module stand: the nearest first, each level wider than the last.

        That is what is called as it is, then what imports it, then all of the target's folder in
        ``tests/unit``, then the others.
        """
        root = Path("tests/unit") / Path(self.path).with_suffix("")
        while not root.is_dir():
            root = root.parent
        levels = [own_tests(module), _importing(module, root), [str(root)]]
        return [level for level in (*levels, *([test] for test in self.tests)) if level]


def own_tests(module: str) -> list[str]:
    """Return the test modules that are called as the module is, at the same path."""
    folder, stem = Path("tests/unit") / Path(module).parent, Path(module).stem
    return sorted(map(str, folder.glob(f"test_{stem}*.py")))


@functools.cache
def _importing(module: str, root: Path) -> list[str]:
    *package, name = module.removesuffix(".py").split("/")
    dotted = re.escape(".".join(package))
    imported = re.compile(rf"from {dotted} import .*\b{name}\b|{dotted}\.{name}\b")
    return sorted(
        str(file) for file in root.rglob("test_*.py") if imported.search(file.read_text())
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The whole file."""

    targets: tuple[Target, ...]
    exceptions: dict[str, str]

    def refusals(self, wanted: Sequence[str]) -> list[tuple[Target, Refusal]]:
        """Return every refusal below the paths that are wanted, or all."""
        return [
            (target, refusal)
            for target in self.targets
            for file in target.files()
            if not wanted or any(file == path or file.startswith(f"{path}/") for path in wanted)
            for refusal in refusals.instrument(Path(file).read_text(), file)[1]
        ]

    def stale(self, known: Iterable[Refusal]) -> Iterator[str]:
        """Yield the exceptions that name no refusal, of all that there are."""
        keys = {refusal.key for refusal in known}
        yield from (key for key in self.exceptions if key not in keys)


def read(file: Path = FILE) -> Plan:
    """Read the plan; a target or an exception with other fields is an error."""
    raw = tomllib.loads(file.read_text())
    return Plan(
        targets=tuple(
            Target(path=row["path"], tests=tuple(row.get("tests", ()))) for row in raw["targets"]
        ),
        exceptions={
            f"{row['path']}::{row['function']}::{row['text']}": row["reason"]
            for row in raw.get("exceptions", ())
        },
    )
