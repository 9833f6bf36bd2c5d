"""Load the modules under test with switches, and turn one of them off.

The modules are changed while they are imported: no file is written, so the checkout stays as it is
and several mutants can run at the same time. Programs that tests start import the files as they
stand: a refusal that is made in a worker process needs a test that calls it directly.
"""

import builtins
import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from tests.tools.mutants import refusals


class Switch:
    """Which refusal does not stand, and which were reached since ``reached`` was emptied."""

    def __init__(self) -> None:
        self.removed = ""
        self.reached: set[str] = set()

    def stands(self, key: str) -> bool:
        """Return whether the refusal is made; called in place of each of them."""
        self.reached.add(key)
        return key != self.removed

    def install(self, paths: Sequence[str]) -> None:
        """Have the modules in these files loaded with switches, from now on."""
        names = {_module(path): path for path in paths}
        if early := names.keys() & sys.modules.keys():
            raise RuntimeError(f"imported too early: {', '.join(sorted(early))}")
        setattr(builtins, refusals.SWITCH, self.stands)
        sys.meta_path.insert(0, _Finder(names))


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self, names: Mapping[str, str]) -> None:
        self._names = names

    def find_spec(
        self, fullname: str, _path: Sequence[str] | None, _target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if (path := self._names.get(fullname)) is None:
            return None
        where = Path(path).absolute()
        inside = [str(where.parent)] if where.name == "__init__.py" else None
        return importlib.util.spec_from_file_location(
            fullname,
            where,
            loader=_Loader(fullname, str(where), path),
            submodule_search_locations=inside,
        )


class _Loader(importlib.machinery.SourceFileLoader):
    def __init__(self, fullname: str, where: str, path: str) -> None:
        super().__init__(fullname, where)
        self._path = path

    def get_code(self, fullname: str) -> CodeType:  # noqa: ARG002  # the interface
        """Compile anew each time: bytecode that is kept has no switches."""
        return self.source_to_code(self.get_data(self.path), self.path)

    def source_to_code(self, data: Any, path: Any, **_: Any) -> CodeType:  # type: ignore[override]
        tree, _found = refusals.instrument(bytes(data).decode(), self._path)
        code: CodeType = compile(tree, path, "exec", dont_inherit=True)
        return code


def _module(path: str) -> str:
    return path.removesuffix(".py").replace("/", ".").removesuffix(".__init__")
