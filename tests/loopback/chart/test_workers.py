"""The worker processes: hostile input costs a worker, never the process that asks."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from tests.fakes.charts import chart, entry, write
from toolkit.chart import charts, limits
from toolkit.chart.charts import Charts, Found, PackageRequest
from toolkit.chart.errors import ChartReferenceError, IndexationError, ValuesFilesError
from toolkit.native.pool import WorkerPool


@pytest.fixture
async def pool(tmp_path: Path) -> AsyncIterator[WorkerPool]:
    running = charts.start(size=1, reads=(), writes=(tmp_path,))
    yield running
    await running.close()


async def test_index_is_read_and_looked_into_by_a_worker(pool: WorkerPool, tmp_path: Path) -> None:
    reader = Charts(pool)
    entries = {"app": [entry("app", "1.0.0"), entry("app", "1.1.0")]}
    (tmp_path / "raw").write_text(json.dumps({"apiVersion": "v1", "entries": entries}))

    summary = await reader.normalize(tmp_path / "raw", tmp_path / "index", flow="team")
    found = await reader.find(tmp_path / "index", summary.digest, "app", "1.0.x", scope="a")

    assert (summary.charts, summary.versions) == (1, 2)
    assert found.version == "1.0.0"
    assert reader.known(summary.digest, "app", "1.0.x", scope="a") == found


class TakenOver:
    """Workers that give the first caller another answer."""

    def __init__(self) -> None:
        self.asked = 0

    async def call(self, op: str, payload: bytes, *, flow: str, timeout: float) -> bytes:  # noqa: ARG002, ASYNC109  # the pool's signature
        self.asked += 1
        url = "https://evil.example/a.tgz" if self.asked == 1 else "https://good.example/a.tgz"
        return msgspec.msgpack.encode(Found(name="a", version="1.0.0", urls=(url,), digest=""))


async def test_what_a_worker_told_one_namespace_is_not_told_to_another(tmp_path: Path) -> None:
    reader, index = Charts(TakenOver()), tmp_path / "index"

    first = await reader.find(index, "digest", "a", "*", scope="tenant")
    second = await reader.find(index, "digest", "a", "*", scope="victim")

    assert first.urls == ("https://evil.example/a.tgz",)
    assert second.urls == ("https://good.example/a.tgz",)
    assert reader.known("digest", "a", "*", scope="victim") == second


async def test_errors_keep_their_kind_on_the_way(pool: WorkerPool, tmp_path: Path) -> None:
    (tmp_path / "raw").write_text("nothing: here")

    with pytest.raises(IndexationError, match="no apiVersion"):
        await Charts(pool).normalize(tmp_path / "raw", tmp_path / "index", flow="team")
    with pytest.raises(ChartReferenceError, match="there is no chart at 'gone'"):
        await Charts(pool).inspect(tmp_path, "gone", flow="team")


async def test_chart_is_packaged_by_a_worker(pool: WorkerPool, tmp_path: Path) -> None:
    write(tmp_path / "root/app", chart())
    request = PackageRequest(root=str(tmp_path / "root"), path="app", out=str(tmp_path / "out"))

    inspected = await Charts(pool).inspect(tmp_path / "root", "app", flow="team")
    built = await Charts(pool).package(request, flow="team")

    assert (inspected.name, inspected.version) == (built.name, built.version)
    assert (tmp_path / "out").stat().st_size > 0


async def test_values_that_are_a_bomb_are_refused(pool: WorkerPool, tmp_path: Path) -> None:
    lines = ["a0: &a0 [x,x,x,x,x,x,x,x,x,x]"]
    lines += [f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 20)]
    write(tmp_path / "app", chart() | {"bomb.yaml": "\n".join(lines)})

    with pytest.raises(ValuesFilesError, match="excessive aliasing"):
        await Charts(pool).package(
            PackageRequest(
                root=str(tmp_path),
                path="app",
                out=str(tmp_path / "out"),
                values_files=("app/bomb.yaml",),
            ),
            flow="team",
        )


async def test_worker_without_memory_is_a_failure_of_the_index(tmp_path: Path) -> None:
    # A single scalar has to be held in memory, whatever it is part of.
    with (tmp_path / "raw").open("wb") as file:
        file.write(b"apiVersion: v1\nentries:\n  a:\n  - description: '")
        file.write(b"x" * (48 << 20))
        file.write(b"'\n")
    small = WorkerPool(charts.kind(memory_limit=64 << 20), size=1, writes=(tmp_path,))
    try:
        with pytest.raises(IndexationError, match="needed more memory than allowed"):
            await Charts(small).normalize(tmp_path / "raw", tmp_path / "index", flow="team")
    finally:
        await small.close()


async def test_index_close_to_the_limit_is_never_whole_in_memory(tmp_path: Path) -> None:
    with (tmp_path / "raw").open("w") as file:
        file.write("apiVersion: v1\nentries:\n")
        for name in range(100):
            file.write(f"  app{name}:\n")
            for number in range(100):
                file.write(f"  - {json.dumps(entry(f'app{name}', f'1.{number}.0', home=HOME))}\n")
    small = WorkerPool(charts.kind(memory_limit=LITTLE), size=1, writes=(tmp_path,))
    try:
        summary = await Charts(small).normalize(tmp_path / "raw", tmp_path / "index", flow="team")
        found = await Charts(small).find(
            tmp_path / "index", summary.digest, "app99", "1.x", scope="a"
        )
    finally:
        await small.close()

    size = (tmp_path / "raw").stat().st_size
    assert LITTLE < size * 0.9 < size < limits.INDEX_BYTES < size * 1.1
    assert (summary.charts, summary.versions) == (100, 10_000)
    assert found.version == "1.99.0"


HOME = "https://e.example/" + "x" * 4860
LITTLE = 40 << 20
"""Bytes for a worker, less than the index has."""


async def test_time_is_bounded(pool: WorkerPool, tmp_path: Path) -> None:
    reader = Charts(pool, seconds=0.001)
    (tmp_path / "raw").write_text("apiVersion: v1\n" + "a: {}\n" * 100)

    with pytest.raises(IndexationError, match="did not end within"):
        await reader.normalize(tmp_path / "raw", tmp_path / "index", flow="team")
