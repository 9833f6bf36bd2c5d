"""A HelmChart's passes over a registry: versions are tags, and the digest is what counts."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from controllers.source import signatures
from crds.meta import LocalObjectReference
from crds.source_helm import HelmRepository
from crds.source_parts import OCIVerification
from tests.fakes.charts import chart, members, package
from tests.fakes.chartscene import World, depending, files, refused
from tests.fakes.passes import condition
from tests.fakes.registry import HELM_CONFIG, HELM_CONTENT, FakeRegistry
from toolkit.chart import limits
from toolkit.chart.errors import ChartPullError
from toolkit.errors import StalledError
from toolkit.verify.signature import VerificationError


def push(
    registry: FakeRegistry,
    version: str,
    *,
    name: str = "podinfo",
    tag: str = "",
    data: bytes | None = None,
    **options: Any,
) -> str:
    """Push a chart as ``helm push`` does, and return its digest."""
    if data is None:
        data = package(chart(name, version), folder=name)
    options = {"media_type": HELM_CONTENT, "config_type": HELM_CONFIG} | options
    provenance = registry.put_blob(b"p", "application/vnd.cncf.helm.chart.provenance.v1.prov")
    layers = [provenance, registry.put_blob(data, options["media_type"])]
    where = tag or version.replace("+", "_")
    descriptor = registry.push(f"charts/{name}", where, layers, **options)
    return str(descriptor["digest"])


def settings(world: World, registry: FakeRegistry, **spec: Any) -> HelmRepository:
    """Create the HelmRepository of type oci."""
    url = f"oci://{registry.host}/charts"
    return world.repository(url, type="oci", insecure=True, **spec)


def requests(registry: FakeRegistry) -> list[str]:
    return [f"{seen.method} {seen.path.rpartition('podinfo/')[2]}" for seen in registry.seen]


async def test_version_is_pulled(world: World, registry: FakeRegistry) -> None:
    push(registry, "6.0.0")
    settings(world, registry)

    obj, outcome = await world.build(world.chart(version="6.0.0"))

    assert outcome.message == "pulled 'podinfo' chart with version '6.0.0'"
    assert obj.status.artifact is not None
    assert obj.status.artifact.path == "helmchart/apps/app/podinfo-6.0.0.tgz"
    assert await world.content() == package(chart())


async def test_unchanged_version_costs_one_head(world: World, registry: FakeRegistry) -> None:
    push(registry, "6.0.0")
    settings(world, registry)
    obj, _ = await world.build(world.chart(version="6.0.0"))
    registry.seen.clear()

    await world.build(obj)

    assert requests(registry) == ["HEAD manifests/6.0.0"]


async def test_unchanged_range_costs_one_list(world: World, registry: FakeRegistry) -> None:
    for version in ("6.0.0", "6.1.0+build.1", "7.0.0-rc.1"):
        push(registry, version)
    push(registry, "9.9.9", tag="latest")
    settings(world, registry)
    obj, outcome = await world.build(world.chart(version="6.x"))
    registry.seen.clear()

    await world.build(obj)

    assert outcome.message == "pulled 'podinfo' chart with version '6.1.0+build.1'"
    assert requests(registry) == ["GET tags/list?n=1000"]


async def test_tag_that_moves_is_pulled_again(world: World, registry: FakeRegistry) -> None:
    push(registry, "6.0.0")
    settings(world, registry)
    obj, _ = await world.build(world.chart(version="6.0.0"))
    moved = package(chart(README="moved"))
    push(registry, "6.0.0", data=moved)

    await world.build(obj)

    assert await world.content() == moved


async def test_tag_that_moves_during_a_pass_changes_nothing(
    world: World, registry: FakeRegistry
) -> None:
    push(registry, "6.0.0")
    settings(world, registry)

    async def move(_request: Any, kind: str) -> None:
        if kind == "manifests" and len(registry.seen) > 1:
            push(registry, "6.0.0", data=package(chart(README="moved")))

    registry.faults.hook = move

    await world.build(world.chart(version="6.0.0"))

    assert await world.content() == package(chart())


@pytest.mark.parametrize(
    ("secret", "reason"),
    [
        ({"username": b"me", "password": b"secret"}, ""),
        ({"username": b"me", "password": b"wrong"}, "AuthenticationFailed"),
        ({".dockerconfigjson": b"{}"}, "AuthenticationFailed"),
    ],
)
async def test_login_comes_from_the_secret(
    world: World, secret: dict[str, bytes], reason: str
) -> None:
    world.secrets.values["login"] = secret
    async with FakeRegistry(bearer=("me", "secret")) as registry:
        push(registry, "6.0.0")
        settings(world, registry, secret_ref="login")
        obj = world.chart(version="6.0.0")
        if not reason:
            assert (await world.build(obj))[0].status.artifact
            return
        assert (await refused(world, obj)).reason == reason


async def test_docker_config_is_a_login(world: World) -> None:
    async with FakeRegistry(basic=("me", "secret")) as registry:
        config = registry.dockerconfig("me", "secret")
        world.secrets.values["login"] = {".dockerconfigjson": config}
        push(registry, "6.0.0")
        settings(world, registry, secret_ref="login")

        obj, _ = await world.build(world.chart(version="6.0.0"))

    assert obj.status.artifact


@pytest.mark.parametrize(
    ("version", "reason", "message"),
    [
        ("9.9.9", "ChartPullError", "cannot be pulled"),
        (">9", "ChartPullError", "has no tag with a version matching '>9'"),
        ("no range", "InvalidChartReference", "spec.version"),
    ],
)
async def test_version_that_is_not_there_is_told(
    world: World, registry: FakeRegistry, version: str, reason: str, message: str
) -> None:
    push(registry, "6.0.0")
    settings(world, registry)

    error = await refused(world, world.chart(version=version))

    assert error.reason == reason
    assert message in str(error)
    assert isinstance(error, StalledError) is (reason == "InvalidChartReference")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"config_type": "application/vnd.oci.image.config.v1+json"}, "is not a Helm chart"),
        ({"media_type": "application/octet-stream"}, "no layer with a chart"),
        ({"data": package(chart("podinfo", "6.0.9"))}, "expected the chart 'podinfo'"),
        ({"data": package(chart("other", "6.0.0"))}, "expected the chart 'podinfo'"),
        ({"data": bytes(limits.CHART_BYTES + 1)}, str(limits.CHART_BYTES)),
    ],
)
async def test_artifact_that_is_not_the_chart_is_refused(
    world: World, registry: FakeRegistry, options: Any, message: str
) -> None:
    push(registry, "6.0.0", **options)
    settings(world, registry)

    error = await refused(world, world.chart(version="6.0.0"))

    assert error.reason == "ChartPullError"
    assert message in str(error)


async def test_name_that_is_no_repository_is_refused(world: World, registry: FakeRegistry) -> None:
    settings(world, registry)

    error = await refused(world, world.chart("../Other?x", version="6.0.0"))

    assert isinstance(error, StalledError)
    assert error.reason == "URLInvalid"
    assert registry.seen == []


# Signatures


@pytest.fixture
def signed_only(world: World) -> OCIVerification:
    """Return what demands a signature by a key in a Secret."""
    world.secrets.values["keys"] = {"me.pub": PUBLIC}
    return OCIVerification(secret_ref=LocalObjectReference(name="keys"))


PUBLIC = b"""-----BEGIN PUBLIC KEY-----
MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEaxfR8uEsQkf4vOblY6RA8ncDfYEt
6zOg9KE5RdiYwpZP40Li/hp/m47n60p8D54WK84zV2sxXs7LtkBoN79R9Q==
-----END PUBLIC KEY-----
"""


async def test_digest_that_is_pulled_is_the_one_that_was_verified(
    world: World, registry: FakeRegistry, signed_only: OCIVerification
) -> None:
    digest = push(registry, "6.0.0")
    world.signatures.signed.add(digest)
    settings(world, registry)

    obj, _ = await world.build(world.chart(version="6.x", verify=signed_only))

    assert world.signatures.asked == [digest]
    assert f"GET manifests/{digest}" in requests(registry)
    assert condition(obj, "SourceVerified") == ("True", "Succeeded", "signed by me")
    assert obj.status.artifact is not None
    trust = (await policy(world, signed_only)).trust
    assert obj.status.artifact.metadata["source.penstock.dev/trust"].split()[0] == trust


async def test_proof_that_is_over_is_made_again_without_a_pull(
    world: World, registry: FakeRegistry, signed_only: OCIVerification
) -> None:
    digest = push(registry, "6.0.0")
    world.signatures.signed.add(digest)
    world.signatures.until = datetime.now(UTC) - timedelta(minutes=1)
    settings(world, registry)
    obj, _ = await world.build(world.chart(version="6.0.0", verify=signed_only))
    registry.seen.clear()

    await world.build(obj)
    world.signatures.signed.clear()
    with pytest.raises(VerificationError, match="step 2"):
        await world.build(obj)

    assert world.signatures.asked == [digest] * 3
    assert set(requests(registry)) == {"HEAD manifests/6.0.0"}
    assert world.current.status.artifact is None


async def policy(world: World, verify: OCIVerification) -> signatures.Policy:
    secrets: Any = world.secrets
    return await signatures.policy(secrets, "apps", verify)


async def test_chart_that_is_not_signed_is_not_pulled(
    world: World, registry: FakeRegistry, signed_only: OCIVerification
) -> None:
    push(registry, "6.0.0")
    settings(world, registry)

    with pytest.raises(VerificationError, match="step 2: nobody signed it") as caught:
        await world.build(world.chart(version="6.0.0", verify=signed_only))

    assert caught.value.reason == "ChartVerificationError"
    assert condition(world.current, "SourceVerified")[:2] == ("False", "ChartVerificationError")
    assert requests(registry) == ["HEAD manifests/6.0.0"]


async def test_proof_ends_at_the_timeout(
    world: World, registry: FakeRegistry, signed_only: OCIVerification
) -> None:
    push(registry, "6.0.0")
    settings(world, registry, timeout="3s")
    world.signatures.endless = True

    with pytest.raises(ChartPullError, match="proof of its signature did not come"):
        await world.build(world.chart(version="6.0.0", verify=signed_only))


async def test_stored_chart_goes_when_its_signature_is_demanded_and_missing(
    world: World, registry: FakeRegistry, signed_only: OCIVerification
) -> None:
    push(registry, "6.0.0")
    settings(world, registry)
    await world.build(world.chart(version="6.0.0"))

    await refused(world, world.chart(version="6.0.0", verify=signed_only, generation=2))

    assert world.current.status.artifact is None


@pytest.mark.parametrize("version", ["6.0.0", "6.x"])
async def test_stored_chart_goes_when_its_signature_is_demanded_and_its_tag_is_gone(
    world: World, registry: FakeRegistry, signed_only: OCIVerification, version: str
) -> None:
    push(registry, "6.0.0")
    settings(world, registry)
    await world.build(world.chart(version=version))
    push(registry, "5.0.0")
    del registry.tags["charts/podinfo"]["6.0.0"]

    without = await refused(world, world.chart(version=version))
    before = world.current.status.artifact
    demanded = await refused(world, world.chart(version=version, verify=signed_only, generation=2))

    assert (without.reason, demanded.reason) == ("ChartPullError", "ChartVerificationError")
    assert before is not None
    assert world.current.status.artifact is None


async def test_range_notices_that_a_signed_tag_has_moved(
    world: World, registry: FakeRegistry, signed_only: OCIVerification
) -> None:
    world.signatures.signed.add(push(registry, "6.0.0"))
    settings(world, registry)
    obj, _ = await world.build(world.chart(version="6.x", verify=signed_only))
    push(registry, "6.0.0", data=package(chart(README="moved")))

    with pytest.raises(VerificationError):
        await world.build(obj)


async def test_keys_that_are_none_are_a_failure_of_verification(
    world: World, registry: FakeRegistry, signed_only: OCIVerification
) -> None:
    world.secrets.values["keys"] = {"me.pub": b"no key"}
    push(registry, "6.0.0")
    settings(world, registry)

    error = await refused(world, world.chart(version="6.0.0", verify=signed_only))

    assert error.reason == "ChartVerificationError"
    assert registry.seen == []


# Dependencies


async def test_dependency_is_pulled_with_the_settings_of_its_repository(
    world: World, registry: FakeRegistry, tmp_path: Path
) -> None:
    for version in ("1.0.0", "1.2.0", "2.0.0"):
        push(registry, version, name="redis")
    settings(world, registry)
    await files(world, tmp_path, depending(f"oci://{registry.host}/charts/"))

    await world.build(world.chart("app", kind="GitRepository", source="code"))

    content = members(await world.content())
    assert b"version: 1.2.0" in content["podinfo/charts/redis/Chart.yaml"]


async def test_dependency_in_a_registry_nobody_knows_needs_tls(
    world: World, registry: FakeRegistry, tmp_path: Path
) -> None:
    await files(world, tmp_path, depending(f"oci://{registry.host}/charts"))

    error = await refused(world, world.chart("app", kind="GitRepository", source="code"))

    assert error.reason == "DependencyBuildError"
    assert registry.seen == []
