"""For how long an answer counts, on a clock that the test moves."""

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from aiohttp import web

from tests.fakes import admission, imagescene
from tests.fakes.admission import NAMESPACE
from tests.fakes.cosignscene import pem
from tests.fakes.imagescene import STRANGER, ImageScene, texts
from tests.fakes.registry import FakeRegistry
from toolkit.errors import PenstockError
from toolkit.imagetrust.trust import SECONDS
from toolkit.turns import Turns
from webhooks.imageregistries import PAUSE_SECONDS, TAG_SECONDS
from webhooks.plugin import DeniedError


class Loop(asyncio.SelectorEventLoop):
    """Tells the time as it is, and ``late`` seconds more."""

    late = 0.0

    def time(self) -> float:
        return super().time() + self.late


class Part(Protocol):
    """Gets a scene, and the loop that it may make late."""

    def __call__(self, scene: ImageScene, loop: Loop) -> Coroutine[Any, Any, None]: ...


def play(test: Part) -> None:
    """Run a test with a scene of its own."""

    async def run() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, Loop)
        async with FakeRegistry() as registry, imagescene.running(registry) as scene:
            await test(scene, loop)

    with asyncio.Runner(loop_factory=Loop) as runner:
        runner.run(run())


@dataclass
class Silence:
    """A registry that does not answer for images of acme; ``asked`` is set when it should."""

    asked: asyncio.Event = field(default_factory=asyncio.Event)

    async def __call__(self, request: web.Request, _: str) -> None:
        if "/acme/" in request.path:
            self.asked.set()
            await asyncio.sleep(3600)


def test_tag_is_resolved_anew_after_seconds() -> None:
    async def test(scene: ImageScene, loop: Loop) -> None:
        scene.signed("acme/app")
        scene.require("acme/*")
        await scene.admit(scene.pod("acme/app:v1"))
        moved = scene.signed("acme/app", "v1", b"moved")
        loop.late += TAG_SECONDS

        stored = await scene.admit(scene.pod("acme/app:v1"))

        assert texts(stored) == [f"{scene.name('acme/app:v1')}@{moved}"]

    assert TAG_SECONDS <= 30
    play(test)


def test_key_that_is_taken_away_counts_for_seconds_only() -> None:
    async def test(scene: ImageScene, loop: Loop) -> None:
        digest = scene.signed("acme/app")
        scene.require("acme/*")
        await scene.admit(scene.pod(f"acme/app@{digest}"))
        scene.secret("keys", {"cosign.pub": pem(STRANGER)}, NAMESPACE)
        loop.late += SECONDS

        assert "step 5" in str(await scene.refusal(scene.pod(f"acme/app@{digest}")))

    play(test)


async def unanswered(scene: ImageScene, loop: Loop) -> PenstockError:
    """Have the registry say nothing of a Pod's image, and return what becomes of the Pod."""
    scene.signed("acme/app")
    scene.require("acme/*")
    scene.registry.faults.hook = silence = Silence()
    waiting = asyncio.create_task(scene.refusal(scene.pod("acme/app:v1"), seconds=600))
    await silence.asked.wait()
    loop.late += 599.5
    return await waiting


def test_slow_registry_is_denied_before_the_deadline_with_image_and_remedy() -> None:
    async def test(scene: ImageScene, loop: Loop) -> None:
        refusal = await unanswered(scene, loop)

        assert isinstance(refusal, DeniedError)
        assert refusal.code == 503
        assert f"container 'c0': image '{scene.name('acme/app:v1')}': " in str(refusal)
        assert "in time" in str(refusal)
        assert "try again" in str(refusal)

    play(test)


def test_slow_registry_holds_no_place_of_the_gate() -> None:
    async def test(scene: ImageScene, loop: Loop) -> None:
        del loop
        scene.require("acme/*")
        scene.signed("acme/app")
        scene.registry.faults.hook = silence = Silence()
        turns = Turns(places=1, waiting=1)

        async def review() -> None:
            asked = admission.request(scene.pod("acme/app:v1"), seconds=600)
            async with turns.turn("apps") as place:
                await scene.pinning.review(replace(asked, place=place))

        waiting = asyncio.create_task(review())
        await silence.asked.wait()
        assert (turns.running, waiting.done()) == (0, False)
        waiting.cancel()
        await asyncio.wait([waiting])
        assert (turns.running, turns.waiting) == (0, 0)

    play(test)


def test_slow_registry_is_asked_again_after_a_pause() -> None:
    async def test(scene: ImageScene, loop: Loop) -> None:
        await unanswered(scene, loop)
        before = scene.asked

        at_once = str(await scene.refusal(scene.pod("acme/app:v2"), seconds=600))

        assert "did not respond in time a moment ago" in at_once
        assert scene.asked == before
        scene.registry.faults.hook = None
        loop.late += PAUSE_SECONDS
        await scene.admit(scene.pod("acme/app:v1"))

    play(test)
