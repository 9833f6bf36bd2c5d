"""Decide whether a source may exist, and whether who signed it is who had to (``SourcePolicy``).

Pure. ``judge`` looks at the object alone: at admission, and again before anything is fetched.
``judge_signer`` looks at what a verification proved, as the artifact's metadata tell it, so it
holds even where the keys that a source trusts are changed behind a policy's back.

All policies of a namespace hold together; within one, a single entry must be satisfied whole. What
an allowed source pulls in by itself (submodules, a chart's dependencies) is its author's to answer
for: their revisions or names are part of what was allowed, and signed where that is demanded.
"""

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import crds
from crds.meta import VERIFIED
from crds.policy_parts import Mode
from crds.policy_source import AllowedSource, SourcePolicy
from toolkit.objects import Json, dig
from toolkit.policy import signers, urls
from toolkit.policy.signers import Finding, Signed

GROUP: Final = "source.toolkit.fluxcd.io"
KINDS: Final = tuple(kind.kind for kind in crds.KINDS if kind.has_artifact)
"""The kinds of ``GROUP`` that policies are about."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """One policy that a source does not satisfy: the field, and why.

    ``value`` is for comparisons alone: it may hold a password, and is never told.
    """

    policy: str
    mode: Mode
    field: str
    why: str
    value: str = dataclasses.field(default="", repr=False)

    def __str__(self) -> str:
        return f"{self.field}: {self.why} (SourcePolicy '{self.policy}')"


def judge(obj: Json, policies: Iterable[SourcePolicy]) -> tuple[Violation, ...]:
    """Return what a source object violates, whoever signs its content."""
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


def judge_signer(
    obj: Json, metadata: Mapping[str, str], policies: Iterable[SourcePolicy]
) -> tuple[Violation, ...]:
    """Return what an artifact with these metadata violates that such an object brought.

    Policies that the object itself violates are left to ``judge``.
    """
    signed = Signed.of(metadata) if VERIFIED in metadata else None
    return tuple(
        Violation(
            policy=policy.metadata.name,
            mode=policy.spec.mode,
            field="status.artifact",
            why=why,
        )
        for policy in policies
        if (why := _unsigned(obj, signed, policy))
    )


def _finding(obj: Json, policy: SourcePolicy) -> Finding | None:
    """Return why no entry of a policy allows an object; None if one does."""
    kind = str(obj.get("kind") or "")
    entries = [entry for entry in policy.spec.sources if entry.kind == kind]
    if not entries:
        if policy.spec.other_kinds == "Allow":
            return None
        allowed = ", ".join(sorted({entry.kind for entry in policy.spec.sources}))
        return Finding("kind", f"{kind} is not allowed here; use one of: {allowed}")
    findings = []
    for entry in entries:
        finding = _against(obj, entry)
        if finding is None:
            return None
        findings.append(finding)
    # an entry whose URL matches is the one that was meant
    return next((each for each in findings if each.field != _url_field(kind)), findings[0])


def _against(obj: Json, entry: AllowedSource) -> Finding | None:
    """Return what speaks against an object by one entry of its kind."""
    if entry.urls and (finding := _foreign(obj, entry)) is not None:
        return finding
    if entry.own_proxy == "Deny" and dig(obj, "spec", "proxySecretRef"):
        return Finding("spec.proxySecretRef", "a proxy of one's own is not allowed; leave it out")
    return signers.weaker(obj, entry.verify) if entry.verify else None


def _foreign(obj: Json, entry: AllowedSource) -> Finding | None:
    """Return what speaks against a URL."""
    field, url = _url_field(entry.kind), url_of(obj)
    allowed = f"allowed are {', '.join(entry.urls)}"
    try:
        meant = urls.canonical(url)
    except urls.UnclearURLError as exc:
        # It stays out: it may hold a password or a token, and this goes to logs, events and audit.
        return Finding(field, f"it cannot be compared, {exc}; {allowed}", url)
    if any(urls.matches(pattern, meant) for pattern in entry.urls):
        return None
    # What is left of an '@' is the end of a password that holds a slash.
    shown = "it" if "@" in meant else f"'{meant}'"
    return Finding(field, f"{shown} is not allowed; {allowed}", url)


def url_of(obj: Json) -> str:
    """Return the URL that policies compare: a bucket's is made of two fields."""
    insecure = bool(dig(obj, "spec", "insecure", default=False))
    if obj.get("kind") == "Bucket":
        endpoint, name = (str(dig(obj, "spec", key, default="")) for key in _BUCKET)
        scheme = "" if "://" in endpoint else "http://" if insecure else "https://"
        return f"{scheme}{endpoint.rstrip('/')}/{name}"
    url = str(dig(obj, "spec", "url", default=""))
    return f"oci+http://{url.removeprefix('oci://')}" if insecure and _is_oci(url) else url


_BUCKET: Final = ("endpoint", "bucketName")


def _is_oci(url: str) -> bool:
    return url.startswith("oci://")


def _url_field(kind: str) -> str:
    return "spec.endpoint" if kind == "Bucket" else "spec.url"


def _unsigned(obj: Json, signed: Signed | None, policy: SourcePolicy) -> str:
    """Return why no entry that allows the object is content with who signed; empty if one is."""
    fitting = [
        entry
        for entry in policy.spec.sources
        if entry.kind == obj.get("kind") and _against(obj, entry) is None
    ]
    refusals = [signers.refused(signed, entry.verify) for entry in fitting]
    return "" if "" in refusals else next(iter(refusals), "")


def enforced(violations: Iterable[Violation]) -> tuple[Violation, ...]:
    """Return those that forbid."""
    return tuple(each for each in violations if each.mode == "Enforce")


def fresh(new: Iterable[Violation], old: Iterable[Violation]) -> Iterator[Violation]:
    """Yield violations that a change brings; those that were there already do not block it."""
    known: set[Any] = set(old)
    yield from (each for each in new if each not in known)
