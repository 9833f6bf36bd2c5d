"""GitRepository: a reference of a remote Git repository, checked out, verified, with its includes.

Nothing is fetched when ``ls-remote`` shows the revision that is already stored. Git itself runs in
killable workers (``toolkit.remote.git``), so a slow or lying server costs a worker, not the loop.

The keys that signatures are checked against are read in every pass, and the artifact remembers
which version of them it was checked against: new keys, or another mode, mean to check again.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

import msgspec

from controllers.source import includes
from controllers.source.reconciler import Fetched, Upstream
from crds.kind import Kind
from crds.meta import VERIFIED, Artifact
from crds.source import GitRepository
from toolkit.artifact.ignore import Ignore
from toolkit.artifact.storage import Storage
from toolkit.errors import StalledError, TransientError
from toolkit.kube.secrets import SECRET, Data, Secrets
from toolkit.remote.git import Checkout, GitAuth, GitClient, GitReference, Proxy, Resolved
from toolkit.remote.github import GitHubApp, GitHubTokens
from toolkit.verify import git as verification

GENERIC_PROVIDERS: Final = frozenset({"", "generic", "github"})


@dataclass(frozen=True, slots=True, kw_only=True)
class GitUpstream(Upstream):
    """The resolved commit, what resolved it and what verifies it, and the artifacts to include."""

    resolved: Resolved
    auth: GitAuth
    keys: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    included: tuple[Artifact, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GitRepositorySource:
    """``Source`` for GitRepository; ``plain_http`` is whether servers without TLS are asked."""

    kind: Kind[GitRepository]
    git: GitClient
    tokens: GitHubTokens
    secrets: Secrets
    storage: Storage
    lookup: includes.Lookup
    plain_http: bool = True

    async def resolve(self, obj: GitRepository) -> GitUpstream:
        """Ask the server where the reference points; nothing is fetched."""
        if _scheme(obj.spec.url) == "http" and not self.plain_http:
            raise StalledError(
                "spec.url is plain HTTP, which --insecure-allow-http=false forbids",
                reason="InsecureConnectionsDisallowed",
            )
        auth = await self._auth(obj)
        keys = await self._keys(obj)
        resolved = await self.git.resolve(
            obj.spec.url, reference(obj), auth, timeout=obj.spec.timeout_seconds
        )
        included = await includes.find(obj, self.lookup, self.storage)
        return GitUpstream(
            revision=resolved.revision,
            resolved=resolved,
            auth=auth,
            keys=keys.values if keys else {},
            included=included,
            observed=_observed(obj, included),
            trust=f"{_mode(obj)} {keys.version}" if keys else "",
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
        verified = await self._verify(obj, checkout, upstream.keys)
        for include, artifact in zip(spec.include, upstream.included, strict=True):
            await asyncio.to_thread(includes.copy, self.storage, artifact, include, into)
        return Fetched(
            filename=f"{checkout.commit}.tar.gz",
            summary=f"stored artifact for commit '{checkout.subject}'",
            ignore=Ignore.from_rules(spec.ignore or None),
            verified=verified,
            vouched=all(VERIFIED in artifact.metadata for artifact in upstream.included),
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
        if "githubAppID" in data:
            raise TransientError(
                "the secret holds a GitHub App: set spec.provider to 'github' to use it",
                reason="InvalidProviderConfiguration",
            )
        auth = GitAuth.from_secret(data, scheme=_scheme(spec.url))
        return auth.through(proxy) if proxy else auth

    async def _keys(self, obj: GitRepository) -> Data | None:
        if obj.spec.verify is None:
            return None
        name = obj.spec.verify.secret_ref.name
        return await self.secrets.data(
            SECRET, obj.metadata.namespace, name, reason="VerificationError"
        )

    async def _verify(
        self, obj: GitRepository, checkout: Checkout, keys: Mapping[str, bytes]
    ) -> str:
        if obj.spec.verify is None:
            return ""
        proof = await asyncio.to_thread(verification.verify, checkout, mode=_mode(obj), keys=keys)
        return proof.message


def reference(obj: GitRepository) -> GitReference:
    """Return what to check out; without ``spec.ref`` that is the branch ``master``."""
    ref = obj.spec.ref
    if ref is None:
        return GitReference(branch="master")
    return GitReference(
        branch=ref.branch, tag=ref.tag, semver=ref.semver, name=ref.name, commit=ref.commit
    )


def _mode(obj: GitRepository) -> str:
    return obj.spec.verify.mode if obj.spec.verify else ""


def _scheme(url: str) -> Literal["http", "https", "ssh"]:
    scheme = url.partition("://")[0]
    return "ssh" if scheme == "ssh" else "http" if scheme == "http" else "https"


def _observed(obj: GitRepository, included: tuple[Artifact, ...]) -> dict[str, object]:
    """Return the inputs beside the revision that shape the artifact, as status fields."""
    spec = obj.spec
    return {
        "observedIgnore": spec.ignore or None,
        "observedRecurseSubmodules": spec.recurse_submodules or None,
        "observedInclude": msgspec.to_builtins(spec.include) or None,
        "observedSparseCheckout": list(spec.sparse_checkout) or None,
        "sourceVerificationMode": _mode(obj) or None,
        "includedArtifacts": msgspec.to_builtins(_kept(obj, included)) or None,
    }


def _kept(obj: GitRepository, included: tuple[Artifact, ...]) -> list[Artifact]:
    """Return what is included, as status has it where only the address or the time differs."""
    known = dict(enumerate(obj.status.included_artifacts))
    return [
        known[place] if place in known and includes.same(known[place], artifact) else artifact
        for place, artifact in enumerate(included)
    ]
