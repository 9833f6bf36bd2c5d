"""What the process can do that reads indexes and charts, one request at a time.

YAML and archives are strangers': whatever they do to it, it is killed at a deadline and has only so
much memory. It talks to nobody; between requests it remembers where charts are in an index.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from toolkit.chart import build, index, lookup, wire


def operations() -> Mapping[str, Callable[[bytes], bytes]]:
    """Return what a worker can do, by name; see ``toolkit.chart.wire`` for what it takes."""
    catalog = lookup.Catalog()

    def find(request: wire.FindRequest) -> wire.Found:
        return catalog.find(Path(request.path), request.digest, request.name, request.version)

    return {
        "index": _operation(wire.IndexRequest, _index),
        "find": _operation(wire.FindRequest, find),
        "inspect": _operation(wire.InspectRequest, build.inspect),
        "package": _operation(wire.PackageRequest, build.build),
    }


def _index(request: wire.IndexRequest) -> wire.Summary:
    return index.normalize(Path(request.source), Path(request.into))


def _operation(request: type[Any], run: Callable[[Any], object]) -> Callable[[bytes], bytes]:
    def operation(payload: bytes) -> bytes:
        return msgspec.msgpack.encode(run(msgspec.msgpack.decode(payload, type=request)))

    return operation
