"""A HelmChart's passes over an HTTP repository and over files: what is asked, stored and told."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from controllers.source import helmchart
from controllers.source.chartdependencies import MAX_INDEXES
from crds.meta import LocalObjectReference, ObjectMeta
from crds.source_bucket import Bucket, BucketSpec
from crds.source_parts import OCIVerification
from tests.fakes.chartrepository import ChartRepository
from tests.fakes.charts import chart, members, package, write
from tests.fakes.chartscene import (
    MAIN,
    NAMESPACE,
    SHA,
    World,
    below,
    depending,
    files,
    git,
    refused,
)
from tests.fakes.passes import condition
from toolkit.errors import StalledError, WaitingError
from toolkit.policy import origins

# An HTTP repository


@pytest.fixture
async def indexed(world: World, server: ChartRepository) -> ChartRepository:
    """Run a repository with three versions of podinfo, whose index is stored."""
    for version in ("6.0.0", "6.1.0", "7.0.0-rc.1"):
        server.add(version=version, files=chart(version=version, values_prod_yaml="replicas: 3\n"))
    await world.index(world.repository(server.url))
    server.seen.clear()
    return server


async def test_chart_is_pulled_as_it_is(world: World, indexed: ChartRepository) -> None:
    obj, outcome = await world.build(world.chart())

    artifact = obj.status.artifact
    assert artifact is not None
    assert outcome.message == "pulled 'podinfo' chart with version '6.1.0'"
    assert artifact.path == "helmchart/apps/app/podinfo-6.1.0.tgz"
    assert artifact.revision == "6.1.0"
    assert await world.content() == indexed.files["/charts/podinfo-6.1.0.tgz"]
    assert obj.status.observed_chart_name == "podinfo"
    assert obj.status.observed_values_files == []
    assert obj.status.observed_source_artifact_revision.startswith("sha256:")
    assert obj.status.url.startswith("http://artifacts.test/helmchart/apps/app/")
    assert world.cluster.events[-1].message == outcome.message
    assert condition(obj, "ArtifactInStorage") == ("True", "ChartPullSucceeded", outcome.message)
    # Flux: helmchart_controller.go, reasonForBuild
    assert (outcome.reason, world.cluster.events[-1].reason) == ("ChartPullSucceeded",) * 2


@pytest.mark.usefixtures("indexed")
async def test_chart_that_was_packaged_here_is_told_apart(world: World) -> None:
    obj, outcome = await world.build(world.chart(values_files=["values.prod.yaml"]))

    assert outcome.reason == "ChartPackageSucceeded"
    assert outcome.message.startswith("packaged 'podinfo' chart")
    assert condition(obj, "ArtifactInStorage")[1] == world.cluster.events[-1].reason


@pytest.mark.parametrize(
    ("wanted", "version"),
    [
        ("6.0.0", "6.0.0"),
        ("<6.1.0", "6.0.0"),
        ("", "6.1.0"),
        (">=7.0.0-0", "7.0.0-rc.1"),
        ("7.0.0-rc.1", "7.0.0-rc.1"),
    ],
)
async def test_version_is_the_one_that_helm_would_take(
    world: World, indexed: ChartRepository, wanted: str, version: str
) -> None:
    await world.build(world.chart(version=wanted))

    assert indexed.paths == [f"/charts/podinfo-{version}.tgz"]


async def test_unchanged_chart_costs_nothing(world: World, indexed: ChartRepository) -> None:
    obj, before = await world.build(world.chart())
    world.workers.asked.clear()
    indexed.seen.clear()

    again, after = await world.build(obj)

    assert after == before
    assert again.status.artifact == obj.status.artifact
    assert (indexed.seen, world.workers.asked) == ([], [])


async def test_after_a_restart_the_index_is_looked_into_once(
    world: World, indexed: ChartRepository
) -> None:
    obj, _ = await world.build(world.chart())
    world.restart()
    world.workers.asked.clear()
    indexed.seen.clear()

    await world.build(obj)
    await world.build(obj)

    assert (indexed.seen, world.workers.asked) == ([], ["find"])


def fetched_from(obj: Any) -> list[str]:
    """Return what the artifact tells of where it, and what it was made from, was fetched."""
    return [origin.url for origin in origins.read(obj.status.artifact.metadata) if origin.url]


async def test_same_version_of_another_repository_is_fetched_there(
    world: World, indexed: ChartRepository, elsewhere: ChartRepository
) -> None:
    own, _ = await world.build(world.chart())
    elsewhere.add(version="6.1.0", files=chart(version="6.1.0", values_prod_yaml="evil: true\n"))
    await world.index(world.repository(elsewhere.url))
    foreign, _ = await world.build(own)
    taken = await world.content()
    world.repository(indexed.url)
    told = fetched_from(world.current)
    await world.index(world.repository(indexed.url))
    back, _ = await world.build(foreign)

    assert fetched_from(own) == [indexed.url]
    assert fetched_from(foreign) == told == [elsewhere.url]
    assert taken == elsewhere.files["/charts/podinfo-6.1.0.tgz"]
    assert fetched_from(back) == [indexed.url]
    assert await world.content() == indexed.files["/charts/podinfo-6.1.0.tgz"]


async def test_chart_tells_where_the_files_around_it_were_fetched(
    world: World, tmp_path: Path
) -> None:
    await files(world, tmp_path, below("charts/app", chart(version="1.0.0")))
    source = world.cluster.objects["GitRepository", NAMESPACE, "code"]
    record = origins.record(origins.own(msgspec.to_builtins(source)), ())
    stored = msgspec.structs.replace(source.status.artifact, metadata={origins.RECORD: record})
    before, _ = await world.build(world.chart("charts/app", kind="GitRepository", source="code"))
    await world.cluster.write(source, {"artifact": msgspec.to_builtins(stored)})

    after, _ = await world.build(before)

    assert fetched_from(before) == []
    assert fetched_from(after) == ["https://git.test/code"]


async def test_new_version_is_taken(world: World, indexed: ChartRepository) -> None:
    obj, _ = await world.build(world.chart())
    indexed.add(version="6.2.0")
    await world.index(world.cluster.objects["HelmRepository", NAMESPACE, "charts"])

    obj, _ = await world.build(obj)

    assert obj.status.artifact is not None
    assert obj.status.artifact.revision == "6.2.0"


async def test_chart_that_was_lost_is_fetched_again(world: World, indexed: ChartRepository) -> None:
    obj, _ = await world.build(world.chart())
    assert obj.status.artifact is not None
    (world.store.root / obj.status.artifact.path).unlink()

    await world.build(obj)

    assert await world.content() == indexed.files["/charts/podinfo-6.1.0.tgz"]


async def test_values_files_are_merged_and_seen_in_the_version(
    world: World, indexed: ChartRepository
) -> None:
    spec: dict[str, Any] = {"values_files": ["values.yaml", "values.prod.yaml"]}

    obj, outcome = await world.build(world.chart(generation=4, **spec))

    assert indexed.paths == ["/charts/podinfo-6.1.0.tgz"]
    assert outcome.message == (
        "packaged 'podinfo' chart with version '6.1.0+4' "
        "and merged values files [values.yaml values.prod.yaml]"
    )
    content = members(await world.content())
    assert yaml.safe_load(content["podinfo/values.yaml"])["replicas"] == 3
    assert yaml.safe_load(content["podinfo/Chart.yaml"])["version"] == "6.1.0+4"
    assert obj.status.observed_values_files == ["values.yaml", "values.prod.yaml"]
    assert obj.status.artifact is not None
    assert obj.status.artifact.path.endswith("/podinfo-6.1.0+4.tgz")


async def test_the_values_file_of_old_versions_is_merged_before_the_others(
    world: World, indexed: ChartRepository
) -> None:
    spec: dict[str, Any] = {"values_file": "values.yaml", "values_files": ["values.prod.yaml"]}

    obj, _ = await world.build(world.chart(generation=4, **spec))

    assert indexed.paths == ["/charts/podinfo-6.1.0.tgz"]
    assert obj.status.observed_values_files == ["values.yaml", "values.prod.yaml"]
    content = members(await world.content())
    assert yaml.safe_load(content["podinfo/Chart.yaml"])["version"] == "6.1.0+4"


async def test_values_files_that_go_are_forgotten(world: World, indexed: ChartRepository) -> None:
    spec: dict[str, Any] = {"values_files": ["values.prod.yaml"]}
    await world.build(world.chart(generation=1, **spec))

    obj, outcome = await world.build(world.chart(generation=2))

    assert outcome.message == "pulled 'podinfo' chart with version '6.1.0'"
    assert obj.status.observed_values_files == []
    assert await world.content() == indexed.files["/charts/podinfo-6.1.0.tgz"]


async def test_missing_values_files_can_be_ignored(world: World, indexed: ChartRepository) -> None:
    names = ["gone.yaml", "values.prod.yaml"]
    error = await refused(world, world.chart(values_files=names))

    obj, _ = await world.build(
        world.chart(generation=2, values_files=names, ignore_missing_values_files=True)
    )

    assert indexed.seen
    assert (error.reason, type(error).__base__) == ("ValuesFilesError", StalledError)
    assert obj.status.observed_values_files == ["values.prod.yaml"]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"chart": "gone"}, "no chart 'gone'"),
        ({"version": ">9"}, "no 'podinfo' chart with version matching '>9' found"),
        ({"version": "no range"}, r"spec\.version"),
    ],
)
async def test_chart_that_is_not_in_the_index_is_an_invalid_reference(
    world: World, indexed: ChartRepository, spec: Any, message: str
) -> None:
    with pytest.raises(StalledError, match=message) as caught:
        await world.build(world.chart(**spec))

    assert caught.value.reason == "InvalidChartReference"
    assert indexed.seen == []


async def test_package_with_another_digest_is_refused(
    world: World, indexed: ChartRepository
) -> None:
    indexed.files["/charts/podinfo-6.1.0.tgz"] = package(chart(version="6.1.0", evil="x"))

    error = await refused(world, world.chart())

    assert error.reason == "ChartPullError"
    assert condition(world.current, "FetchFailed")[:2] == ("True", "ChartPullError")
    assert world.current.status.artifact is None


async def test_new_version_that_cannot_be_had_outdates_the_chart(
    world: World, indexed: ChartRepository
) -> None:
    obj, _ = await world.build(world.chart())
    indexed.add(version="6.2.0", files=chart(version="6.2.0"))
    indexed.files["/charts/podinfo-6.2.0.tgz"] = b"another"
    await world.index(world.repository(indexed.url))

    await refused(world, obj)

    new = ("True", "NewChart", "new upstream revision '6.2.0'")
    assert condition(world.current, "ArtifactOutdated") == new
    assert world.current.status.artifact is not None
    assert world.current.status.artifact.revision == "6.1.0"


@pytest.mark.parametrize(
    "content",
    [chart("podinfo", "6.0.9"), chart("other", "6.1.0")],
)
async def test_package_that_is_another_chart_than_the_index_says_is_refused(
    world: World, server: ChartRepository, content: Mapping[str, str]
) -> None:
    server.add(version="6.1.0", files=content)
    await world.index(world.repository(server.url))

    error = await refused(world, world.chart())

    assert error.reason == "ChartPullError"
    assert "expected the chart 'podinfo' in version '6.1.0'" in str(error)


async def test_package_that_is_none_is_refused(world: World, server: ChartRepository) -> None:
    server.add(digest="")
    server.files["/charts/podinfo-6.0.0.tgz"] = b"<html>"
    await world.index(world.repository(server.url))

    assert (await refused(world, world.chart())).reason == "ChartPackageError"


async def test_login_of_the_repository_is_used(world: World) -> None:
    world.secrets.values["login"] = {"username": b"me", "password": b"secret"}
    async with ChartRepository(login=("me", "secret")) as server:
        data = server.add()
        await world.index(world.repository(server.url, secret_ref="login"))

        await world.build(world.chart())

    assert await world.content() == data


async def test_signature_of_a_chart_over_http_cannot_be_demanded(
    world: World, indexed: ChartRepository
) -> None:
    verify = OCIVerification(secret_ref=LocalObjectReference(name="keys"))

    error = await refused(world, world.chart(verify=verify))

    assert isinstance(error, StalledError)
    assert error.reason == "ChartVerificationError"
    assert "type 'oci'" in str(error)
    assert condition(world.current, "SourceVerified")[0] == "False"
    assert indexed.seen == []


# What holds the chart


async def test_source_that_is_not_there_is_told(world: World) -> None:
    error = await refused(world, world.chart())

    assert (error.reason, str(error)) == (
        "SourceUnavailable",
        (
            "failed to get source: HelmRepository 'apps/charts' not found: create it, or correct "
            "sourceRef"
        ),
    )


@pytest.mark.parametrize("kind", ["HelmRepository", "GitRepository"])
async def test_source_without_an_artifact_is_waited_for(world: World, kind: str) -> None:
    world.repository("https://charts.test", name="code")
    git(world)

    with pytest.raises(WaitingError, match=f"no artifact available for {kind} source 'code'") as it:
        await world.build(world.chart(kind=kind, source="code"))

    assert it.value.reason == "NoSourceArtifact"


async def test_kind_that_holds_no_charts_is_refused(world: World) -> None:
    error = await refused(world, world.chart(kind="OCIRepository"))

    assert isinstance(error, StalledError)
    assert error.reason == "UnsupportedSourceKind"


def test_parent_is_the_source(world: World) -> None:
    obj = world.chart(kind="Bucket", source="files")

    assert list(helmchart.parents(obj)) == [("Bucket", "files")]


# Files


async def test_chart_in_a_directory_is_packaged(world: World, tmp_path: Path) -> None:
    await files(world, tmp_path, below("charts/app", chart()))

    obj, outcome = await world.build(
        world.chart("./charts/app", kind="GitRepository", source="code")
    )

    assert outcome.message == "packaged 'podinfo' chart with version '6.0.0'"
    assert obj.status.observed_chart_name == "podinfo"
    assert obj.status.observed_source_artifact_revision == MAIN
    assert "podinfo/templates/configmap.yaml" in members(await world.content())


async def test_package_among_files_is_taken_as_it_is(world: World, tmp_path: Path) -> None:
    data = package(chart())
    await files(world, tmp_path, {"app.tgz": data})

    _, outcome = await world.build(world.chart("app.tgz", kind="GitRepository", source="code"))

    assert outcome.message == "pulled 'podinfo' chart with version '6.0.0'"
    assert await world.content() == data


async def test_unchanged_files_are_not_unpacked_again(world: World, tmp_path: Path) -> None:
    await files(world, tmp_path, below("app", chart()))
    obj, before = await world.build(world.chart("app", kind="GitRepository", source="code"))
    world.workers.asked.clear()

    _, after = await world.build(obj)

    assert after == before
    assert world.workers.asked == []


async def test_new_revision_with_the_same_version_makes_no_new_artifact(
    world: World, tmp_path: Path
) -> None:
    await files(world, tmp_path, below("app", chart()))
    obj, _ = await world.build(world.chart("app", kind="GitRepository", source="code"))
    before = await world.content()
    await files(world, tmp_path, below("app", chart(README="new")), f"main@sha1:{SHA[::-1]}")

    await world.build(obj)

    assert await world.content() == before
    assert len(world.cluster.events) == 1


async def test_strategy_revision_makes_a_version_of_every_revision(
    world: World, tmp_path: Path
) -> None:
    spec: dict[str, Any] = {
        "kind": "GitRepository",
        "source": "code",
        "reconcile_strategy": "Revision",
    }
    await files(world, tmp_path, below("app", chart()))
    await world.build(world.chart("app", **spec))
    revision = f"feature/x@sha1:{SHA[::-1]}"
    await files(world, tmp_path, below("app", chart(README="new")), revision)

    obj, outcome = await world.build(world.chart("app", **spec))

    version = f"6.0.0+{SHA[::-1][:12]}"
    assert outcome.message == f"packaged 'podinfo' chart with version '{version}'"
    assert obj.status.artifact is not None
    assert obj.status.artifact.revision == version
    assert obj.status.observed_source_artifact_revision == revision


async def test_revision_and_generation_are_both_told_in_the_version(
    world: World, tmp_path: Path
) -> None:
    await files(world, tmp_path, below("app", chart()) | {"prod.yaml": "replicas: 9\n"})

    obj, _ = await world.build(
        world.chart(
            "app",
            kind="GitRepository",
            source="code",
            generation=3,
            reconcile_strategy="Revision",
            values_files=["app/values.yaml", "prod.yaml"],
        )
    )

    assert obj.status.artifact is not None
    assert obj.status.artifact.revision == f"6.0.0+{SHA[:12]}.3"
    values = yaml.safe_load(members(await world.content())["podinfo/values.yaml"])
    assert values == {"replicas": 9, "image": {"tag": "one", "pull": "Always"}}


async def test_bucket_gives_its_digest_to_the_version(world: World, tmp_path: Path) -> None:
    bucket = Bucket(
        metadata=ObjectMeta(namespace=NAMESPACE, name="files"),
        spec=BucketSpec(bucket_name="b", endpoint="s3.test", interval="1m"),
    )
    world.cluster.put(bucket)
    digest = "ab" * 32
    await world.source(bucket, write(tmp_path / "b", below("app", chart())), f"sha256:{digest}")

    obj, _ = await world.build(
        world.chart("app", kind="Bucket", source="files", reconcile_strategy="Revision")
    )

    assert obj.status.artifact is not None
    assert obj.status.artifact.revision == "6.0.0+abababababab"


async def test_other_chart_of_the_same_name_and_version_is_built(
    world: World, tmp_path: Path
) -> None:
    both = below("a", chart(README="a")) | below("b", chart(README="b"))
    await files(world, tmp_path, both)
    await world.build(world.chart("a", kind="GitRepository", source="code"))

    await world.build(world.chart("b", kind="GitRepository", source="code", generation=2))

    assert members(await world.content())["podinfo/README"] == b"b"


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("gone", "InvalidChartReference"),
        ("..", "InvalidChartReference"),
        ("../../../etc", "InvalidChartReference"),
        ("text", "ChartPackageError"),
        ("empty", "InvalidChartReference"),
    ],
)
async def test_what_is_no_chart_is_refused(
    world: World, tmp_path: Path, path: str, reason: str
) -> None:
    await files(world, tmp_path, {"text": "x", "empty/x": ""})

    error = await refused(world, world.chart(path, kind="GitRepository", source="code"))

    assert error.reason == reason


async def test_values_file_outside_is_refused(world: World, tmp_path: Path) -> None:
    await files(world, tmp_path, below("app", chart()))

    error = await refused(
        world,
        world.chart("app", kind="GitRepository", source="code", values_files=["../../secret"]),
    )

    assert error.reason == "ValuesFilesError"
    assert condition(world.current, "BuildFailed")[:2] == ("True", "ValuesFilesError")


# Dependencies


async def test_dependency_comes_from_a_repository_nobody_knows(
    world: World, tmp_path: Path, server: ChartRepository
) -> None:
    for version in ("1.0.0", "1.4.0", "2.0.0"):
        server.add("redis", version)
    await files(world, tmp_path, depending(server.url))

    await world.build(world.chart("app", kind="GitRepository", source="code"))

    content = members(await world.content())
    assert b"version: 1.4.0" in content["podinfo/charts/redis/Chart.yaml"]
    assert server.paths == ["/charts/index.yaml", "/charts/redis-1.4.0.tgz"]


@pytest.mark.parametrize("form", ["{url}", "{url}/", "@charts", "alias:charts"])
async def test_dependency_comes_from_a_repository_of_the_namespace(
    world: World, tmp_path: Path, form: str
) -> None:
    world.secrets.values["login"] = {"username": b"me", "password": b"secret"}
    async with ChartRepository(login=("me", "secret")) as server:
        server.add("redis", "1.0.0")
        await world.index(world.repository(server.url, secret_ref="login"))
        await files(world, tmp_path, depending(form.format(url=server.url)))
        server.seen.clear()

        await world.build(world.chart("app", kind="GitRepository", source="code"))

        assert server.paths == ["/charts/redis-1.0.0.tgz"]
    assert "podinfo/charts/redis/Chart.yaml" in members(await world.content())


@pytest.mark.parametrize(
    ("where", "message"),
    [
        (("@gone", "1.x"), "there is no HelmRepository 'apps/gone'"),
        (("{url}", "3.x"), "no 'redis' chart with version matching '3.x'"),
        (("http://127.0.0.1:1/charts", "1.x"), "127.0.0.1:1"),
        (("ftp://charts.test", "1.x"), "cannot be fetched"),
        (("", "1.x"), "names no repository"),
        (("file://../../etc", "1.x"), "points outside the source"),
    ],
)
async def test_dependency_that_cannot_be_had_is_told(
    world: World,
    tmp_path: Path,
    server: ChartRepository,
    where: tuple[str, str],
    message: str,
) -> None:
    server.add("redis", "1.0.0")
    await files(world, tmp_path, depending(where[0].format(url=server.url), where[1]))

    error = await refused(world, world.chart("app", kind="GitRepository", source="code"))

    assert error.reason == "DependencyBuildError"
    assert message in str(error)
    assert condition(world.current, "BuildFailed")[:2] == ("True", "DependencyBuildError")


async def test_dependencies_in_very_many_repositories_are_refused(
    world: World, tmp_path: Path, server: ChartRepository
) -> None:
    server.add("redis", "1.0.0")
    lines = "".join(
        f"- {{name: redis, alias: r{number}, version: 1.x, repository: '{server.url}?{number}'}}\n"
        for number in range(MAX_INDEXES + 1)
    )
    await files(world, tmp_path, below("app", chart(extra=f"dependencies:\n{lines}")))

    error = await refused(world, world.chart("app", kind="GitRepository", source="code"))

    assert f"more than {MAX_INDEXES} repositories" in str(error)
    assert server.paths.count("/charts/index.yaml") == MAX_INDEXES


async def test_index_is_fetched_once_for_several_dependencies(
    world: World, tmp_path: Path, server: ChartRepository
) -> None:
    server.add("redis", "1.0.0")
    server.add("mysql", "1.0.0")
    listed = "".join(
        f"- {{name: {name}, repository: '{server.url}'}}\n" for name in ("redis", "mysql")
    )
    await files(world, tmp_path, below("app", chart(extra=f"dependencies:\n{listed}")))

    await world.build(world.chart("app", kind="GitRepository", source="code"))

    assert server.paths.count("/charts/index.yaml") == 1
    assert "podinfo/charts/mysql/Chart.yaml" in members(await world.content())


async def test_dependency_with_another_digest_is_refused(
    world: World, tmp_path: Path, server: ChartRepository
) -> None:
    server.add("redis", "1.0.0", digest="0" * 64)
    await files(world, tmp_path, depending(server.url))

    error = await refused(world, world.chart("app", kind="GitRepository", source="code"))

    assert error.reason == "DependencyBuildError"
    assert "not that of the index" in str(error)
