"""Charts that ``helm push`` puts into a registry are found and pulled to the byte."""

from pathlib import Path

import pytest

from tests.fakes.charts import chart, write
from tests.fakes.registry import FakeRegistry
from tests.tools.helmcli import Helm, beside
from toolkit.chart import registry as charts
from toolkit.remote.http.http import Endpoint, Http
from toolkit.remote.oci.oci import Repository
from toolkit.remote.oci.registry import Registry


@pytest.mark.parametrize(
    ("wanted", "version"), [("~1.2", "1.2.0+build.5"), ("1.0.0", "1.0.0"), ("*", "1.2.0+build.5")]
)
async def test_pushed_chart_is_pulled(
    helm: Helm, tmp_path: Path, http: Http, wanted: str, version: str
) -> None:
    async with FakeRegistry() as server:
        for number in ("1.0.0", "1.2.0+build.5", "2.0.0-rc.1"):
            helm("package", write(tmp_path / number, chart("app", number)), "-d", tmp_path)
            file = tmp_path / f"app-{number}.tgz"
            await beside(helm, "push", file, f"oci://{server.host}/charts", "--plain-http")
        client = Registry(http, Endpoint(plain_http=True), timeout=10)
        repository = Repository.parse(f"oci://{server.host}/charts/app")

        found = await charts.choose(client, repository, wanted)
        digest = (await charts.resolve(client, repository, found)).digest
        await charts.pull(client, repository, digest, tmp_path / "pulled")

    assert found == version
    assert (tmp_path / "pulled").read_bytes() == (tmp_path / f"app-{version}.tgz").read_bytes()
