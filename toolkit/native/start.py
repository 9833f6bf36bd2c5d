"""The program of every worker: ``python -m toolkit.native.start CONFINEMENT``.

It imports the worker's module, confines itself, and only then has the module make its operations
and reads requests. The order matters: code that is imported first can still be kept as bytecode,
and no thread runs yet; what ``operations`` loads, and each byte after it, meets a confined process.
"""

import importlib
import sys

from toolkit.native.sandbox import entering
from toolkit.native.sandbox.confinement import Confinement
from toolkit.native.serve import private_pipes, serve


def main() -> None:
    """Serve the operations of the module that the confinement names, until the parent ends."""
    confinement = Confinement.decode(sys.argv[1])
    module = importlib.import_module(confinement.module)
    requests, answers = private_pipes()
    if connect := getattr(module, "connect", None):
        connect(requests.fileno(), answers.fileno())  # for operations that ask back
    entering.enter(confinement)
    serve(module.operations(), requests, answers)


if __name__ == "__main__":
    main()
