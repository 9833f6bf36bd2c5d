"""Charts for tests: as files in a directory, as packages, and as a worker reads them."""

import gzip
import io
import tarfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from tests.fakes import chartworker
from toolkit.chart import worker
from toolkit.chart.wire import Built, Inspected, InspectRequest, PackageRequest

DEPLOYMENT = """\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ .Release.Name }}
spec:
  replicas: 1
  selector: {matchLabels: {app: {{ .Release.Name }}}}
  template:
    metadata: {labels: {app: {{ .Release.Name }}}}
    spec:
      containers: [{name: app, image: "registry.example/shop:{{ .Chart.AppVersion }}"}]
"""
"""A template: a Deployment that is named after its release."""


class InProcess:
    """The workers of ``toolkit.chart.charts`` in one process; counts what they are asked.

    Charts are read in the process of ``tests.fakes.chartworker``, indexes in this one.
    """

    def __init__(self) -> None:
        self.asked: list[str] = []
        self._operations: dict[str, Callable[[bytes], bytes]] = {
            **worker.operations(),
            "inspect": partial(chartworker.call, "inspect"),
            "package": partial(chartworker.call, "package"),
        }

    async def call(self, op: str, payload: bytes, *, flow: str, timeout: float) -> bytes:  # noqa: ARG002, ASYNC109  # the pool's signature
        assert timeout > 0
        self.asked.append(op)
        return self._operations[op](payload)


def inspected(root: Path, path: str = "app") -> Inspected:
    """Look at a chart."""
    request = msgspec.json.encode(InspectRequest(root=str(root), path=path))
    return msgspec.json.decode(chartworker.call("inspect", request), type=Inspected)


def packaged(root: Path, path: str, out: Path, **options: Any) -> Built:
    """Package a chart."""
    request = PackageRequest(root=str(root), path=path, out=str(out), **options)
    body = chartworker.call("package", msgspec.json.encode(request))
    return msgspec.json.decode(body, type=Built)


def chart_yaml(name: str = "podinfo", version: str = "6.0.0", extra: str = "") -> str:
    """Return a Chart.yaml; ``extra`` is more YAML for it."""
    return f"apiVersion: v2\nname: {name}\nversion: {version}\n{extra}"


def chart(
    name: str = "podinfo", version: str = "6.0.0", *, extra: str = "", **files: str
) -> dict[str, str]:
    """Return the files of a chart; the names of ``files`` have ``__`` for a slash, ``_`` a dot."""
    named = {key.replace("__", "/").replace("_", "."): text for key, text in files.items()}
    return {
        "Chart.yaml": chart_yaml(name, version, extra),
        "values.yaml": "replicas: 1\nimage:\n  tag: one\n  pull: Always\n",
        "templates/configmap.yaml": "kind: ConfigMap\n",
    } | named


def write(directory: Path, files: Mapping[str, str | bytes]) -> Path:
    """Write files below a directory, and return it."""
    for name, content in files.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return directory


def package(files: Mapping[str, str | bytes], *, folder: str = "podinfo") -> bytes:
    """Return a package as another tool may have made it: with times, owners and modes."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for name, content in files.items():
            data = content if isinstance(content, bytes) else content.encode()
            info = tarfile.TarInfo(f"{folder}/{name}")
            info.size, info.mtime, info.uid, info.mode = len(data), 1_700_000_000, 1000, 0o664
            tar.addfile(info, io.BytesIO(data))
    return gzip.compress(packed.getvalue(), mtime=1_700_000_000)


def members(data: bytes) -> dict[str, bytes]:
    """Return the files of a package with the folder in their names, in their order."""
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:gz") as tar:
        return {
            member.name: content.read()
            for member in tar.getmembers()
            if (content := tar.extractfile(member)) is not None
        }


def entry(name: str, version: str, **fields: object) -> dict[str, object]:
    """Return an entry of an index."""
    found = {"name": name, "version": version, "apiVersion": "v2"}
    return found | {"urls": [f"{name}-{version}.tgz"]} | fields
