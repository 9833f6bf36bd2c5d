"""Decide whether a source and the signer of its artifacts are allowed (``SourcePolicy``).

Pure. ``judge`` checks only the object: at admission, and again before anything is fetched.
``judge_artifact`` checks only an artifact: the origin and the proved signer in its metadata
(``origins``). So it is valid even if the spec, or the keys that a source trusts, have changed
since.

A source must satisfy all policies of a namespace; within a policy it must satisfy one entry
completely. The author of an allowed source is responsible for content that the source pulls in
(submodules, dependencies of a chart): their revisions or names are part of the allowed content, and
are signed with it if a signature is required.
"""

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import crds
from crds import EXTERNAL_ARTIFACT
from crds.meta import VERIFIED
from crds.policy_parts import Mode
from crds.policy_source import AllowedSource, SourcePolicy
from toolkit.objects import Json, dig
from toolkit.policy import origins, signers, unreadable, urls
from toolkit.policy.origins import Origin
from toolkit.policy.signers import Finding, Signed

GROUP: Final = "source.toolkit.fluxcd.io"
KINDS: Final = tuple(kind.kind for kind in crds.KINDS if kind.has_artifact)
"""The kinds of ``GROUP`` that policies are about."""
_UNTOLD: Final = EXTERNAL_ARTIFACT.kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """A policy that a source does not satisfy: the field, and the reason.

    ``value`` is only for comparisons: it may contain a password, and is never shown.
    """

    policy: str
    mode: Mode
    field: str
    why: str
    value: str = dataclasses.field(default="", repr=False)

    def __str__(self) -> str:
        return f"{self.field}: {self.why} (SourcePolicy '{self.policy}')"


def judge(obj: Json, policies: Iterable[SourcePolicy]) -> tuple[Violation, ...]:
    """Return the violations of a source object, regardless of the signer of its content."""
    return tuple(
        Violation(
            policy=policy.metadata.name,
            mode=policy.spec.mode,
            field=finding.field,
            why=finding.why,
            value=finding.value,
        )
        for policy in policies
        if (finding := _finding(obj, policy)) is not None
    )


def judge_artifact(
    kind: str, metadata: Mapping[str, str], policies: Iterable[SourcePolicy]
) -> tuple[Violation, ...]:
    """Return the violations of an artifact of a source of ``kind`` with these metadata.

    Third parties write the metadata of ExternalArtifacts, so policies have no requirements for
    them.
    """
    if kind == _UNTOLD:
        return ()
    found = origins.read(metadata)
    return tuple(
        Violation(
            policy=policy.metadata.name,
            mode=policy.spec.mode,
            field="status.artifact",
            why=why,
        )
        for policy in policies
        if (why := _unfit(found, policy))
    )


def _finding(obj: Json, policy: SourcePolicy) -> Finding | None:
    """Return why no entry of a policy allows an object; None if one does."""
    kind = str(obj.get("kind") or "")
    if why := unreadable.why(policy):
        return Finding("spec", why, origins.url_of(obj))
    entries = [entry for entry in policy.spec.sources if entry.kind == kind]
    if not entries:
        why = _of_other_kind(kind, policy)
        return Finding("kind", why) if why else None
    findings = []
    for entry in entries:
        finding = _against(obj, entry)
        if finding is None:
            return None
        findings.append(finding)
    # an entry whose URL matches is the one that was meant
    return next((each for each in findings if each.field != _url_field(kind)), findings[0])


def _against(obj: Json, entry: AllowedSource) -> Finding | None:
    """Return why an object does not satisfy an entry of its kind; None if it does."""
    if entry.urls and (finding := _foreign(obj, entry)) is not None:
        return finding
    if entry.own_proxy == "Deny" and dig(obj, "spec", "proxySecretRef"):
        return Finding("spec.proxySecretRef", "a proxy is not allowed; remove it")
    return signers.weaker(obj, entry.verify) if entry.verify else None


def _foreign(obj: Json, entry: AllowedSource) -> Finding | None:
    """Return why a URL does not satisfy an entry; None if it does."""
    field, url = _url_field(entry.kind), origins.url_of(obj)
    allowed = f"allowed are {', '.join(entry.urls)}"
    try:
        meant = urls.canonical(url)
    except urls.UnclearURLError as exc:
        # The URL is not shown: it may contain a password or a token, and messages go to logs and
        # events.
        return Finding(field, f"it cannot be compared, {exc}; {allowed}", url)
    if any(urls.matches(pattern, meant) for pattern in entry.urls):
        return None
    return Finding(field, f"{urls.shown(meant) or 'it'} is not allowed; {allowed}", url)


def _url_field(kind: str) -> str:
    return "spec.endpoint" if kind == "Bucket" else "spec.url"


def _of_other_kind(kind: str, policy: SourcePolicy) -> str:
    """Return why a kind that no entry of a policy names is refused; empty if it is not."""
    if policy.spec.other_kinds == "Allow":
        return ""
    allowed = ", ".join(sorted({entry.kind for entry in policy.spec.sources}))
    return f"{kind} is not allowed here; use one of: {allowed}"


def _unfit(found: Iterable[Origin], policy: SourcePolicy) -> str:
    """Return why a policy does not allow content of these origins; empty if it does."""
    if why := unreadable.why(policy):
        return why
    refusals = [_unfit_origin(each, policy) for each in found]
    return next(filter(None, refusals), "") if refusals else origins.REMEDY


def _unfit_origin(origin: Origin, policy: SourcePolicy) -> str:
    entries = [entry for entry in policy.spec.sources if entry.kind == origin.kind]
    if not entries:
        return _of_other_kind(origin.kind, policy)
    allowing = [entry for entry in entries if not _elsewhere(origin, entry)]
    refusals = [_unsigned(origin, entry) for entry in allowing]
    return "" if "" in refusals else next(iter(refusals), _elsewhere(origin, entries[0]))


def _elsewhere(origin: Origin, entry: AllowedSource) -> str:
    """Return why the origin of content does not satisfy an entry; empty if it does."""
    if entry.urls and not urls.admits(entry.urls, origin.url):
        at = urls.shown(origin.url) or "an address that is not known or cannot be compared"
        return f"it was fetched from {at}; allowed are {', '.join(entry.urls)}"
    if entry.own_proxy == "Deny" and origin.own_proxy:
        return "it was fetched through the proxy in spec.proxySecretRef, which is not allowed here"
    return ""


def _unsigned(origin: Origin, entry: AllowedSource) -> str:
    signed = Signed.of(origin) if VERIFIED in origin.facts else None
    return signers.refused(signed, entry.verify)


def enforced(violations: Iterable[Violation]) -> tuple[Violation, ...]:
    """Return the violations that refuse the source."""
    return tuple(each for each in violations if each.mode == "Enforce")


def fresh(new: Iterable[Violation], old: Iterable[Violation]) -> Iterator[Violation]:
    """Yield the violations that a change adds; existing ones do not block it."""
    known: set[Any] = set(old)
    yield from (each for each in new if each not in known)
