"""Decide whether a build satisfies one ``AllowedOrigin`` of a ProvenancePolicy. Pure.

A build may have several sources, and each of them satisfies every field that is about sources:
address, revision and signer. So a field never looks at the revision or the signer in the claims
alone, which are those of the root, or of all sources in one text. It narrows each source to the
artifacts that satisfy it, and requires that the claims still hold by these (``claims.held``). Two
artifacts of one digest are the same content, wherever each of them was fetched.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from crds import HELM_CHART
from crds.meta import VERIFIED, Artifact
from crds.policy_provenance import AllowedOrigin, OriginSource
from toolkit import regexp
from toolkit.kube import impersonation
from toolkit.objects import ObjectRef
from toolkit.policy import origins, urls
from toolkit.policy.claims import Claims, Part, Standing, held
from toolkit.policy.origins import Origin

_Fits = Callable[[Part, Artifact], bool]


def lacks(origin: AllowedOrigin, claims: Claims, standing: Standing) -> Iterator[str]:
    """Yield what a write lacks, for each part of an origin; empty if it lacks nothing."""
    applier, wanted = claims.applier, origin.applier
    if wanted is not None:
        fits = (
            wanted.kind in {None, applier.gvk.kind}
            and wanted.namespace in {"", applier.namespace}
            and wanted.name in {"", applier.name}
        )
        yield "" if fits else f"{applier} may not apply here"
    if not standing.parts:
        yield f"{applier} is built from no source"
        return
    if origin.source is not None:
        yield _foreign(origin.source, claims, standing.parts)
    if origin.revision:
        yield _other_revision(origin.revision, claims, standing.parts)
    if origin.verified_by:
        yield _unsigned(origin, claims, standing.parts)


def _failing(claims: Claims, parts: Sequence[Part], fits: _Fits) -> Part | None:
    """Return a source because of which the claims do not hold; None if they hold.

    They must hold by the artifacts that fit alone.
    """
    admitted = [
        replace(part, artifacts=tuple(each for each in part.artifacts if fits(part, each)))
        for part in parts
    ]
    if held(claims, admitted):
        return None
    without = [part for part, left in zip(parts, admitted, strict=True) if not left.artifacts]
    return (*without, *parts)[0]


def _other_revision(pattern: str, claims: Claims, parts: Sequence[Part]) -> str:
    """Return which source has another revision than is admitted; empty if none has."""
    part = _failing(
        claims,
        parts,
        lambda _, artifact: regexp.fits(pattern, _revision(artifact)),
    )
    if part is None:
        return ""
    told = next((_revision(each) for each in part.artifacts), claims.revision)
    of = f" of {part.source}" if len(parts) > 1 else ""
    return f"revision '{told}'{of} does not match '{pattern}'"


def _revision(artifact: Artifact) -> str:
    return impersonation.escaped(artifact.revision)


def _unsigned(origin: AllowedOrigin, claims: Claims, parts: Sequence[Part]) -> str:
    """Return which source is not signed as an origin requires; empty if all are.

    A pattern that matches no text at all still requires a signature.
    """
    part = _failing(claims, parts, lambda part, artifact: _signed(origin, part, artifact))
    if part is None:
        return ""
    found = _signers(part, part.artifacts[0]) if part.artifacts else []
    if unsigned := _nobodys(part, found, claims):
        return f"no signature of {unsigned} was verified"
    if not part.origins(part.artifacts[0]):
        return f"{part.source} cannot show what it contains: {origins.REMEDY}"
    of = f" ({part.source})" if len(parts) > 1 else ""
    for _, signer in found:
        if not regexp.fits(origin.verified_by, signer):
            return f"'{signer}' does not match '{origin.verified_by}'{of}"
    return (
        f"the signer of {part.source} was proved by the trust root in "
        "spec.verify.trustedRootSecretRef, which the policy does not admit (ownTrustedRoot)"
    )


def _nobodys(part: Part, found: Sequence[tuple[str, str]], claims: Claims) -> str:
    """Return what nobody signed, for the message; empty if everything in the source is signed."""
    if not found or not found[0][1]:
        return str(part.source)
    inside = next((name for name, signer in found if not signer), "")
    if inside:
        return f"'{inside}', which {part.source} includes,"
    return "" if claims.verified else claims.source


def _signed(origin: AllowedOrigin, part: Part, artifact: Artifact) -> bool:
    """Tell whether everything in an artifact was signed by whom an origin admits.

    Who writes the trust root can sign as anybody whom a pattern of signers admits.
    """
    found = part.origins(artifact)
    rooted = any(each.own_trusted_root for each in found)
    if not found or (rooted and origin.own_trusted_root == "Deny"):
        return False
    return all(
        signer and regexp.fits(origin.verified_by, signer) for _, signer in _signers(part, artifact)
    )


def _signers(part: Part, artifact: Artifact) -> list[tuple[str, str]]:
    """Return name and signer of the artifact, and of each repository that it includes.

    The signature of a chart covers what it was made of. Third parties write the metadata of an
    ExternalArtifact.
    """
    own = artifact.metadata.get(VERIFIED, "") if part.recorded else ""
    chart = part.source.gvk.kind == HELM_CHART.kind
    included = () if chart else part.origins(artifact)[1:]
    found = [(part.source.name, own)]
    found += [(str(each.name), each.facts.get(VERIFIED, "")) for each in included]
    return [(name, impersonation.escaped(signer)) for name, signer in found]


def _foreign(wanted: OriginSource, claims: Claims, parts: Sequence[Part]) -> str:
    """Return which source a build may not be made from; empty if it may be from all."""
    told = _failing(claims, parts, lambda part, artifact: _fits(wanted, part, artifact))
    if told is None:
        return ""
    if not wanted.urls or not told.recorded or not _is(wanted, told.source):
        return f"{told.source} is not a source that is admitted"
    return f"{told.source} {_elsewhere(wanted, told)}"


def _fits(wanted: OriginSource, part: Part, artifact: Artifact) -> bool:
    if not wanted.urls:
        return _is(wanted, part.source)
    found = origins.addressed(part.origins(artifact))
    return (
        _is(wanted, part.source)
        and bool(found)
        and not _outside(wanted, found)
        and not _proxied(wanted, found)
    )


def _is(wanted: OriginSource, source: ObjectRef) -> bool:
    return (
        wanted.kind in {None, source.gvk.kind}
        and wanted.namespace in {"", source.namespace}
        and wanted.name in {"", source.name}
    )


def _outside(wanted: OriginSource, found: Iterable[Origin]) -> list[Origin]:
    return [each for each in found if not urls.admits(wanted.urls, each.url)]


def _proxied(wanted: OriginSource, found: Iterable[Origin]) -> bool:
    """Tell whether a proxy of a source may have answered for an address."""
    return wanted.own_proxy == "Deny" and any(each.own_proxy for each in found)


def _elsewhere(wanted: OriginSource, part: Part) -> str:
    """Return what is wrong with the origin of the current artifact."""
    found = origins.addressed(part.origins(part.artifacts[0])) if part.artifacts else ()
    if not found:
        return f"cannot show where its artifact came from: {origins.REMEDY}"
    if not _outside(wanted, found) and _proxied(wanted, found):
        return (
            "contains what was fetched through the proxy in spec.proxySecretRef, which may answer"
            " for any address: remove it, or have the policy admit it (ownProxy)"
        )
    foreign = next(iter(_outside(wanted, found)), found[0])
    at = urls.shown(foreign.url) or "an address that is not known or cannot be compared"
    return f"contains what was fetched from {at}, which is not admitted"
