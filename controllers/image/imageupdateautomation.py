"""The ImageUpdateAutomation reconciler: commit chosen images.

A run first resolves the reference of the repository. If neither the commit nor a policy has changed
since the last run, it ends. Otherwise it checks out the commit, writes the images at their markers,
commits and pushes. If the branch has moved meanwhile, it starts again with the new commit.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, Protocol

from controllers import grants
from controllers.access.gitaccess import GitAccess, Grant
from controllers.image import ineffective, proposing, settings, updating, withholding
from controllers.image.branches import Branches
from controllers.image.checkouts import Checkouts
from controllers.image.proposing import Proposals
from controllers.image.pushing import Pushing
from controllers.image.settings import Plan
from controllers.image.updating import Draft
from controllers.image.withholding import Withholding
from crds import GIT_REPOSITORY
from crds.image import ImagePolicy, ImageRef
from crds.image_automation import ImageUpdateAutomation, SigningKey
from crds.source import GitRepository
from toolkit.errors import TransientError, WaitingError
from toolkit.kube.controller import Outcome, Reconciliation
from toolkit.kube.secrets import Secrets
from toolkit.native.pool import WorkerPool
from toolkit.objects import GroupVersionKind, ObjectKey, ObjectRef
from toolkit.policy.references import References
from toolkit.remote.git import signingkeys, wire
from toolkit.remote.git.errors import GitAuthError, GitError, GitMovedError, RefNotFoundError
from toolkit.remote.git.git import GitClient, GitReference, NewFile, Resolved
from toolkit.remote.hosting.pulls import Pulls
from toolkit.render.setters import Image

SOURCE: Final = GroupVersionKind(*GIT_REPOSITORY.gvk)
ATTEMPTS: Final = 5
"""Attempts of a run, if the branch moves meanwhile."""

_FAILED: Final = "SourceManagerFailed"
_UP_TO_DATE: Final = "repository up-to-date"

Lookup = Callable[[ObjectKey], GitRepository | None]
Policies = Callable[[str], Iterable[ImagePolicy]]
"""Returns the policies of a namespace."""


class SourcePolicy(Protocol):
    """Decides which sources may be used (``controllers.sourcepolicies``)."""

    def check(self, obj: GitRepository) -> object:
        """Let a source be used, or raise AccessDeniedError."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The dependencies of a run."""

    git: GitClient
    access: GitAccess
    checkouts: Checkouts
    engine: WorkerPool
    secrets: Secrets
    lookup: Lookup
    policies: Policies
    references: References
    source_policy: SourcePolicy
    proposals: Proposals
    withholding: Withholding
    branches: Branches
    pushing: Pushing
    known: Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    """The inputs of one run; ``flow`` is that of the workers.

    ``shared`` are the other automations that push to its branch. ``news`` is true if other choices
    are withheld than in the last run, ``unknown`` if some may be allowed later.
    """

    flow: str
    source: GitRepository
    plan: Plan
    grant: Grant
    pulls: Pulls | None
    images: Mapping[str, Image]
    shared: tuple[ImageUpdateAutomation, ...]
    news: bool
    unknown: bool

    @property
    def url(self) -> str:
        return self.source.spec.url

    @property
    def timeout(self) -> float:
        return self.source.spec.timeout_seconds


def target(obj: ImageUpdateAutomation) -> ObjectRef:
    """Return which GitRepository an automation refers to."""
    ref = obj.spec.source_ref
    return ObjectRef(SOURCE, ref.namespace or obj.metadata.namespace, ref.name)


class ImageUpdateAutomationReconciler:
    """One pass over one automation."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    async def reconcile(self, rec: Reconciliation[ImageUpdateAutomation]) -> Outcome:
        """Bring the repository up to date."""
        await self._parts.known()
        grants.tell(rec, self._parts.references)
        source = self._source(rec)
        await self._parts.pushing.require(rec.obj, source)
        plan = settings.plan(rec.obj, source)
        grant = await self._parts.access.grant(source)
        policies = updating.selected(rec.obj, self._parts.policies(rec.key.namespace))
        withheld = await self._parts.withholding.of(policies)
        chosen = updating.chosen(
            each for each in policies if each.metadata.name not in withheld.why
        )
        shared = self._parts.branches.others(rec.obj, source, plan)
        pulls = self._parts.proposals.of(rec.obj, source, plan, grant.auth)
        if pulls is not None:
            proposing.require_own_branch(rec.obj, plan, shared)
        run = _Run(
            flow=rec.key.namespace,
            source=source,
            plan=plan,
            grant=grant,
            pulls=pulls,
            shared=() if pulls else shared,
            images=updating.images(rec.key.namespace, chosen),
            news=withholding.tell(rec, withheld),
            unknown=withheld.unknown,
        )
        try:
            return await self._updated(rec, run, chosen)
        except GitAuthError:
            self._parts.access.refused(run.grant)
            raise

    async def finalize(self, rec: Reconciliation[ImageUpdateAutomation]) -> None:
        """Do nothing: pushed commits stay."""

    def _source(self, rec: Reconciliation[ImageUpdateAutomation]) -> GitRepository:
        """Return the source, if the automation may use it.

        Raises:
            AccessDeniedError: no grant allows it, or a SourcePolicy forbids it.
            WaitingError: the source does not exist.
        """
        wanted = target(rec.obj)
        self._parts.references.require(rec.ref, wanted)
        found = self._parts.lookup(ObjectKey(wanted.namespace, wanted.name))
        if found is None:
            raise WaitingError(
                f"GitRepository '{wanted.namespace}/{wanted.name}' not found: create it, or "
                "correct spec.sourceRef",
                reason=_FAILED,
            )
        self._parts.source_policy.check(found)
        return found

    async def _updated(
        self,
        rec: Reconciliation[ImageUpdateAutomation],
        run: _Run,
        chosen: dict[str, ImageRef],
    ) -> Outcome:
        for _ in range(ATTEMPTS):
            try:
                return await self._attempt(rec, run, chosen)
            except GitMovedError as exc:
                rec.log.info("begin anew", extra={"why": str(exc)})
        raise GitError(
            f"branch '{run.plan.branch}' got other commits each of {ATTEMPTS} times that one was "
            "made for it: it is tried again"
        )

    async def _attempt(
        self,
        rec: Reconciliation[ImageUpdateAutomation],
        run: _Run,
        chosen: dict[str, ImageRef],
    ) -> Outcome:
        base = await self._resolve(run, run.plan.checkout)
        rec.revision = base.revision
        left = _same(rec, base, chosen) and await self._is_left(rec.obj, run)
        settled = proposing.is_settled(rec, run.pulls)
        if left and settled and "requested" not in rec.triggers:
            return _done(rec.obj, run, quiet=not run.news)
        draft, landed = await self._land(rec.obj, run, base, push=not (left and run.plan.separate))
        policies = self._parts.policies(rec.key.namespace)
        ineffective.tell(rec, draft, {each.metadata.name for each in policies})
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        revision = base.revision
        if landed is not None:
            rec.status({"lastPushCommit": landed, "lastPushTime": now})
            rec.event("info", "Succeeded", _pushed(run.plan, landed, draft.message))
            if not run.plan.separate and run.plan.to_branch:
                # The next run finds the commit that this one made.
                revision = f"{run.plan.branch}@sha1:{landed}"
        rec.status({"observedPolicies": chosen or None, "observedSourceRevision": revision})
        if not (left and settled):
            await self._propose(rec, run, draft)
        rec.status({"lastAutomationRunTime": now})
        return _done(rec.obj, run)

    async def _land(
        self, obj: ImageUpdateAutomation, run: _Run, base: Resolved, *, push: bool
    ) -> tuple[Draft, str | None]:
        """Return the changes, and the commit if one was pushed; without ``push`` nothing is pushed.

        On a branch that other automations push to as well, the changes are relative to their
        commits.
        """
        tip = await self._tip(run) if run.shared else None
        onto = base
        if tip is not None and self._parts.branches.is_current(
            run.source, run.plan, tip.commit, base=base.revision, among=(obj, *run.shared)
        ):
            onto = tip
        async with self._parts.checkouts.use(
            run.url, onto, run.grant.auth, flow=run.flow, timeout=run.timeout
        ) as checkout:
            draft = await updating.draft(
                self._parts.engine, obj, run.plan, run.images, checkout.files
            )
            if not draft.files or not push:
                return draft, None
            seen = (tip.commit if tip else "") if run.shared else None
            targets = run.plan.targets(base=base.commit, tip=seen)
            request = await self._request(obj, run, onto, draft, targets, pack=str(checkout.pack))
            landed = await self._parts.git.land(request, flow=run.flow)
        if not landed.changed:
            return draft, None
        if run.plan.separate:
            self._parts.branches.pushed(run.source, run.plan, landed.commit, base=base.revision)
        return draft, landed.commit

    async def _propose(
        self, rec: Reconciliation[ImageUpdateAutomation], run: _Run, draft: Draft
    ) -> None:
        """Keep the pull request as the branch is, if the automation has one."""
        said = None
        if draft.files:
            said = proposing.text(rec.obj, draft, self._parts.policies(rec.key.namespace))
        elif run.unknown:
            return  # withheld images may be allowed later: the pull request stays
        await proposing.propose(rec, run.pulls, said)

    async def _resolve(self, run: _Run, reference: GitReference) -> Resolved:
        return await self._parts.git.resolve(
            run.url, reference, run.grant.auth, flow=run.flow, timeout=run.timeout
        )

    async def _tip(self, run: _Run) -> Resolved | None:
        """Return the commit of the push branch; ``None`` if the branch does not exist."""
        try:
            return await self._resolve(run, GitReference(branch=run.plan.branch))
        except RefNotFoundError:
            return None

    async def _is_left(self, obj: ImageUpdateAutomation, run: _Run) -> bool:
        """Tell whether the branch still has the commit of the last run."""
        if not run.plan.separate or not obj.status.last_push_commit:
            return True
        tip = await self._tip(run)
        return tip is not None and tip.commit == obj.status.last_push_commit

    async def _request(  # noqa: PLR0913 - what a commit is made of
        self,
        obj: ImageUpdateAutomation,
        run: _Run,
        onto: Resolved,
        draft: Draft,
        targets: tuple[wire.PushTarget, ...],
        *,
        pack: str,
    ) -> wire.LandRequest:
        key = obj.spec.git.commit.signing_key if obj.spec.git else None
        return wire.LandRequest(
            url=run.url,
            base=onto.commit,
            pack=pack,
            files=tuple(NewFile(path=each.path, content=each.data) for each in draft.files),
            message=draft.message,
            author=run.plan.author,
            time=int(datetime.now(UTC).timestamp()),
            auth=run.grant.auth,
            targets=targets,
            options=run.plan.options,
            signing=await self._signing(obj.metadata.namespace, key) if key else None,
            timeout=run.timeout,
        )

    async def _signing(self, namespace: str, key: SigningKey) -> wire.SigningKey:
        """Read the key that signs commits.

        Raises:
            TransientError: the Secret is missing, or has no valid key of this type.
        """
        data = await self._parts.secrets.read(namespace, key.secret_ref.name, reason=_FAILED)
        try:
            return signingkeys.from_secret(key.type, data)
        except GitAuthError as exc:
            raise TransientError(
                f"Secret '{namespace}/{key.secret_ref.name}' of spec.git.commit.signingKey: {exc}",
                reason=_FAILED,
            ) from exc


def _same(
    rec: Reconciliation[ImageUpdateAutomation], base: Resolved, chosen: Mapping[str, ImageRef]
) -> bool:
    """Tell whether the last run had the same generation, commit and images.

    A run that pushed, but failed to open its pull request, counts as well.
    """
    status = rec.obj.status
    generations = (status.observed_generation, proposing.generation(rec))
    return (
        rec.obj.metadata.generation in generations
        and status.observed_source_revision == base.revision
        and status.observed_policies == chosen
    )


def _pushed(plan: Plan, commit: str, message: str) -> str:
    where = [f"branch '{plan.branch}'"] if plan.to_branch else []
    where += [f"refspec '{plan.refspec.source}:{plan.refspec.target}'"] if plan.refspec else []
    return f"pushed commit '{commit[:7]}' to {' and '.join(where)}\n{message.rstrip()}"


def _done(obj: ImageUpdateAutomation, run: _Run, *, quiet: bool = False) -> Outcome:
    after = obj.spec.interval_seconds
    if run.unknown:
        after = min(after, withholding.AGAIN)
    return Outcome(message=_UP_TO_DATE, requeue_after=after, quiet=quiet)
