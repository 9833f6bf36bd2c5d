"""GitRepository: a reference of a remote Git repository, checked out, verified, with its includes.

If ``ls-remote`` shows the stored revision, nothing is fetched. Git runs in worker processes that
can be killed (``toolkit.remote.git``), so a slow or malicious server blocks only a worker.

Each reconciliation reads the keys for signatures. The metadata of the artifact record the version
of the keys and the mode with which it was verified. If one of them changes, the commit is fetched
and verified again.
"""

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from controllers.access.gitaccess import GitAccess, Grant
from controllers.source import includes, remedies
from controllers.source.beginnings import beginning
from controllers.source.replacement import replacing
from controllers.source.source import SUCCEEDED, Fetched, Scratch, Tree, Upstream
from crds.kind import Kind
from crds.meta import VERIFIED, Artifact
from crds.source import GitRepository
from toolkit.artifact import store
from toolkit.artifact.ignore import Ignore
from toolkit.artifact.store import Store
from toolkit.errors import TransientError
from toolkit.kube.secrets import SECRET, Data, Secrets
from toolkit.policy import origins
from toolkit.policy.origins import Origin
from toolkit.remote.git.errors import EmptyRepositoryError, GitAuthError, GitError
from toolkit.remote.git.git import Checkout, GitAuth, GitClient, GitReference, Resolved
from toolkit.remote.git.url import GitUrl
from toolkit.verify.gitsignatures import GitSignatures
from toolkit.verify.signature import Proof


@dataclass(frozen=True, slots=True, kw_only=True)
class GitUpstream(Upstream):
    """The resolved commit, the credentials and the keys for it, and the artifacts to include."""

    resolved: Resolved
    auth: GitAuth
    keys: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    included: tuple[Artifact, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GitRepositorySource:
    """``Source`` for GitRepository."""

    kind: Kind[GitRepository]
    git: GitClient
    access: GitAccess
    secrets: Secrets
    store: Store
    lookup: includes.Lookup
    signatures: GitSignatures

    async def resolve(self, obj: GitRepository, _scratch: Scratch) -> GitUpstream:
        """Resolve the reference to a commit with ``ls-remote``; nothing is fetched."""
        keys = await self._keys(obj)
        trust = f"{_mode(obj)} {keys.version}" if keys else ""
        with replacing(obj.status.artifact, trust):
            resolved, auth = await self._resolve(obj)
        included = await includes.find(obj, self.lookup, self.store)
        return GitUpstream(
            revision=resolved.revision,
            resolved=resolved,
            auth=auth,
            keys=keys.values if keys else {},
            included=included,
            observed=_observed(obj, included),
            trust=trust,
            recipe=_recipe(obj, included),
            parts=tuple(_origins(obj, included)),
            # The id of a commit identifies its content, and includes are compared by digest. But if
            # the spec itself names the commit, the server has not shown that it has the commit.
            content_addressed=resolved.told,
        )

    async def fetch(self, obj: GitRepository, upstream: GitUpstream, into: Path) -> Fetched:
        """Check the commit out, verify its signature, and copy the includes into the tree."""
        spec = obj.spec
        with _reaching(obj, "clone"):
            checkout = await self.git.checkout(
                spec.url,
                upstream.resolved,
                upstream.auth,
                into,
                recurse_submodules=spec.recurse_submodules,
                sparse=tuple(spec.sparse_checkout),
                flow=obj.metadata.namespace,
                timeout=spec.timeout_seconds,
            )
        proof = await self._verify(obj, checkout, upstream.keys)
        room = includes.Room()
        for include, artifact in zip(spec.include, upstream.included, strict=True):
            await includes.copy(self.store, artifact, include, into, room)
        return Fetched(
            filename=f"{checkout.commit}.tar.gz",
            summary=f"stored artifact for commit '{checkout.subject}'",
            about={"author": checkout.author},
            content=Tree(ignore=Ignore.from_rules(spec.ignore or None)),
            proof=proof,
            vouched=all(VERIFIED in artifact.metadata for artifact in upstream.included),
        )

    def message(self, _obj: GitRepository, artifact: Artifact) -> str:
        """Return the Ready message for a stored artifact."""
        return f"stored artifact for revision '{artifact.revision}'"

    def reason(self, artifact: Artifact) -> str:  # noqa: ARG002  # one for all
        """Return the reason of Ready for a stored artifact."""
        return SUCCEEDED

    async def _resolve(self, obj: GitRepository) -> tuple[Resolved, GitAuth]:
        """Resolve the reference; try again with new credentials if cached ones were refused."""
        grant = await self.access.grant(obj)
        try:
            return await self._ask(obj, grant), grant.auth
        except GitAuthError:
            if not self.access.refused(grant):
                raise
        grant = await self.access.grant(obj)
        return await self._ask(obj, grant), grant.auth

    async def _ask(self, obj: GitRepository, grant: Grant) -> Resolved:
        with _reaching(obj, "list remote for" if obj.status.artifact else "clone"):
            return await self.git.resolve(
                obj.spec.url,
                reference(obj),
                grant.auth,
                flow=obj.metadata.namespace,
                timeout=obj.spec.timeout_seconds,
            )

    async def _keys(self, obj: GitRepository) -> Data | None:
        if obj.spec.verify is None:
            return None
        name = obj.spec.verify.secret_ref.name
        with beginning("PGP public keys secret error", TransientError):
            return await self.secrets.data(
                SECRET, obj.metadata.namespace, name, reason="VerificationError"
            )

    async def _verify(
        self, obj: GitRepository, checkout: Checkout, keys: Mapping[str, bytes]
    ) -> Proof | None:
        if obj.spec.verify is None:
            return None
        return await self.signatures.verify(
            checkout, mode=_mode(obj), keys=keys, flow=obj.metadata.namespace
        )


@contextmanager
def _reaching(obj: GitRepository, doing: str) -> Iterator[None]:
    """Put the operation and the URL before the message of an error of the Git server."""
    try:
        yield
    except EmptyRepositoryError as error:
        raise error.within("git repository is empty") from error
    except GitError as error:
        what = f"unable to {doing} '{GitUrl.parse(obj.spec.url)}'"
        told = error.within(
            f"failed to checkout and determine revision: {what}", reason=GitError.default_reason
        )
        raise told.advising(remedies.of_git(obj, error)) from error


def reference(obj: GitRepository) -> GitReference:
    """Return the reference to check out; without ``spec.ref`` this is the branch ``master``."""
    ref = obj.spec.ref
    if ref is None:
        return GitReference(branch="master")
    return GitReference(
        branch=ref.branch, tag=ref.tag, semver=ref.semver, name=ref.name, commit=ref.commit
    )


def _mode(obj: GitRepository) -> str:
    return obj.spec.verify.mode if obj.spec.verify else ""


def _observed(obj: GitRepository, included: tuple[Artifact, ...]) -> dict[str, object]:
    """Return the inputs, other than the revision, that determine the artifact, as status fields."""
    spec = obj.spec
    return {
        "observedIgnore": spec.ignore or None,
        "observedRecurseSubmodules": spec.recurse_submodules or None,
        "observedInclude": msgspec.to_builtins(spec.include) or None,
        "observedSparseCheckout": list(spec.sparse_checkout) or None,
        "sourceVerificationMode": _mode(obj) or None,
        "includedArtifacts": msgspec.to_builtins(_kept(obj, included)) or None,
    }


def _origins(obj: GitRepository, included: tuple[Artifact, ...]) -> Iterator[Origin]:
    for include, artifact in zip(obj.spec.include, included, strict=True):
        yield from origins.of_part(includes.KIND, include.repository.name, artifact)


def _recipe(obj: GitRepository, included: tuple[Artifact, ...]) -> str:
    """Return the digest of the includes, for the metadata of the artifact; empty without includes.

    The status has the includes too, but other clients may write the status.
    """
    if not included:
        return ""
    parts = [obj.spec.include, [artifact.digest for artifact in included]]
    return hashlib.sha256(msgspec.json.encode(parts)).hexdigest()


def _kept(obj: GitRepository, included: tuple[Artifact, ...]) -> list[Artifact]:
    """Return the included artifacts for the status.

    If only the address or the time of an artifact differs, the entry of the status stays. The
    origins are left out, because the metadata of the artifact has them.
    """
    known = dict(enumerate(obj.status.included_artifacts))
    bare = [
        msgspec.structs.replace(artifact, metadata=origins.without(artifact.metadata))
        for artifact in included
    ]
    return [
        known[place] if place in known and store.same(known[place], artifact) else artifact
        for place, artifact in enumerate(bare)
    ]
