"""The image component: scans tags, chooses images, and writes them into Git."""

import asyncio
import functools
import shutil
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from controllers import grants, outside, sourcepolicies
from controllers.access.accounts import Accounts
from controllers.access.gitaccess import GitAccess
from controllers.access.registries import Registries
from controllers.image import updating, waking
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
from controllers.outside import Outside
from controllers.sourcepolicies import SourcePolicies
from controllers.waking import by_policy
from crds import (
    GIT_REPOSITORY,
    IMAGE_POLICY,
    IMAGE_REPOSITORY,
    IMAGE_UPDATE_AUTOMATION,
    IMAGE_VERIFICATION_POLICY,
)
from crds.kind import Kind
from crds.policy_image import ImageVerificationPolicy
from crds.source import GitRepository
from toolkit.artifact import backend
from toolkit.errors import WaitingError
from toolkit.events import Recorder
from toolkit.imagetrust.proving import Prover
from toolkit.imagetrust.trust import Trust
from toolkit.kube import caches, rbac
from toolkit.kube.controller import Controller
from toolkit.kube.informer import Informer
from toolkit.kube.manager import Manager
from toolkit.kube.options import Options
from toolkit.kube.rbac import Rule
from toolkit.kube.secrets import Secrets
from toolkit.native import calls, cores
from toolkit.native.pool import WorkerPool
from toolkit.objects import GroupVersionKind, ObjectKey
from toolkit.policy import references, unreadable
from toolkit.policy.grants import Grants
from toolkit.policy.tenancy import Installation
from toolkit.remote.git import git
from toolkit.remote.git.git import GitClient
from toolkit.remote.git.github import GitHubTokens
from toolkit.remote.oci.tokens import Tokens
from toolkit.verify.cosign.publicroot import PublicRoot
from toolkit.verify.notation.revocation import Responders
from toolkit.verify.verifications import Means, Verifications

ACCOUNT: Final = "image-controller"
_KINDS: Final = (IMAGE_REPOSITORY, IMAGE_POLICY, IMAGE_UPDATE_AUTOMATION)
_PLURALS: Final = tuple(kind.plural for kind in _KINDS)
_MANAGERS: Final = {
    IMAGE_REPOSITORY.kind: "gotk-image-reflector-controller",
    IMAGE_POLICY.kind: "gotk-image-reflector-controller",
    IMAGE_UPDATE_AUTOMATION.kind: "gotk-image-automation-controller",
}
"""Field managers, as in Flux, which has two controllers for these kinds."""

CLUSTER_PERMISSIONS: Final = (
    # The objects themselves; patch puts the finalizer and the status.
    Rule(
        groups=(IMAGE_REPOSITORY.group,),
        resources=_PLURALS,
        verbs=("get", "list", "watch", "patch"),
    ),
    Rule(
        groups=(IMAGE_REPOSITORY.group,),
        resources=tuple(f"{plural}/status" for plural in _PLURALS),
        verbs=("get", "patch", "update"),
    ),
    # The repositories that images are written to.
    Rule(
        groups=(GIT_REPOSITORY.group,),
        resources=(GIT_REPOSITORY.plural,),
        verbs=("get", "list", "watch"),
    ),
    # Which images must be signed.
    Rule(
        groups=(IMAGE_VERIFICATION_POLICY.group,),
        resources=(IMAGE_VERIFICATION_POLICY.plural,),
        verbs=("get", "list", "watch"),
    ),
    # What the authors of automations may use.
    Rule(
        groups=("authorization.k8s.io",),
        resources=("subjectaccessreviews",),
        verbs=("create",),
    ),
    *sourcepolicies.PERMISSIONS,
    *grants.PERMISSIONS,
    Rule(groups=("",), resources=("events",), verbs=("create", "patch")),
)
TENANT_PERMISSIONS: Final = (
    # Credentials and keys, and accounts with their pull secrets, are read when named, never listed.
    Rule(groups=("",), resources=("secrets", "serviceaccounts"), verbs=("get",)),
)
"""Rights in each namespace whose objects it reconciles; see ``deploy/components/by-namespace``."""
WORKLOAD_IDENTITY_PERMISSIONS: Final = (
    # With --feature-gates=ObjectLevelWorkloadIdentity=true objects act as accounts at clouds.
    Rule(groups=("",), resources=("serviceaccounts/token",), verbs=("create",)),
)
"""Only the component ``workload-identity`` grants these: with them, a process can be any account.
"""
NAMESPACE_PERMISSIONS: Final = rbac.lease(ACCOUNT)

_CONCURRENT: Final = 4
_SCRATCH: Final = ".scratch-image-"
_CHECKOUTS: Final = "checkouts"
_SOON: Final = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shared:
    """The dependencies of the reconcilers of all kinds."""

    manager: Manager
    options: Options
    outside: Outside
    secrets: Secrets
    accounts: Accounts
    policies: SourcePolicies
    grants: Grants
    recorder: Recorder
    scratch: Path

    def controller(self, kind: Kind[Any], reconciler: Any) -> Controller[Any]:
        """Return the controller of a kind."""
        return Controller(
            kind=kind,
            client=self.manager.client,
            reconcile=reconciler.reconcile,
            finalize=reconciler.finalize,
            options=self.options.controller(
                concurrent=_CONCURRENT, namespace=self.manager.namespace
            ),
            recorder=self.recorder,
            field_manager=_MANAGERS[kind.kind],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Trusted:
    """Image verification, for the controllers that choose images and those that write them."""

    demanded: Informer[ImageVerificationPolicy]
    admission: Admission
    repositories: Repositories
    known: Callable[[], Awaitable[None]]


async def start(manager: Manager, options: Options) -> None:
    """Wire the controllers into the manager."""
    root = Path(options.storage_path or "/data")
    # a unique name, because the leader may use the same volume
    scratch = root / f"{_SCRATCH}{manager.identity.rpartition('_')[2]}"
    await asyncio.to_thread(scratch.mkdir, mode=0o700, parents=True, exist_ok=True)
    reached = await outside.connect(
        manager, options, default_account=options.default_service_account
    )
    shared = _Shared(
        manager=manager,
        options=options,
        outside=reached,
        secrets=Secrets(manager.client),
        accounts=Accounts(client=manager.client, tokens=reached.tokens),
        policies=SourcePolicies.follow(manager),
        grants=grants.follow(manager, options),
        recorder=Recorder(manager.client, controller=ACCOUNT, address=options.events_addr),
        scratch=scratch,
    )
    lists = await _lists(shared, root)
    repositories = shared.controller(
        IMAGE_REPOSITORY, ImageRepositoryReconciler(_registries(shared), lists)
    )
    engine = calls.start(
        size=cores.available(), memory_limit=updating.MEMORY, reads=(await _checkouts(shared),)
    )
    manager.until_end.push_async_callback(engine.close)
    demanded: Informer[ImageVerificationPolicy] = Informer(
        manager.client,
        GroupVersionKind(*IMAGE_VERIFICATION_POLICY.gvk),
        decode=msgspec.json.Decoder(ImageVerificationPolicy).decode,
        stand_in=unreadable.image_policy,
    )
    manager.add_informer(demanded)
    trusted = _Trusted(
        demanded=demanded,
        admission=_admission(shared, demanded, engine),
        repositories=Repositories(
            lookup=repositories.informer.get,
            references=references.under(shared.grants, options),
            labels=shared.policies.labels,
        ),
        known=functools.partial(
            caches.complete, shared.grants, shared.policies, repositories.informer, demanded
        ),
    )
    chosen = _choosing(shared, repositories, lists, trusted)
    automations = _automating(shared, chosen, trusted, engine)
    manager.add_service(shared.recorder.run)
    for controller in (repositories, chosen, automations):
        manager.add_controller(controller, lease=ACCOUNT)
    manager.add_elected(lambda: _clean(root, keep=scratch), lease=ACCOUNT)


async def _lists(shared: _Shared, root: Path) -> TagLists:
    """Open the store that the flags name, for tags."""
    options = shared.options
    opened = await backend.open_store(
        options.storage_backend,
        backend.Settings(
            root=root,
            advertised="",  # only this process reads the lists
            retention_ttl=0.0,
            retention_records=1,
            namespace_bytes=options.storage_namespace_quota,
        ),
        cloud=shared.outside.cloud,
    )
    shared.manager.until_end.push_async_callback(opened.close)
    return TagLists(opened.store, scratch=shared.scratch / "tags")


def _registries(shared: _Shared) -> Registries:
    return Registries(
        http=shared.outside.http,
        tokens=Tokens(),
        secrets=shared.secrets,
        pull_secrets=shared.accounts.pull_secrets,
        identity=shared.accounts.identity,
        cloud=shared.outside.cloud,
        plain_http=shared.options.insecure_allow_http,
    )


def _choosing(
    shared: _Shared, repositories: Controller[Any], lists: TagLists, trusted: _Trusted
) -> Controller[Any]:
    """Return the controller of ImagePolicies."""
    reconciler = ImagePolicyReconciler(
        trusted.repositories,
        lists,
        _registries(shared),
        admission=trusted.admission,
        known=trusted.known,
    )
    controller = shared.controller(IMAGE_POLICY, reconciler)
    waking.policies(controller, repositories.informer, shared.grants, shared.policies)
    waking.verified(controller, trusted.demanded)
    return controller


def _admission(
    shared: _Shared, demanded: Informer[ImageVerificationPolicy], engine: WorkerPool
) -> Admission:
    """Return the Admission that allows only signed images."""
    options, installed = shared.options, shared.manager.namespace
    means = Means(
        public_root=PublicRoot(cache=shared.scratch / "sigstore", offline=options.sigstore_offline),
        pool=engine,
        revocations=Responders(
            shared.outside.http, allow_private=options.allow_private_revocation_servers
        ),
    )
    return Admission(
        functools.partial(_read, demanded),
        Trust(shared.secrets, installed),
        # No delay for refused signatures: a user who signs a skipped image and requests a
        # reconciliation expects a new check.
        Prover(Verifications(means, refusal_seconds=0)),
        _registries(shared),
        labels=functools.partial(_labels, shared.policies),
        installed=installed,
    )


def _read(demanded: Informer[ImageVerificationPolicy]) -> list[ImageVerificationPolicy]:
    """Return the policies; before they are read, nothing is chosen."""
    if not demanded.synced:
        raise WaitingError(
            "the ImageVerificationPolicies of the cluster are not read yet", retry_after=_SOON
        )
    return list(demanded.items().values())


def _labels(policies: SourcePolicies, namespace: str) -> Mapping[str, str]:
    """Return the labels of a namespace.

    Raises:
        WaitingError: the namespace is not read yet. It must not count as one without labels.
    """
    if policies.namespaces.get(ObjectKey("", namespace)) is None:
        raise WaitingError(
            f"the labels of namespace '{namespace}' are not read yet", retry_after=_SOON
        )
    return policies.labels(namespace)


async def _checkouts(shared: _Shared) -> Path:
    """Create the directory for checkouts, and return it."""
    made = shared.scratch / _CHECKOUTS
    await asyncio.to_thread(made.mkdir, mode=0o700)
    return made


def _automating(
    shared: _Shared, policies: Controller[Any], trusted: _Trusted, engine: WorkerPool
) -> Controller[Any]:
    """Return the controller of ImageUpdateAutomations, with its workers for Git."""
    manager, options = shared.manager, shared.options
    sources: Informer[GitRepository] = Informer(
        manager.client,
        GroupVersionKind(*GIT_REPOSITORY.gvk),
        decode=msgspec.json.Decoder(GitRepository).decode,
        namespace="" if options.watch_all_namespaces else manager.namespace,
    )
    manager.add_informer(sources)
    checkouts = shared.scratch / _CHECKOUTS
    fetching = git.start(size=(options.concurrent or _CONCURRENT) + 1, writes=(checkouts,))
    manager.until_end.push_async_callback(fetching.close)
    client = GitClient(fetching)

    async def known() -> None:
        await trusted.known()
        await caches.complete(sources, policies.informer)

    reconciler = ImageUpdateAutomationReconciler(
        Parts(
            git=client,
            access=GitAccess(
                secrets=shared.secrets,
                github=GitHubTokens(shared.outside.http),
                cloud=shared.outside.cloud,
                identity=shared.accounts.identity,
                plain_http=options.insecure_allow_http,
            ),
            checkouts=Checkouts(client, checkouts),
            engine=engine,
            secrets=shared.secrets,
            lookup=sources.get,
            policies=_of_namespace(policies.informer),
            references=references.under(shared.grants, options),
            source_policy=shared.policies,
            proposals=Proposals(http=shared.outside.http),
            branches=Branches(
                automations=lambda: controller.informer.items().values(), lookup=sources.get
            ),
            pushing=Pushing(
                api=manager.client,
                installation=Installation(
                    namespace=manager.namespace,
                    default_service_account=options.default_service_account,
                ),
            ),
            withholding=Withholding(admission=trusted.admission, repositories=trusted.repositories),
            known=known,
        )
    )
    controller = shared.controller(IMAGE_UPDATE_AUTOMATION, reconciler)
    waking.automations(controller, sources, policies.informer, shared.grants, trusted.demanded)
    # their sources may be in other namespaces
    shared.policies.subscribe(by_policy([controller], everywhere=True))
    return controller


def _of_namespace(informer: Informer[Any]) -> Callable[[str], list[Any]]:
    def found(namespace: str) -> list[Any]:
        return [obj for key, obj in informer.items().items() if key.namespace == namespace]

    return found


async def _clean(root: Path, *, keep: Path) -> None:
    """Remove files of killed processes; ``keep`` is the leader's own directory."""
    for leftover in await asyncio.to_thread(lambda: list(root.glob(f"{_SCRATCH}*"))):
        if leftover != keep:
            await asyncio.to_thread(shutil.rmtree, leftover, ignore_errors=True)
