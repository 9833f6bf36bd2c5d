"""OCIRepository: an artifact in a registry, resolved to a digest, verified and pulled by digest.

If a HEAD request shows the stored digest, nothing is pulled. A tag is resolved once per
reconciliation, so the signature is verified for the same digest that is pulled.

From an index with several platforms, the same entry is used as in Flux: the first one for
linux/amd64 or without a platform. The index itself must be signed, and its digest is the revision.
"""

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec

from controllers import originrevision
from controllers.access.registries import Access, Registries, in_time
from controllers.source import remedies, signatures
from controllers.source.beginnings import beginning
from controllers.source.replacement import replacing
from controllers.source.signatures import Policy, Verify
from controllers.source.source import SUCCEEDED, Fetched, File, Scratch, Tree, Upstream
from crds.kind import Kind
from crds.meta import Artifact, LocalObjectReference
from crds.source_oci import OCIRepository, OCIRepositoryRef
from toolkit import disk, regexp
from toolkit.artifact import archive, limits, threads
from toolkit.artifact.ignore import Ignore
from toolkit.artifact.threads import Checkpoint
from toolkit.chart import registry as charts
from toolkit.chart import version
from toolkit.errors import PenstockError, StalledError, TransientError
from toolkit.kube.secrets import Secrets
from toolkit.policy import tags
from toolkit.remote import semver
from toolkit.remote.oci import oci
from toolkit.remote.oci.errors import RegistryError, RegistryNotFoundError, RepositoryURLError
from toolkit.remote.oci.oci import Descriptor, Manifest, Repository
from toolkit.remote.oci.registry import Registry
from toolkit.verify.cosign.messages import shown
from toolkit.verify.signature import Proof, VerificationError
from toolkit.verify.subject import Subject

MAX_LAYER: Final = 1 << 30
"""Limit of a packed layer in bytes, the same as in ``toolkit.artifact.fetch``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OCIUpstream(Upstream):
    """The repository, and the descriptor to which the reference was resolved."""

    repository: Repository
    descriptor: Descriptor


@dataclass(frozen=True, slots=True, kw_only=True)
class OCIRepositorySource:
    """``Source`` for OCIRepository."""

    kind: Kind[OCIRepository]
    registries: Registries
    secrets: Secrets
    verify: Verify

    async def resolve(self, obj: OCIRepository, scratch: Scratch) -> OCIUpstream:  # noqa: ARG002  # nothing is downloaded
        """Resolve the reference to a digest in the registry."""
        with beginning(f"URL validation failed for '{obj.spec.url}'", RepositoryURLError):
            repository = Repository.parse(obj.spec.url)
        policy, trust = None, ""
        if obj.spec.verify:
            policy = await signatures.policy(self.secrets, obj.metadata.namespace, obj.spec.verify)
            trust = signatures.trust(policy, repository)
        with replacing(obj.status.artifact, trust), _signing_in():
            async with self._registry(obj, repository) as registry:
                tag = await _reference(obj, registry, repository)
                advice = partial(remedies.of_oci, obj)
                with beginning(_UNRESOLVED, RegistryError, reason=_PULL_FAILED, advice=advice):
                    descriptor = await registry.resolve(repository, tag)
        digest = descriptor.digest
        return OCIUpstream(
            revision=digest if oci.is_digest(tag) else f"{tag}@{digest}",
            observed=_observed(obj),
            trust=trust,
            content_addressed=True,
            repository=repository,
            descriptor=descriptor,
            prove=partial(self._prove, obj, repository, descriptor, policy) if policy else None,
        )

    async def fetch(self, obj: OCIRepository, upstream: OCIUpstream, into: Path) -> Fetched:
        """Verify the signature of the digest, then pull the layer that the spec selects."""
        async with (
            in_time(obj.spec.timeout_seconds, "the artifact"),
            self._registry(obj, upstream.repository) as registry,
        ):
            proof = await upstream.prove() if upstream.prove else None
            unpulled = beginning(
                f"failed to pull artifact from '{obj.spec.url}'", RegistryError, reason=_PULL_FAILED
            )
            with replacing(obj.status.artifact, upstream.trust), unpulled:
                manifest, found = await _manifest(registry, upstream)
                content = await _pull(obj, registry, upstream.repository, manifest, into)
        metadata = annotations(found)
        return Fetched(
            filename=f"{upstream.descriptor.digest}.tar.gz",
            summary=_summary(obj, upstream, metadata),
            content=content,
            proof=proof,
            metadata=metadata,
        )

    def message(self, obj: OCIRepository, artifact: Artifact) -> str:  # noqa: ARG002  # one wording for all
        """Return the Ready message."""
        return f"stored artifact for digest '{artifact.revision}'"

    def reason(self, artifact: Artifact) -> str:  # noqa: ARG002  # one for all
        """Return the reason of Ready for a stored artifact."""
        return SUCCEEDED

    def _registry(
        self, obj: OCIRepository, repository: Repository
    ) -> AbstractAsyncContextManager[Registry]:
        spec = obj.spec
        access = Access(
            namespace=obj.metadata.namespace,
            provider=spec.provider,
            secret=_name(spec.secret_ref),
            service_account=spec.service_account_name,
            cert_secret=_name(spec.cert_secret_ref),
            proxy_secret=_name(spec.proxy_secret_ref),
            insecure=spec.insecure,
        )
        return self.registries.open(access, repository, timeout=spec.timeout_seconds)

    async def _prove(
        self, obj: OCIRepository, repository: Repository, descriptor: Descriptor, policy: Policy
    ) -> Proof:
        """Verify the signature of a digest."""
        async with (
            in_time(obj.spec.timeout_seconds, "a proof of its signature"),
            self._registry(obj, repository) as registry,
        ):
            subject = Subject(store=registry, repository=repository, descriptor=descriptor)
            with beginning(_unverified(obj), VerificationError):
                return await self.verify(subject, policy, scope=obj.metadata.namespace)


REASON: Final = "OCIArtifactLayerOperationFailed"
_PULL_FAILED: Final = RegistryError.default_reason
_READ_FAILED: Final = "ReadOperationFailed"
_UNRESOLVED: Final = "failed to determine artifact digest"
_OWN: Final = "penstock.dev"
_MAX_ANNOTATIONS: Final = 64
_MAX_ANNOTATION: Final = 4096
_MAX_METADATA: Final = 16 << 10
"""Limit in characters for all annotations, because they go into the status, which is watched."""
_SOURCE: Final = "org.opencontainers.image.source"


def annotations(given: Mapping[str, str]) -> dict[str, str]:
    """Return those annotations of a manifest that become metadata of the artifact.

    Keys of Penstock's domain are left out, because they state the signer of an artifact and
    annotations are untrusted. The rest is limited in size, because the status contains it.
    """
    kept: dict[str, str] = {}
    left = _MAX_METADATA
    # Shortest first, so that a long annotation can only displace longer ones.
    for key, value in sorted(given.items(), key=lambda item: (len(item[0] + item[1]), item[0])):
        size = len(key) + len(value)
        domain = key.partition("/")[0].lower()
        if domain == _OWN or domain.endswith(f".{_OWN}") or size > min(left, _MAX_ANNOTATION):
            continue
        if len(kept) < _MAX_ANNOTATIONS:
            kept[key] = value
            left -= size
    return dict(sorted(kept.items()))


async def _reference(obj: OCIRepository, registry: Registry, repository: Repository) -> str:
    """Return the tag or digest of ``spec.ref``; digest wins over semver, and semver over tag."""
    ref = obj.spec.ref
    if ref is None:
        return "latest"
    if ref.digest:
        if not oci.is_digest(ref.digest):
            raise StalledError(
                "spec.ref.digest is not a digest: write it as 'sha256:<hex>'", reason="URLInvalid"
            )
        return ref.digest
    if not ref.semver:
        tag = ref.tag or "latest"
        if not oci.is_tag(tag):
            raise StalledError("spec.ref.tag cannot be a tag", reason="URLInvalid")
        return tag
    with beginning(_undetermined(obj), PenstockError, reason=_READ_FAILED):
        return await highest(ref, registry, repository, versions=_selects_chart(obj))


class Lists(Protocol):
    """Lists tags: a registry."""

    async def tags(self, repository: Repository) -> tuple[str, ...]:
        """Return all tags."""
        ...


async def highest(
    ref: OCIRepositoryRef, registry: Lists, repository: Repository, *, versions: bool = False
) -> str:
    """Return the tag with the highest version that ``semver`` and ``semverFilter`` allow.

    No tag can contain a ``+``. So a registry has a chart with build metadata under a tag with ``_``
    (HIP-0006). With ``versions`` such tags are read as versions, and the pattern may match either
    form.
    A pattern may take milliseconds for each of 200,000 tags. So the search ends when the caller is
    cancelled, and takes at most ``tags.SECONDS``.

    Raises:
        StalledError: the range or the pattern cannot be read, or the pattern takes too long.
        RegistryError: there is no such tag, or the tags cannot be listed.
    """
    within, pattern = _range(ref.semver), _pattern(ref.semver_filter)
    listed = await registry.tags(repository)

    def matching(checkpoint: Checkpoint) -> Iterator[str]:
        for tag in tags.in_time(listed, "spec.ref.semverFilter"):
            checkpoint()
            text = version.from_tag(tag) if versions else tag
            if pattern.search(text) or (text != tag and pattern.search(tag)):
                yield text

    found = await threads.run(lambda checkpoint: semver.highest(matching(checkpoint), within))
    if found is None:
        filtered = f" and spec.ref.semverFilter '{ref.semver_filter}'" if ref.semver_filter else ""
        raise RegistryNotFoundError(
            f"no match found for semver: {ref.semver}: no tag of '{repository}' matches "
            f"spec.ref.semver '{ref.semver}'{filtered}"
        )
    return version.to_tag(found) if versions else found


def _selects_chart(obj: OCIRepository) -> bool:
    selector = obj.spec.layer_selector
    return selector is not None and selector.media_type == charts.CONTENT


def _undetermined(obj: OCIRepository) -> str:
    return f"failed to determine the artifact tag for '{obj.spec.url}'"


def _unverified(obj: OCIRepository) -> str:
    verify = obj.spec.verify
    provider = verify.provider if verify else ""
    keyless = verify is not None and verify.secret_ref is None and provider == "cosign"
    shown_provider = f"{provider} keyless" if keyless else provider
    return f"failed to verify the signature using provider '{shown_provider}'"


@contextmanager
def _signing_in() -> Iterator[None]:
    """Mark the message of an error when credentials cannot be obtained, as Flux does.

    The registry refusing credentials is another error.
    """
    try:
        yield
    except PenstockError as error:
        if error.reason != "AuthenticationFailed":
            raise
        raise error.within("failed to get credential") from error


def _range(text: str) -> semver.Range:
    try:
        return semver.Range.parse(text)
    except ValueError as exc:
        raise StalledError(f"spec.ref.semver: {exc}") from exc


def _pattern(text: str) -> Any:
    try:
        return regexp.compiled(text)
    except ValueError as exc:
        raise StalledError(f"spec.ref.semverFilter is {exc}") from exc


async def _manifest(registry: Registry, upstream: OCIUpstream) -> tuple[Manifest, dict[str, str]]:
    """Return the manifest with the layers, and its annotations merged over those of the index."""
    manifest = await registry.manifest(upstream.repository, upstream.descriptor.digest)
    if not manifest.is_index:
        return manifest, dict(manifest.annotations)
    entry = next((one for one in manifest.manifests if _fits(one)), None)
    if entry is None:
        raise TransientError(
            f"the index {upstream.descriptor.digest} of '{upstream.repository}' has no manifest "
            "for linux/amd64 or for no platform",
            reason=REASON,
        )
    inner = await registry.manifest(upstream.repository, entry.digest)
    if inner.is_index:
        raise TransientError(
            f"the index {upstream.descriptor.digest} of '{upstream.repository}' holds another one",
            reason=REASON,
        )
    return inner, {**manifest.annotations, **inner.annotations}


def _fits(entry: Descriptor) -> bool:
    platform = entry.platform
    return platform is None or (platform.os, platform.architecture) == ("linux", "amd64")


async def _pull(
    obj: OCIRepository,
    registry: Registry,
    repository: Repository,
    manifest: Manifest,
    into: Path,
) -> Tree | File:
    """Fetch the layer, and unpack it unless the spec says to copy it."""
    ignore = Ignore.from_rules(obj.spec.ignore or None)
    layer, selector = _layer(obj, manifest, repository), obj.spec.layer_selector
    if selector and selector.operation == "copy":
        await registry.blob(repository, layer, into / "layer", limit=MAX_LAYER)
        return File(path=into / "layer")
    packed = into.with_name(f"{into.name}.layer")
    try:
        await registry.blob(repository, layer, packed, limit=MAX_LAYER)
        await threads.run(
            lambda checkpoint: archive.unpack(packed, into, limits.DEFAULT, checkpoint=checkpoint)
        )
    except PenstockError as exc:
        if exc.reason != archive.REASON:
            raise
        raise TransientError(
            f"cannot unpack the layer {layer.digest} of '{repository}': {exc}", reason=REASON
        ) from exc
    except OSError as exc:
        raise TransientError(
            f"cannot keep the layer {layer.digest} of '{repository}': {disk.why(exc, into)}",
            reason=REASON,
        ) from exc
    finally:
        await asyncio.shield(asyncio.to_thread(packed.unlink, missing_ok=True))
    return Tree(ignore=ignore)


def _layer(obj: OCIRepository, manifest: Manifest, repository: Repository) -> Descriptor:
    """Return the layer that the spec selects: the first one, or the first of a media type."""
    wanted = obj.spec.layer_selector.media_type if obj.spec.layer_selector else ""
    found = next((one for one in manifest.layers if wanted in ("", one.media_type)), None)
    if found is None:
        having = ", ".join(
            sorted({f"'{ascii(one.media_type[:100])[1:-1]}'" for one in manifest.layers})[:10]
        )
        what = f"layer of the type '{wanted}'" if wanted else "layer"
        raise TransientError(
            f"the artifact {manifest.descriptor.digest} of '{repository}' has no {what}"
            + (f", but {having}" if having else ""),
            reason=REASON,
        )
    return found


def _observed(obj: OCIRepository) -> dict[str, object]:
    """Return the inputs, other than the revision, that determine the artifact, as status fields."""
    selector = obj.spec.layer_selector
    return {
        "observedIgnore": obj.spec.ignore or None,
        "observedLayerSelector": (msgspec.to_builtins(selector) or None) if selector else None,
    }


def _summary(obj: OCIRepository, upstream: OCIUpstream, metadata: Mapping[str, str]) -> str:
    """Return the text of the event, with origin source and revision if the metadata have them."""
    text = f"stored artifact with revision '{upstream.revision}' from '{obj.spec.url}'"
    source, revision = metadata.get(_SOURCE), metadata.get(originrevision.ANNOTATION)
    if source and revision:
        text += f", origin source '{shown(source)}', origin revision '{shown(revision)}'"
    return text


def _name(reference: LocalObjectReference | None) -> str:
    return reference.name if reference else ""
