"""Helm charts from the API to the package that a consumer gets: repositories, registries, files."""

import pytest
import yaml

from tests.e2e.conftest import DEADLINE, GIT_REPOSITORY, Space, condition, is_ready
from tests.e2e.helmsources import HELM_CHART, HELM_REPOSITORY, helm_chart, push, repository
from tests.e2e.sources import content, secret
from tests.fakes.chartrepository import ChartRepository
from tests.fakes.charts import chart
from tests.fakes.registry import FakeRegistry
from toolkit.objects import Json

pytestmark = pytest.mark.asyncio(loop_scope="session")

LOGIN = ("ada", "s3cret-horse")


def ready_of(obj: Json) -> tuple[str, str]:
    row = condition(obj, "Ready")
    return row["reason"], row["message"]


async def at(space: Space, version: str, name: str = "app") -> Json:
    """Return a HelmChart once it is Ready in a version."""

    def holds(obj: Json) -> bool:
        return is_ready(obj) and obj["status"]["artifact"]["revision"] == version

    return await space.world.until(HELM_CHART, space.namespace, name, holds, within=DEADLINE)


async def test_chart_of_an_index_reaches_consumers(space: Space) -> None:
    await space.world.apply(
        secret(space, "login", {"username": LOGIN[0], "password": LOGIN[1]}),
        helm_chart(space, version="6.x"),
    )
    waiting = await space.refused(HELM_CHART)
    async with ChartRepository(login=LOGIN) as server:
        server.add(version="6.0.0")
        data = server.add(version="6.1.0")
        server.add(version="7.0.0")
        await space.world.apply(repository(space, server.url, secretRef={"name": "login"}))

        index = await space.ready(HELM_REPOSITORY, "charts")
        obj = await at(space, "6.1.0")

    revision = index["status"]["artifact"]["revision"]
    remedy = "create it, or correct sourceRef"
    assert ready_of(waiting) == (
        "SourceUnavailable",
        f"failed to get source: HelmRepository '{space.namespace}/charts' not found: {remedy}",
    )
    assert ready_of(index) == ("Succeeded", f"stored artifact: revision '{revision}'")
    assert ready_of(obj) == (
        "ChartPullSucceeded",
        "pulled 'podinfo' chart with version '6.1.0'",
    )
    artifact = obj["status"]["artifact"]
    assert artifact["path"] == f"helmchart/{space.namespace}/app/podinfo-6.1.0.tgz"
    assert obj["status"]["url"] == f"{artifact['url'].rpartition('/')[0]}/latest.tar.gz"
    assert index["status"]["url"].endswith(f"/helmrepository/{space.namespace}/charts/index.yaml")
    assert artifact["size"] == len(data)
    assert "version: 6.1.0" in (await content(obj))["podinfo/Chart.yaml"]
    assert obj["status"]["observedSourceArtifactRevision"] == revision
    assert "horse" not in space.world.stack.log("source").read_text()


async def test_new_index_wakes_its_charts(space: Space) -> None:
    async with ChartRepository() as server:
        server.add(version="6.0.0")
        await space.world.apply(repository(space, server.url), helm_chart(space))
        await at(space, "6.0.0")
        server.add(version="6.0.1")

        await space.request(HELM_REPOSITORY, "charts")

        await at(space, "6.0.1")


async def test_unchanged_chart_costs_no_request(space: Space) -> None:
    async with ChartRepository() as server:
        server.add()
        await space.world.apply(repository(space, server.url), helm_chart(space))
        before = await at(space, "6.0.0")
        server.seen.clear()

        await space.request(HELM_CHART)
        seen = list(server.paths)
        await space.request(HELM_REPOSITORY, "charts")

    after = await space.ready(HELM_CHART)
    assert seen == []
    assert [request.headers.get("If-None-Match", "") != "" for request in server.seen] == [True]
    assert after["status"]["artifact"] == before["status"]["artifact"]


async def test_registry_is_static_and_its_charts_are_pulled(space: Space) -> None:
    async with FakeRegistry(bearer=LOGIN) as registry:
        push(registry, "6.0.0")
        await space.world.apply(
            secret(space, "login", {".dockerconfigjson": registry.dockerconfig(*LOGIN)}),
            repository(
                space,
                f"oci://{registry.host}/charts",
                type="oci",
                insecure=True,
                secretRef={"name": "login"},
            ),
            helm_chart(space, version="6.0.0"),
            helm_chart(space, "range", version=">=6"),
        )
        obj = await at(space, "6.0.0")
        await at(space, "6.0.0", "range")
        registry.counts.clear()
        await space.request(HELM_CHART)
        requests = dict(registry.counts)
        push(registry, "6.1.0")
        await space.request(HELM_CHART, "range")
        newer = await at(space, "6.1.0", "range")

    settings = await space.get(HELM_REPOSITORY, "charts")
    assert requests == {"HEAD manifests": 1}
    assert ready_of(obj)[1] == "pulled 'podinfo' chart with version '6.0.0'"
    assert "podinfo/values.yaml" in await content(newer)
    assert "conditions" not in settings.get("status", {})
    assert "artifact" not in settings.get("status", {})


async def test_who_waits_for_a_registry_and_a_suspended_source_goes_on(space: Space) -> None:
    static = repository(space, "oci://registry.example.com/charts", type="oci")
    suspended = repository(space, "https://charts.example.com", "later", suspend=True)
    made = space.repository()
    made.commit({"s.yaml": yaml.safe_dump_all([static, suspended])})

    dependent = space.kustomization("after", namePrefix="after-", dependsOn=[{"name": "app"}])

    await space.world.apply(
        space.source(made), space.kustomization(wait=True, timeout="10m"), dependent
    )

    await space.ready(name="app")
    await space.ready(name="after")


async def test_unsigned_chart_is_not_offered(space: Space) -> None:
    async with FakeRegistry() as registry:
        push(registry, "6.0.0")
        await space.world.apply(
            secret(space, "keys", {"me.pub": PUBLIC}),
            repository(space, f"oci://{registry.host}/charts", type="oci", insecure=True),
            helm_chart(
                space,
                version="6.0.0",
                verify={"provider": "cosign", "secretRef": {"name": "keys"}},
            ),
        )

        obj = await space.refused(HELM_CHART)

    assert ready_of(obj)[0] == "ChartVerificationError"
    assert condition(obj, "SourceVerified")["status"] == "False"
    assert "artifact" not in obj["status"]
    assert not any("blobs" in request.path for request in registry.seen)


PUBLIC = """-----BEGIN PUBLIC KEY-----
MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEaxfR8uEsQkf4vOblY6RA8ncDfYEt
6zOg9KE5RdiYwpZP40Li/hp/m47n60p8D54WK84zV2sxXs7LtkBoN79R9Q==
-----END PUBLIC KEY-----
"""


async def test_chart_in_git_is_built_with_values_and_dependencies(space: Space) -> None:
    async with ChartRepository() as server:
        server.add("redis", "1.2.0")
        listed = (
            "dependencies:\n- {name: common, version: '>=0', repository: 'file://../common'}\n"
            f"- {{name: redis, version: 1.x, repository: '{server.url}'}}\n"
        )
        code = space.repository()
        commits = [
            code.commit(
                {
                    **{f"charts/app/{name}": text for name, text in chart(extra=listed).items()},
                    **{f"charts/common/{name}": text for name, text in chart("common").items()},
                    "prod.yaml": f"replicas: {replicas}\n",
                }
            )
            for replicas in (3,)
        ]
        await space.world.apply(
            space.source(code),
            helm_chart(
                space,
                chart="./charts/app",
                source="GitRepository/app",
                reconcileStrategy="Revision",
                valuesFiles=["charts/app/values.yaml", "prod.yaml", "gone.yaml"],
                ignoreMissingValuesFiles=True,
            ),
        )
        obj = await at(space, f"6.0.0+{commits[0][:12]}.1")
        commits.append(code.commit({"prod.yaml": "replicas: 5\n"}))
        await space.request(GIT_REPOSITORY)
        newer = await at(space, f"6.0.0+{commits[1][:12]}.1")

    assert ready_of(obj)[1] == (
        f"packaged 'podinfo' chart with version '6.0.0+{commits[0][:12]}.1' "
        "and merged values files [charts/app/values.yaml prod.yaml]"
    )
    files = await content(newer)
    assert yaml.safe_load(files["podinfo/values.yaml"])["replicas"] == 5
    assert {"podinfo/charts/common/Chart.yaml", "podinfo/charts/redis/Chart.yaml"} < set(files)
    assert newer["status"]["observedValuesFiles"] == ["charts/app/values.yaml", "prod.yaml"]
    assert newer["status"]["observedSourceArtifactRevision"] == f"main@sha1:{commits[1]}"


async def test_failures_are_told_apart(space: Space) -> None:
    async with ChartRepository() as server:
        server.add("lying", digest="0" * 64)
        await space.world.apply(
            repository(space, server.url),
            repository(space, "http://127.0.0.1:1/x", "down"),
            helm_chart(space, "missing", chart="gone"),
            helm_chart(space, "lying", chart="lying"),
            helm_chart(space, "empty", source="HelmRepository/down"),
        )
        wanted = {
            "missing": ("InvalidChartReference", True),
            "lying": ("ChartPullError", False),
            "empty": ("NoSourceArtifact", False),
        }

        found = {}
        for name, (reason, _) in wanted.items():
            obj = await space.world.until(
                HELM_CHART,
                space.namespace,
                name,
                lambda obj, reason=reason: condition(obj, "Ready").get("reason") == reason,
            )
            found[name] = (reason, bool(condition(obj, "Stalled")))
        down = await space.refused(HELM_REPOSITORY, "down")

    assert found == wanted
    assert ready_of(down)[0] == "Failed"


async def test_broken_index_keeps_the_last_one(space: Space) -> None:
    async with ChartRepository() as server:
        server.add()
        await space.world.apply(repository(space, server.url), helm_chart(space))
        await at(space, "6.0.0")
        server.index = b"apiVersion: v1\nentries: &a {x: *a}\n"

        await space.request(HELM_REPOSITORY, "charts")
        obj = await space.refused(HELM_REPOSITORY, "charts")
        await space.request(HELM_CHART)
        still = await space.ready(HELM_CHART)

    assert ready_of(obj)[0] == "IndexationFailed"
    assert "artifact" in obj["status"]
    assert "podinfo/Chart.yaml" in await content(still)


async def test_deleted_chart_leaves_nothing_behind(space: Space) -> None:
    async with ChartRepository() as server:
        server.add()
        await space.world.apply(repository(space, server.url), helm_chart(space))
        await at(space, "6.0.0")
        for gvk, name in ((HELM_CHART, "app"), (HELM_REPOSITORY, "charts")):
            await space.world.api.delete(gvk, name, space.namespace)
            await space.world.gone(gvk, space.namespace, name)
