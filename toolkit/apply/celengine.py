"""The CEL engine, without the command line that its package loads.

``import cel`` loads prompt_toolkit, pygments and rich, for a program that Penstock does not use: 13
MB and 200 ms of CPU in every process that compiles an expression. The compiler is one extension
module of the package, which needs none of the rest.
"""

import sys
import threading
from importlib import import_module, util
from importlib.machinery import PathFinder
from types import ModuleType
from typing import Final

_PACKAGE: Final = "cel"
_EXTENSION: Final = "cel.cel"
_LOADING: Final = threading.Lock()
"""An extension module may be initialized once."""


def load() -> ModuleType:
    """Return the module with ``compile``; the first call takes some milliseconds."""
    with _LOADING:
        return sys.modules.get(_EXTENSION) or _extension() or import_module(_PACKAGE)


def _extension() -> ModuleType | None:
    """Load the extension module as its package would; None if the package has no such module."""
    package = util.find_spec(_PACKAGE)
    places = package.submodule_search_locations if package else None
    spec = PathFinder.find_spec(_EXTENSION, places)
    if spec is None or spec.loader is None:
        return None
    module = util.module_from_spec(spec)
    spec.loader.exec_module(module)
    # A later import of the package gets this module, too.
    sys.modules[_EXTENSION] = module
    return module
