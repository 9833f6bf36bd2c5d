"""Image reconcilers on a bench: registry, Git server, engine and store are real."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pytest

from controllers.access.gitaccess import GitAccess
from controllers.access.registries import Registries
from controllers.image.admitting import Admission
from controllers.image.branches import Branches
from controllers.image.checkouts import Checkouts
from controllers.image.imagepolicy import ImagePolicyReconciler
from controllers.image.imagerepository import ImageRepositoryReconciler
from controllers.image.imageupdateautomation import ImageUpdateAutomationReconciler, Parts
from controllers.image.proposing import Proposals
from controllers.image.pushing import Pushing
from controllers.image.repositories import Repositories
from controllers.image.taglists import TagLists
from controllers.image.withholding import Withholding
from crds import GIT_REPOSITORY, IMAGE_POLICY, IMAGE_REPOSITORY, IMAGE_UPDATE_AUTOMATION
from crds.policy_image import ImageVerificationPolicy
from tests.fakes.gitserver import GitServer, Repository
from tests.fakes.granting import AnySource, allowing
from tests.fakes.passes import Cluster, condition
from tests.fakes.registry import FakeRegistry
from tests.loopback.oci import bench as benches
from toolkit.artifact.storage import Storage
from toolkit.imagetrust.proving import Prover
from toolkit.imagetrust.trust import Trust
from toolkit.kube.controller import Outcome
from toolkit.native import calls
from toolkit.native.pool import WorkerPool
from toolkit.objects import Json, ObjectKey
from toolkit.policy.references import References
from toolkit.policy.tenancy import Installation
from toolkit.remote.git import git
from toolkit.remote.git.git import GitClient
from toolkit.remote.git.github import GitHubTokens
from toolkit.remote.http.http import Http
from toolkit.remote.oci.registry import Tokens
from toolkit.verify.cosign.publicroot import PublicRoot
from toolkit.verify.verifications import Means, Verifications

NAMESPACE = "team"
NAME = "org/web"
AUTOMATION = "ImageUpdateAutomation"
KINDS = {
    kind.kind: kind
    for kind in (GIT_REPOSITORY, IMAGE_REPOSITORY, IMAGE_POLICY, IMAGE_UPDATE_AUTOMATION)
}


@dataclass
class Bench:
    """Objects in memory, and the reconcilers that pass over them."""

    http: Http
    registry: FakeRegistry
    git: GitServer
    engine: WorkerPool
    workers: WorkerPool
    root: Path
    references: References = field(default_factory=allowing)
    labels: dict[str, dict[str, str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.held = benches.Cluster()
        self.demands: dict[str, ImageVerificationPolicy] = {}
        self.storage = Storage(self.root / "data", advertised="", retention_ttl=0)
        self.cluster = Cluster(self.storage, self.root / "scratch")
        self.fleet: Repository = self.git.repository("fleet")
        self.fleet.accept_pushes()
        self.restart()

    def restart(self) -> None:
        """Forget what a process has in memory."""
        registries = Registries(
            http=self.http,
            tokens=Tokens(),
            secrets=self.held,  # type: ignore[arg-type]  # the one method that is used
            pull_secrets=self.held.pull_secrets,
            identity=self.held.identity,
            cloud=self.held,
        )
        self.lists = lists = TagLists(self.storage, scratch=self.root / "tags")
        client = GitClient(self.workers)

        async def known() -> None:
            return None

        self.checkouts = Checkouts(client, self.root / "checkouts")
        self.admission = admission = self._admission(registries)
        self.repositories = repositories = Repositories(
            lookup=lambda key: self.lookup("ImageRepository", key),
            references=self.references,
            labels=lambda namespace: self.labels.get(namespace, {}),
        )
        self.reconcilers: dict[str, Any] = {
            "ImageRepository": ImageRepositoryReconciler(registries, lists),
            "ImagePolicy": ImagePolicyReconciler(
                repositories, lists, registries, admission=admission, known=known
            ),
            "ImageUpdateAutomation": ImageUpdateAutomationReconciler(
                Parts(
                    git=client,
                    access=GitAccess(
                        secrets=self.held,  # type: ignore[arg-type]  # as above
                        github=GitHubTokens(self.http),
                        cloud=self.held,  # type: ignore[arg-type]  # no cloud is asked here
                        identity=self.held.identity,
                    ),
                    checkouts=self.checkouts,
                    engine=self.engine,
                    secrets=self.held,  # type: ignore[arg-type]  # as above
                    lookup=lambda key: self.lookup("GitRepository", key),
                    policies=self._policies,
                    references=self.references,
                    source_policy=AnySource(),
                    proposals=Proposals(http=self.http),
                    pushing=Pushing(
                        api=None,  # type: ignore[arg-type]  # no object here has an author to ask for
                        installation=Installation(namespace="penstock-system"),
                    ),
                    branches=Branches(
                        automations=self._automations,
                        lookup=lambda key: self.lookup("GitRepository", key),
                    ),
                    withholding=Withholding(admission=admission, repositories=repositories),
                    known=known,
                )
            ),
        }

    def _admission(self, registries: Registries) -> Admission:
        means = Means(
            public_root=PublicRoot(offline=True),
            pool=self.engine,
            revocations=None,  # type: ignore[arg-type]  # only for Notation
        )
        return Admission(
            self.demands.values,
            Trust(self.held, "penstock-system"),  # type: ignore[arg-type]  # as above
            Prover(Verifications(means, refusal_seconds=0)),
            registries,
            labels=lambda namespace: self.labels.get(namespace, {}),
            installed="penstock-system",
        )

    def demand(self, name: str = "signed", *, keys: str = "keys", **spec: Any) -> None:
        """Write an ImageVerificationPolicy of a public key; one that is there is changed."""
        before = self.demands.get(name)
        generation = before.metadata.generation + 1 if before else 1
        body = {
            "images": [f"{self.registry.host}/org/*"],
            "verifiers": [{"name": "release", "cosign": {"secretRef": {"name": keys}}}],
            **spec,
        }
        metadata = {"name": name, "uid": name, "generation": generation}
        found = msgspec.convert({"metadata": metadata, "spec": body}, ImageVerificationPolicy)
        self.demands[name] = found

    def lookup(self, kind: str, key: ObjectKey) -> Any:
        return self.cluster.objects.get((kind, key.namespace, key.name))

    def _automations(self) -> list[Any]:
        return [obj for key, obj in self.cluster.objects.items() if key[0] == AUTOMATION]

    def _policies(self, namespace: str) -> list[Any]:
        items = self.cluster.objects.items()
        return [obj for key, obj in items if key[:2] == ("ImagePolicy", namespace)]

    def put(self, kind: str, spec: Json, *, name: str = "app", **metadata: Any) -> Any:
        """Write an object; its status stays, and its generation tells whether the spec does."""
        body = {"metadata": {"name": name, "namespace": NAMESPACE, **metadata}, "spec": spec}
        obj: Any = msgspec.convert(body, KINDS[kind].model)
        key = (kind, obj.metadata.namespace, name)
        generation = 1
        if before := self.cluster.objects.get(key):
            obj = msgspec.structs.replace(obj, status=before.status)
            generation = before.metadata.generation + (before.spec != obj.spec)
        meta = msgspec.structs.replace(obj.metadata, generation=generation)
        obj = msgspec.structs.replace(obj, metadata=meta)
        self.cluster.put(obj)
        return obj

    def image(self, **spec: Any) -> None:
        """Write an ImageRepository of the registry."""
        image = {"image": f"{self.registry.host}/{NAME}", "interval": "1h", "insecure": True}
        self.put("ImageRepository", image | spec)

    def policy(self, *, name: str = "app", **spec: Any) -> None:
        """Write an ImagePolicy of it."""
        choice = {"imageRepositoryRef": {"name": "app"}, "policy": {"semver": {"range": ">=1"}}}
        self.put("ImagePolicy", choice | spec, name=name)

    def automation(self, *, name: str = "app", **spec: Any) -> None:
        """Write an ImageUpdateAutomation of the Git repository."""
        source = {"url": self.fleet.url, "interval": "1m", "ref": {"branch": "main"}}
        self.put("GitRepository", source)
        author = {"name": "bot", "email": "bot@example.com"}
        body = {
            "sourceRef": {"kind": "GitRepository", "name": "app"},
            "interval": "1h",
            "git": {"commit": {"author": author}},
        }
        self.put("ImageUpdateAutomation", body | spec, name=name)

    def chosen(self, tag: str, *, name: str = "app", digest: str = "") -> None:
        """Write an ImagePolicy with its choice, without a registry."""
        self.policy(name=name)
        obj = self.get("ImagePolicy", name)
        latest = {"name": "ghcr.io/org/web", "tag": tag, "digest": digest}
        status = msgspec.convert({"latestRef": latest}, type(obj.status))
        self.cluster.put(msgspec.structs.replace(obj, status=status))

    async def run(self, kind: str, *triggers: str, name: str = "app") -> Outcome:
        """Run one pass, and keep the generation that it saw as the controller does."""
        outcome = await self.cluster.run(
            KINDS[kind], self.reconcilers[kind].reconcile, self.get(kind, name), *triggers
        )
        obj = self.get(kind, name)
        status = msgspec.structs.replace(obj.status, observed_generation=obj.metadata.generation)
        self.cluster.put(msgspec.structs.replace(obj, status=status))
        return outcome

    def get(self, kind: str, name: str = "app") -> Any:
        return self.cluster.objects[kind, NAMESPACE, name]

    def ready(self, kind: str) -> tuple[str, str, str]:
        return condition(self.get(kind), "Ready")

    def told(self) -> list[str]:
        return [event.message for event in self.cluster.events]

    def requests(self) -> list[str]:
        """Return what was asked of Git since the last call."""
        seen = [f"{each.method} {each.path.partition('.git')[2]}" for each in self.git.seen]
        self.git.seen.clear()
        return seen


@pytest.fixture
async def bench(http: Http, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Bench]:
    root = tmp_path_factory.mktemp("bench")
    engine = calls.start(size=1, reads=(root,))
    workers = git.start(size=2, writes=(root,))
    (root / "checkouts").mkdir()
    async with FakeRegistry() as registry, GitServer(root / "server") as server:
        yield Bench(http, registry, server, engine, workers, root)
    await engine.close()
    await workers.close()
