"""A cluster of Flux with its fleet, and a user who takes both to Penstock and back.

Flux's controllers are Deployments whose pods kwok runs. Those of Penstock are installed in the same
way, and the processes that do the work run on this machine, under the accounts that were installed.
"""

import asyncio
import json
import os
import sys
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path

from cli.installing import flux
from cli.stack import stack as stacks
from controlplane.plane import ControlPlane
from tests.fakes import fluxinstallation
from tests.fakes.fluxfleet import GIT_REPOSITORY, KUSTOMIZATION, Fleet
from tests.tools.waiting import until
from toolkit.kube.client import Client
from toolkit.kube.errors import NotFoundError
from toolkit.objects import GroupVersionKind, Json, dig

ROOT = Path(__file__).parents[2]
FLUX, PENSTOCK = "flux-system", "penstock-system"
CONTROLLERS = ("source", "kustomize")
DEPLOYMENT = GroupVersionKind("apps", "v1", "Deployment")
CONFIG_MAP = GroupVersionKind("", "v1", "ConfigMap")
POLICY = GroupVersionKind("networking.k8s.io", "v1", "NetworkPolicy")
BINDING = GroupVersionKind("rbac.authorization.k8s.io", "v1", "ClusterRoleBinding")
DEFINITION = GroupVersionKind("apiextensions.k8s.io", "v1", "CustomResourceDefinition")
NAMESPACE = GroupVersionKind("", "v1", "Namespace")
REPLACED = {name for name in fluxinstallation.CONTROLLERS if flux.is_replaced(name)}
CRD = f"kustomizations.{KUSTOMIZATION.group}"
STATE = "penstock-migration"
ANNOTATION = "kustomize.toolkit.fluxcd.io/reconcile"


@dataclass(frozen=True)
class Result:
    """What one run of the command gave."""

    code: int
    out: str
    err: str


@dataclass(frozen=True, kw_only=True)
class Walk:
    """The cluster, its fleet, and the command of its administrator."""

    plane: ControlPlane
    api: Client
    fleet: Fleet
    directory: Path
    program: tuple[str | Path, ...] = (sys.executable, "-m", "cli")
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    place: Path = ROOT

    async def begin(self, *arguments: str) -> asyncio.subprocess.Process:
        """Start ``penstock migrate --from-flux``."""
        return await asyncio.create_subprocess_exec(
            *(*self.program, "migrate", "--from-flux", *arguments),
            env={**self.environment, "KUBECONFIG": str(self.plane.kubeconfig)},
            cwd=self.place,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )

    async def migrate(self, *arguments: str) -> Result:
        """Run it to its end."""
        process = await self.begin(*arguments)
        out, err = await process.communicate()
        return Result(process.returncode or 0, out.decode(), err.decode())

    async def killed(self, *arguments: str, within: str) -> None:
        """Kill it once it remembers that it has begun a step."""
        process = await self.begin("--silent", *arguments)

        async def begun() -> bool:
            found = await self.api.get(CONFIG_MAP, STATE, FLUX)
            return within in json.loads(found["data"]["state.json"])["done"]

        await until(begun)
        process.kill()
        await process.communicate()

    async def done(self, *arguments: str) -> Result:
        """Run it without a question, and require that it worked."""
        result = await self.migrate("--silent", *arguments)
        assert result.code == 0, result.out + result.err
        return result

    def running(self, *more: str) -> AbstractAsyncContextManager[stacks.Stack]:
        """Run the controllers of Penstock, and more of its processes."""
        components = (*CONTROLLERS, *more)
        quick = ("--min-retry-delay=200ms", "--max-retry-delay=2s")
        options = stacks.Options(
            namespace=PENSTOCK,
            components=components,
            flags=dict.fromkeys(components, quick),
            report=lambda _: None,
        )
        state = self.directory / f"state-{len(list(self.directory.iterdir()))}"
        return stacks.start(self.plane.kubeconfig, state=state, options=options)

    async def workloads(self) -> dict[str, tuple[str, int]]:
        """Return uid and generation of every Deployment of the fleet."""
        found = await self.api.list(DEPLOYMENT, "shop")
        return {
            each["metadata"]["name"]: (each["metadata"]["uid"], each["metadata"]["generation"])
            for each in found
        }

    async def has_colour(self, colour: str) -> bool:
        """Tell whether the fleet's settings have been applied with this value."""
        found = await self.api.get(CONFIG_MAP, "settings", "shop")
        return bool(found["data"]["colour"] == colour)

    async def replicas(self) -> dict[str, int]:
        """Return the replicas of Flux's Deployments."""
        found = await self.api.list(DEPLOYMENT, FLUX)
        return {each["metadata"]["name"]: each["spec"]["replicas"] for each in found}

    async def excluded(self) -> set[str]:
        """Return which objects of Flux nobody reconciles."""
        marked = set()
        for kind in (NAMESPACE, DEFINITION, DEPLOYMENT, BINDING):
            for each in await self.api.list(kind, FLUX if kind == DEPLOYMENT else ""):
                if ANNOTATION in dig(each, "metadata", "annotations", default={}):
                    marked.add(f"{kind.kind}/{each['metadata']['name']}")
        return marked

    async def is_there(self, kind: GroupVersionKind, name: str, namespace: str = "") -> bool:
        try:
            await self.api.get(kind, name, namespace)
        except NotFoundError:
            return False
        return True

    async def applied(self, revision: str, name: str = FLUX) -> Json:
        """Return a Kustomization once it has applied a revision, and say so to its source."""
        stamp = {"metadata": {"annotations": {"reconcile.fluxcd.io/requestedAt": revision}}}
        await self.api.patch(GIT_REPOSITORY, FLUX, FLUX, stamp, strategy="merge")

        async def look() -> Json | None:
            obj = await self.api.get(KUSTOMIZATION, name, FLUX)
            there = revision in str(dig(obj, "status", "lastAppliedRevision"))
            return obj if there else None

        found: Json = await until(look)
        return found

    async def settled(self) -> None:
        """Wait until the deployment controller has nothing more to write."""

        async def look() -> bool:
            found = await self.api.list(DEPLOYMENT)
            return all(
                dig(each, "status", "readyReplicas") == dig(each, "spec", "replicas")
                for each in found
            )

        await until(look)
