"""GitRepository: a reference of a remote Git repository, checked out, verified, with its includes.

Nothing is fetched when ``ls-remote`` shows the revision that is already stored. Git itself runs in
killable workers (``toolkit.remote.git``), so a slow or lying server costs a worker, not the loop.
"""

import asyncio
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

import msgspec

from controllers.source.reconciler import Fetched, Upstream
from crds.kind import Kind
from crds.meta import Artifact
from crds.source import GitRepository
from toolkit.artifact import archive
from toolkit.artifact.ignore import Ignore
from toolkit.artifact.storage import Storage
from toolkit.errors import StalledError, TransientError
from toolkit.kube.secrets import Secrets
from toolkit.objects import ObjectKey
from toolkit.remote.git import Checkout, GitAuth, GitClient, GitReference, Proxy, Resolved
from toolkit.remote.github import GitHubApp, GitHubTokens
from toolkit.verify import git as verification

GENERIC_PROVIDERS: Final = frozenset({"", "generic", "github"})


@dataclass(frozen=True, slots=True, kw_only=True)
class GitUpstream(Upstream):
    """The resolved commit, the credentials that resolved it, and the artifacts to include."""

    resolved: Resolved
    auth: GitAuth
    includes: tuple[Artifact, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GitRepositorySource:
    """``Source`` for GitRepository.

    ``lookup`` returns the GitRepository of a key as the informer last saw it.
    """

    kind: Kind[GitRepository]
    git: GitClient
    tokens: GitHubTokens
    secrets: Secrets
    storage: Storage
    lookup: Callable[[ObjectKey], GitRepository | None]

    async def resolve(self, obj: GitRepository) -> GitUpstream:
        """Ask the server where the reference points; nothing is fetched."""
        auth = await self._auth(obj)
        resolved = await self.git.resolve(
            obj.spec.url, reference(obj), auth, timeout=obj.spec.timeout_seconds
        )
        includes = tuple(self._included(obj))
        return GitUpstream(
            revision=resolved.revision,
            resolved=resolved,
            auth=auth,
            includes=includes,
            observed=_observed(obj, includes),
        )

    async def fetch(self, obj: GitRepository, upstream: GitUpstream, into: Path) -> Fetched:
        """Check the commit out, verify who signed it, and copy the includes in."""
        spec = obj.spec
        checkout = await self.git.checkout(
            spec.url,
            upstream.resolved,
            upstream.auth,
            into,
            recurse_submodules=spec.recurse_submodules,
            sparse=tuple(spec.sparse_checkout),
            timeout=spec.timeout_seconds,
        )
        verified = await self._verify(obj, checkout)
        for include, artifact in zip(spec.include, upstream.includes, strict=True):
            await asyncio.to_thread(
                self._copy_include, artifact, include.from_path, into, include.target
            )
        return Fetched(
            filename=f"{checkout.commit}.tar.gz",
            summary=f"stored artifact for commit '{checkout.subject}'",
            ignore=Ignore.from_rules(spec.ignore or None),
            verified=verified,
        )

    async def _auth(self, obj: GitRepository) -> GitAuth:
        spec, namespace = obj.spec, obj.metadata.namespace
        if spec.provider not in GENERIC_PROVIDERS:
            raise StalledError(
                f"spec.provider '{spec.provider}' is not supported for Git; use 'generic' with "
                "spec.secretRef, or 'github' with a GitHub App",
                reason="InvalidProviderConfiguration",
            )
        data: Mapping[str, bytes] = {}
        if spec.secret_ref:
            data = await self.secrets.read(
                namespace, spec.secret_ref.name, reason="AuthenticationFailed"
            )
        proxy = None
        if spec.proxy_secret_ref:
            address = await self.secrets.read(
                namespace, spec.proxy_secret_ref.name, reason="AuthenticationFailed"
            )
            proxy = Proxy.from_secret(address)
        if spec.provider == "github":
            app = GitHubApp.from_secret(data)
            return await self.tokens.auth(app, proxy=proxy, timeout=spec.timeout_seconds)
        auth = GitAuth.from_secret(data, scheme=_scheme(spec.url))
        return auth.through(proxy) if proxy else auth

    async def _verify(self, obj: GitRepository, checkout: Checkout) -> str:
        verify = obj.spec.verify
        if verify is None:
            return ""
        keys = await self.secrets.read(
            obj.metadata.namespace, verify.secret_ref.name, reason="VerificationError"
        )
        proof = await asyncio.to_thread(verification.verify, checkout, mode=verify.mode, keys=keys)
        return proof.message

    def _included(self, obj: GitRepository) -> list[Artifact]:
        found = []
        for include in obj.spec.include:
            key = ObjectKey(obj.metadata.namespace, include.repository.name)
            other = self.lookup(key)
            if other is None or other.status.artifact is None:
                raise TransientError(
                    f"spec.include: GitRepository '{key}' has no artifact yet",
                    reason="IncludeUnavailable",
                )
            found.append(other.status.artifact)
        return found

    def _copy_include(self, artifact: Artifact, source: str, tree: Path, target: str) -> None:
        """Copy ``source`` of an artifact to ``target`` of the tree; neither may leave its root."""
        destination = _inside(tree, target, field="toPath")
        staging = tree.parent / f"{tree.name}.include"
        try:
            archive.unpack(self.storage.path(artifact), staging)
            origin = _inside(staging, source or ".", field="fromPath")
            if not origin.is_dir():
                raise StalledError(
                    f"spec.include.fromPath '{source}' is not a directory of the included artifact",
                    reason="IncludeUnavailable",
                )
            shutil.copytree(origin, destination, dirs_exist_ok=True, symlinks=True)
        finally:
            shutil.rmtree(staging, ignore_errors=True)


def reference(obj: GitRepository) -> GitReference:
    """Return what to check out; without ``spec.ref`` that is the branch ``master``."""
    ref = obj.spec.ref
    if ref is None:
        return GitReference(branch="master")
    return GitReference(
        branch=ref.branch, tag=ref.tag, semver=ref.semver, name=ref.name, commit=ref.commit
    )


def _scheme(url: str) -> Literal["http", "https", "ssh"]:
    scheme = url.partition("://")[0]
    return "ssh" if scheme == "ssh" else "http" if scheme == "http" else "https"


def _observed(obj: GitRepository, includes: tuple[Artifact, ...]) -> dict[str, object]:
    """Return the inputs beside the revision that shape the artifact, as status fields."""
    spec = obj.spec
    return {
        "observedIgnore": spec.ignore or None,
        "observedRecurseSubmodules": spec.recurse_submodules or None,
        "observedInclude": msgspec.to_builtins(spec.include) or None,
        "observedSparseCheckout": list(spec.sparse_checkout) or None,
        "sourceVerificationMode": spec.verify.mode if spec.verify else None,
        "includedArtifacts": msgspec.to_builtins(list(includes)) or None,
    }


def _inside(root: Path, relative: str, *, field: str) -> Path:
    """Return ``relative`` below ``root``, following links only inside it."""
    path = (root / relative).resolve()
    if not path.is_relative_to(root.resolve()):
        raise StalledError(
            f"spec.include.{field} '{relative}' leads out of the repository",
            reason="IncludeUnavailable",
        )
    return path
