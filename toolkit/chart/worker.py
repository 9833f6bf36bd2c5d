"""The operations of the process that reads indexes and charts, one request at a time.

YAML and archives are untrusted: the process is killed at a deadline and has bounded memory. It has
no network; between requests it remembers where charts are in an index. The engine with Helm is
loaded for the first chart, since a worker that reads only indexes does not need it.
"""

from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

import msgspec

from toolkit.chart import errors, index, lookup, wire
from toolkit.errors import PenstockError
from toolkit.native import library
from toolkit.native.engine import Engine, Status
from toolkit.native.frames import OperationError


def operations() -> Mapping[str, Callable[[bytes], bytes]]:
    """Return the operations of a worker, by name; ``toolkit.chart.wire`` has their messages."""
    catalog = lookup.Catalog()

    def find(request: wire.FindRequest) -> wire.Found:
        return catalog.find(Path(request.path), request.digest, request.name, request.version)

    return {
        "index": _operation(wire.IndexRequest, _index),
        "find": _operation(wire.FindRequest, find),
        "inspect": _engine_operation("chart.inspect"),
        "package": _engine_operation("chart.package"),
    }


def _index(request: wire.IndexRequest) -> wire.Summary:
    return index.normalize(Path(request.source), Path(request.into))


def _operation(request: type[Any], run: Callable[[Any], object]) -> Callable[[bytes], bytes]:
    def operation(payload: bytes) -> bytes:
        return msgspec.msgpack.encode(run(msgspec.msgpack.decode(payload, type=request)))

    return operation


def _engine_operation(name: str) -> Callable[[bytes], bytes]:
    def operation(payload: bytes) -> bytes:
        status, body = _engine().call(name, payload)
        if status is Status.OK:
            return body
        failure = msgspec.json.decode(body, type=_Failure)
        raise _ERRORS.get(failure.code, OperationError)(failure.message)

    return operation


class _Failure(msgspec.Struct):
    """A failure of the engine."""

    code: str
    message: str


_ERRORS: Final[Mapping[str, type[PenstockError]]] = {
    "ChartReference": errors.ChartReferenceError,
    "MetadataPatch": errors.MetadataPatchError,
    "ValuesFiles": errors.ValuesFilesError,
    "ChartPackage": errors.ChartPackageError,
    "DependencyBuild": errors.DependencyBuildError,
}


@cache
def _engine() -> Engine:
    return Engine(library.with_helm(library.find()))
