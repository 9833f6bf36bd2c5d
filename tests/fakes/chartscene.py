"""Helm's sources in one namespace, and all that they need; the servers are the tests'."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from controllers.access.registries import Registries
from controllers.source.chartaccess import ChartAccess
from controllers.source.chartdependencies import Dependencies
from controllers.source.charts import Services
from controllers.source.helmchart import HelmChartSource
from controllers.source.helmrepository import HelmRepositorySource
from crds import HELM_CHART, HELM_REPOSITORY
from crds.meta import LocalObjectReference, ObjectMeta
from crds.source import GitRepository, GitRepositorySpec
from crds.source_helm import (
    ChartSourceReference,
    HelmChart,
    HelmChartSpec,
    HelmRepository,
    HelmRepositorySpec,
)
from tests.fakes.charts import InProcess, chart, write
from tests.fakes.passes import Cluster
from toolkit.artifact.ignore import Ignore
from toolkit.artifact.storage import Storage
from toolkit.artifact.store import Owner
from toolkit.chart.charts import Charts
from toolkit.errors import PenstockError, TransientError
from toolkit.kube.reconciliation import Outcome
from toolkit.remote.http.http import Http
from toolkit.remote.oci.registry import Tokens
from toolkit.verify.signature import Proof, Signer, VerificationError
from toolkit.verify.subject import Subject

NAMESPACE = "apps"
SHA = "1f2e3d4c5b6a798081726354453627180f1e2d3c"
MAIN = f"main@sha1:{SHA}"


class Given:
    """Secrets in memory."""

    def __init__(self) -> None:
        self.values: dict[str, Mapping[str, bytes]] = {}

    async def read(self, namespace: str, name: str, *, reason: str) -> Mapping[str, bytes]:
        assert namespace == NAMESPACE
        if name not in self.values:
            raise TransientError(f"Secret '{namespace}/{name}' not found", reason=reason)
        return self.values[name]


@dataclass
class Signatures:
    """A verifier that believes in the digests it is told of, unless it never comes to an end."""

    signed: set[str] = field(default_factory=set)
    until: datetime | None = None
    endless: bool = False
    asked: list[str] = field(default_factory=list)

    async def verify(self, subject: Subject, policy: Any, *, scope: str) -> Proof:
        assert scope
        assert policy.trust
        self.asked.append(subject.digest)
        if self.endless:
            await asyncio.Event().wait()
        if subject.digest not in self.signed:
            raise VerificationError("nobody signed it", step=2)
        return Proof(
            signer=Signer(identity="me", fingerprint="f"),
            message="signed by me",
            fresh_until=self.until,
        )


class World:
    """A namespace with sources, and all that they need."""

    def __init__(self, http: Http, directory: Path) -> None:
        self.workers = InProcess()
        self.secrets = Given()
        self.signatures = Signatures()
        self.store = Storage(directory / "store", advertised="artifacts.test")
        self.cluster = Cluster(self.store, directory / "scratch")
        self._http = http
        self.restart()

    def restart(self) -> None:
        """Forget what is kept in memory."""
        secrets: Any = self.secrets
        unused: Any = None
        registries = Registries(
            http=self._http,
            tokens=Tokens(),
            secrets=secrets,
            pull_secrets=unused,
            identity=unused,
            cloud=unused,
        )
        access = ChartAccess(secrets=secrets, registries=registries)
        charts = Charts(self.workers)
        services = Services(http=self._http, charts=charts, store=self.store, access=access)
        self.repositories = HelmRepositorySource(
            kind=HELM_REPOSITORY,
            http=self._http,
            charts=charts,
            access=access,
        )
        self.charts = HelmChartSource(
            kind=HELM_CHART,
            services=services,
            dependencies=Dependencies(services=services, listing=self.cluster.listing),
            secrets=secrets,
            verify=self.signatures.verify,
            lookup=self.cluster.lookup,
        )

    def repository(self, url: str, name: str = "charts", **spec: Any) -> HelmRepository:
        """Create a HelmRepository."""
        for key in ("secret_ref", "cert_secret_ref"):
            if key in spec:
                spec[key] = LocalObjectReference(name=spec[key])
        obj = HelmRepository(
            metadata=ObjectMeta(namespace=NAMESPACE, name=name, generation=1),
            spec=HelmRepositorySpec(url=url, interval="1m", **spec),
        )
        self.cluster.put(obj)
        return obj

    def chart(
        self,
        chart: str = "podinfo",
        *,
        kind: str = "HelmRepository",
        source: str = "charts",
        generation: int = 1,
        **spec: Any,
    ) -> HelmChart:
        """Create a HelmChart, or give the one there is another spec."""
        named: Any = kind
        reference = ChartSourceReference(kind=named, name=source)
        old = self.cluster.objects.get(("HelmChart", NAMESPACE, "app"))
        obj = HelmChart(
            metadata=ObjectMeta(namespace=NAMESPACE, name="app", generation=generation),
            spec=HelmChartSpec(chart=chart, source_ref=reference, interval="1m", **spec),
            **({"status": old.status} if old else {}),
        )
        self.cluster.put(obj)
        return obj

    async def index(self, obj: HelmRepository) -> HelmRepository:
        """Reconcile a HelmRepository and return it as it is then."""
        await self.cluster.reconcile(HELM_REPOSITORY, self.repositories, obj)
        found: HelmRepository = self.cluster.objects["HelmRepository", NAMESPACE, obj.metadata.name]
        return found

    async def build(self, obj: HelmChart) -> tuple[HelmChart, Outcome]:
        """Reconcile a HelmChart and return it as it is then."""
        outcome = await self.cluster.reconcile(HELM_CHART, self.charts, obj)
        return self.current, outcome

    @property
    def current(self) -> HelmChart:
        """Return the HelmChart."""
        found: HelmChart = self.cluster.objects["HelmChart", NAMESPACE, "app"]
        return found

    async def source(self, obj: Any, tree: Path, revision: str) -> None:
        """Give a GitRepository or Bucket an artifact with the files of a directory."""
        meta = obj.metadata
        artifact = await self.store.store(
            Owner(kind=obj.kind, namespace=meta.namespace, name=meta.name),
            revision=revision,
            filename=f"{revision.rpartition(':')[2]}.tar.gz",
            tree=tree,
            ignore=Ignore.from_rules(None),
        )
        await self.cluster.write(obj, {"artifact": msgspec.to_builtins(artifact)})

    async def content(self) -> bytes:
        """Return the chart's artifact."""
        artifact = self.current.status.artifact
        assert artifact is not None
        async with self.store.local(artifact) as path:
            return path.read_bytes()


def git(world: World) -> GitRepository:
    """Create a GitRepository without an artifact."""
    obj = GitRepository(
        metadata=ObjectMeta(namespace=NAMESPACE, name="code"),
        spec=GitRepositorySpec(url="https://git.test/code", interval="1m"),
    )
    world.cluster.put(obj)
    return obj


async def files(
    world: World, tmp_path: Path, content: Mapping[str, str | bytes], revision: str = MAIN
) -> None:
    """Give the GitRepository an artifact with these files."""
    tree = tmp_path / "trees" / revision.replace("/", "_")
    await world.source(git(world), write(tree, content), revision)


def below(folder: str, content: Mapping[str, str]) -> dict[str, str]:
    return {f"{folder}/{name}": text for name, text in content.items()}


async def refused(world: World, obj: Any) -> PenstockError:
    """Reconcile a HelmChart that cannot be built."""
    with pytest.raises(PenstockError) as caught:
        await world.build(obj)
    return caught.value


def depending(repository: str, version: str = "1.x", name: str = "redis") -> dict[str, str]:
    extra = f"dependencies:\n- {{name: {name}, version: {version}, repository: '{repository}'}}\n"
    return below("app", chart(extra=extra))
