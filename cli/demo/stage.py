"""The environment of the story: cluster, Penstock, Git server, kubectl, and a watch client."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from cli import errors, session, status, watching
from cli.demo import gitserver, narration, registry, sample
from cli.demo.kubectl import Kubectl
from cli.demo.repository import Repository
from cli.demo.signing import Author
from cli.stack import cluster, stack
from toolkit.kube import client, config
from toolkit.objects import Json, ObjectRef

PATIENCE: Final = 60.0
"""Seconds that any step may take."""
_LOOK: Final = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """Everything that a chapter uses."""

    cluster: cluster.Cluster
    penstock: stack.Stack
    kubectl: Kubectl
    repository: Repository
    author: Author
    url: str
    registry: str
    session: session.Session

    async def until(
        self, ref: ObjectRef, verdict: Callable[[Json | None], bool], what: str
    ) -> Json:
        """Wait on a watch until ``verdict``; an empty object represents a deleted one."""
        return await watching.until(self.session, ref, verdict, what=what) or {}

    async def push(self) -> None:
        """Tell Penstock that something was pushed, as a webhook of the Git host would."""
        moment = datetime.now(UTC).isoformat()
        body: Json = {"metadata": {"annotations": {status.REQUESTED_AT: moment}}}
        ref = sample.GIT_REPOSITORY
        await self.session.api.patch(ref.gvk, ref.name, ref.namespace, body, strategy="merge")

    async def suspend(self, *, suspended: bool) -> None:
        """Suspend the Kustomization, or resume it.

        On return its reconciler knows that it is suspended; before, it would still correct drift.
        """
        ref, before = sample.KUSTOMIZATION, self._suspensions()
        body: Json = {"spec": {"suspend": suspended}}
        await self.session.api.patch(ref.gvk, ref.name, ref.namespace, body, strategy="merge")
        try:
            async with asyncio.timeout(PATIENCE):
                while suspended and self._suspensions() == before:  # noqa: ASYNC110 - a file
                    await asyncio.sleep(_LOOK)
        except TimeoutError as exc:
            raise errors.DeadlineError(
                f"{ref} is not known to be suspended within {PATIENCE:.0f}s"
            ) from exc

    def _suspensions(self) -> int:
        """Return the number of skipped reconciliations, which the status does not show."""
        lines = self.penstock.log("kustomize").read_text().splitlines()
        return sum("suspended for this object" in line for line in lines)

    async def applied(self, commit: str) -> Json:
        """Wait until the Kustomization is Ready at this commit."""

        def verdict(obj: Json | None) -> bool:
            at_commit = status.revision(obj or {}).endswith(commit)
            return obj is not None and status.settled(obj) and at_commit

        return await self.until(
            sample.KUSTOMIZATION, verdict, f"commit {commit[:8]} has not been applied"
        )


@asynccontextmanager
async def build(directory: Path, *, name: str) -> AsyncIterator[Stage]:
    """Start everything and report slow steps; stop everything at the end of the block."""
    said: list[str] = []
    async with AsyncExitStack() as exits:
        narration.chapter("A cluster on this machine, and Penstock on it")
        with narration.step("etcd, kube-apiserver, controller-manager, scheduler, kwok"):
            plane = await exits.enter_async_context(
                cluster.chosen(None, context="", name=name, report=said.append)
            )
        options = stack.Options(
            components=stack.EVERYTHING, context=plane.context, report=said.append
        )
        with narration.step("Penstock: CRDs, RBAC, controllers ready, gate armed"):
            penstock = await exits.enter_async_context(
                stack.start(plane.kubeconfig, state=directory, options=options)
            )
        with narration.step("a Git repository, served over smart HTTP on loopback") as clock:
            root = directory / "git"
            repository = await Repository.create(root, "shop")
            server = await exits.enter_async_context(gitserver.serve(root / "served"))
            clock.note = server.url("shop.git")
        host = await exits.enter_async_context(registry.serve())
        admin = config.from_environment(str(plane.kubeconfig), context=plane.context)
        api = await exits.enter_async_context(client.Client.open(admin))
        yield Stage(
            cluster=plane,
            penstock=penstock,
            kubectl=Kubectl(
                program=plane.kubectl,
                kubeconfig=plane.kubeconfig,
                context=plane.context,
                patience=PATIENCE,
            ),
            repository=repository,
            author=Author(name="ada@example.com"),
            url=server.url("shop.git"),
            registry=host,
            session=session.Session(api=api, namespace=sample.NAMESPACE, timeout=PATIENCE),
        )
