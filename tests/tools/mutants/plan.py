"""What ``tests/mutants.toml`` says: where refusals are, which tests are near, what is excepted."""

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
        """Return where tests of a module stand: what is called as it is, its folder, the others."""
        own = Path("tests/unit") / Path(module).parent
        near = [
            str(file)
            for file in sorted(own.glob(f"test_{Path(module).stem}*.py"))
            if file.stem.removeprefix("test_").startswith(Path(module).stem)
        ]
        folder = Path("tests/unit") / Path(self.path)
        folder = folder if folder.suffix != ".py" else own
        while not folder.is_dir() and folder != Path("tests/unit"):
            folder = folder.parent
        return [level for level in (near, [str(folder)], *([test] for test in self.tests)) if level]


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
