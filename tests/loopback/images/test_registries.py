"""How registries are asked: how often, signed in as whom, and what a bad one can do."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest
import trustme
from aiohttp import web

from tests.fakes import imagescene
from tests.fakes.admission import NAMESPACE
from tests.fakes.imagescene import ImageScene, texts, verifier
from tests.fakes.registry import FakeRegistry
from tests.fakes.serving import certified
from toolkit.verify.verifications import REFUSAL_SECONDS
from webhooks.plugin import DeniedError

LOGIN = ("puller", "hush")
CONFIG = ".dockerconfigjson"


@pytest.fixture
async def private() -> AsyncIterator[ImageScene]:
    async with FakeRegistry(basic=LOGIN) as registry, imagescene.running(registry) as running:
        running.signed("acme/app")
        running.require("acme/*")
        yield running


def logins(scene: ImageScene, password: str = LOGIN[1]) -> Mapping[str, bytes]:
    return {CONFIG: scene.registry.dockerconfig(LOGIN[0], password)}


async def test_signed_image_asks_its_registry_once_however_often_it_is_used(
    scene: ImageScene,
) -> None:
    digest = scene.signed("acme/app")
    scene.require("acme/*")
    await scene.admit(scene.pod("acme/app:v1"))
    first = scene.asked

    for _ in range(300):
        await scene.admit(scene.pod(f"acme/app:v1@{digest}"))

    assert scene.asked == first


async def test_tag_is_not_resolved_again_within_seconds(scene: ImageScene) -> None:
    scene.signed("acme/app")
    scene.require("acme/*")
    await scene.admit(scene.pod("acme/app:v1"))
    before, read = scene.asked, len(scene.api.requests)

    for _ in range(100):
        await scene.admit(scene.pod("acme/app:v1"))

    assert scene.asked == before
    assert len(scene.api.requests) == read


async def test_pods_that_come_at_once_ask_once(scene: ImageScene) -> None:
    scene.signed("acme/app")
    scene.require("acme/*")
    await scene.admit(scene.pod("acme/app:v1"))
    alone = scene.asked
    scene.signed("acme/other")

    await asyncio.gather(*(scene.admit(scene.pod("acme/other:v1")) for _ in range(200)))

    assert scene.asked == 2 * alone


async def test_image_that_any_of_several_may_sign_asks_once() -> None:
    now = 0.0
    async with (
        FakeRegistry() as registry,
        imagescene.running(registry, clock=lambda: now) as scene,
    ):
        digest = scene.signed("acme/app")
        verifiers = [verifier("none", "strangers"), verifier("release")]
        scene.require("acme/*", verifiers=verifiers, required=1)
        await scene.admit(scene.pod(f"acme/app@{digest}"))
        before = scene.asked
        now += REFUSAL_SECONDS + 1

        await scene.admit(scene.pod(f"acme/app@{digest}"))

        assert scene.asked == before


async def test_pull_secret_of_the_pod_signs_in(private: ImageScene) -> None:
    private.secret("login", logins(private))

    await private.admit(private.pod("acme/app:v1", imagePullSecrets=[{"name": "login"}]))


async def test_pull_secret_of_the_account_signs_in(private: ImageScene) -> None:
    private.secret("login", logins(private))
    private.api.put("serviceaccounts", "runner", "apps", imagePullSecrets=[{"name": "login"}])

    await private.admit(private.pod("acme/app:v1", serviceAccountName="runner"))


async def test_secret_of_the_policy_signs_in(private: ImageScene) -> None:
    private.secret("platform", logins(private), NAMESPACE)
    private.require("acme/*", registry={"insecure": True, "secretRef": {"name": "platform"}})

    await private.admit(private.pod("acme/app:v1"))


@pytest.mark.parametrize("names", [["missing", "login"], ["opaque", "login"]])
async def test_pull_secret_that_holds_no_login_is_passed_over(
    private: ImageScene, names: list[str]
) -> None:
    private.secret("opaque", {"key": b"value"})
    private.secret("login", logins(private))
    listed = [{"name": name} for name in names]

    await private.admit(private.pod("acme/app:v1", imagePullSecrets=listed))


async def test_pull_secret_that_cannot_be_read_is_not_passed_over(private: ImageScene) -> None:
    private.secret("login", logins(private))
    private.api.fail("GET", "/secrets/login", 403, times=99)

    refusal = await private.refusal(
        private.pod("acme/app:v1", imagePullSecrets=[{"name": "login"}])
    )

    assert "fake 403" in str(refusal)
    assert "asks for credentials" not in str(refusal)


async def test_secret_of_another_namespace_is_not_used(private: ImageScene) -> None:
    private.secret("login", logins(private), "other")

    refusal = await private.refusal(
        private.pod("acme/app:v1", imagePullSecrets=[{"name": "login"}])
    )

    assert isinstance(refusal, DeniedError)
    assert refusal.code == 503
    assert "asks for credentials" in str(refusal)


@pytest.mark.parametrize(
    "data", [b"{", b'{"auths": {"HOST": {"auth": "!"}}}'], ids=["no-json", "no-login"]
)
async def test_malformed_pull_secret_is_told_without_what_it_holds(
    private: ImageScene, data: bytes
) -> None:
    private.secret("login", {CONFIG: data.replace(b"HOST", private.registry.host.encode())})

    refusal = str(
        await private.refusal(private.pod("acme/app:v1", imagePullSecrets=[{"name": "login"}]))
    )

    assert f"cannot sign in at '{private.registry.host}'" in refusal


async def test_refused_login_is_told_without_the_password(private: ImageScene) -> None:
    private.secret("login", logins(private, "wrong-secret"))

    refusal = str(
        await private.refusal(private.pod("acme/app:v1", imagePullSecrets=[{"name": "login"}]))
    )

    assert "refused the credentials" in refusal
    assert "wrong-secret" not in refusal


@pytest.mark.parametrize("trusted", [True, False])
async def test_authority_of_a_registry_is_trusted_where_the_policy_says(*, trusted: bool) -> None:
    authority = trustme.CA()
    context = certified(authority, "localhost")
    async with FakeRegistry(tls=context) as registry, imagescene.running(registry) as scene:
        scene.signed("acme/app")
        scene.secret("authority", {"ca.crt": authority.cert_pem.bytes()}, NAMESPACE)
        scene.require(
            "acme/*", registry={"certSecretRef": {"name": "authority"}} if trusted else {}
        )

        if trusted:
            await scene.admit(scene.pod("acme/app:v1"))
        else:
            refusal = str(await scene.refusal(scene.pod("acme/app:v1")))
            assert "TLS connection to" in refusal


@pytest.mark.parametrize("kind", ["manifests", "referrers", "blobs"])
async def test_registry_error_is_never_taken_for_unsigned(scene: ImageScene, kind: str) -> None:
    scene.signed("acme/app")
    scene.require("acme/*")
    scene.registry.faults.statuses = [(kind, 500, {})] * 9

    refusal = await scene.refusal(scene.pod("acme/app:v1"))

    assert isinstance(refusal, DeniedError)
    assert refusal.code == 503
    assert "HTTP 500" in str(refusal)
    assert "whether it is signed could not be found out: try again" in str(refusal)


async def test_error_is_not_kept(scene: ImageScene) -> None:
    scene.signed("acme/app")
    scene.require("acme/*")
    scene.registry.faults.statuses = [("manifests", 500, {})]
    await scene.refusal(scene.pod("acme/app:v1"))

    await scene.admit(scene.pod("acme/app:v1"))


async def test_registry_that_asks_for_patience_is_left_alone(scene: ImageScene) -> None:
    scene.signed("acme/app")
    scene.require("acme/*")
    scene.registry.faults.statuses = [("manifests", 429, {"Retry-After": "600"})]
    await scene.refusal(scene.pod("acme/app:v1"))
    before = scene.asked

    refusal = str(await scene.refusal(scene.pod("acme/app:v1")))

    assert "asked for a pause of" in refusal
    assert scene.asked == before


async def test_slow_registry_holds_up_no_other_namespace(scene: ImageScene) -> None:
    scene.signed("acme/app")
    scene.signed("good/app")
    scene.require("**")
    asked, other = asyncio.Event(), scene.pod("good/app:v1")
    scene.api.put("namespaces", "others", "", metadata={"labels": {}})
    other["metadata"]["namespace"] = "others"

    async def hang(request: web.Request, _: str) -> None:
        if "/acme/" in request.path:
            asked.set()
            await asyncio.sleep(3600)

    scene.registry.faults.hook = hang
    pods = [scene.pod(f"acme/app{number}:v1") for number in range(100)]
    async with asyncio.TaskGroup() as group:
        waiting = [group.create_task(scene.refusal(pod, seconds=600.0)) for pod in pods]
        await asked.wait()

        stored = await scene.admit(other)

        assert "@sha256:" in texts(stored)[0]
        assert not any(task.done() for task in waiting)
        for task in waiting:
            task.cancel()


async def test_conversations_of_a_namespace_are_bounded(scene: ImageScene) -> None:
    running, most = 0, 0

    async def count(*_: Any) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.002)
        running -= 1

    scene.registry.faults.hook = count
    names = [f"acme/app{number}" for number in range(100)]
    for name in names:
        scene.signed(name, content=name.encode())
    scene.require("acme/*")

    stored = await scene.admit(scene.pod(*(f"{name}:v1" for name in names)))

    assert all("@sha256:" in text for text in texts(stored))
    assert 1 < most <= 8
