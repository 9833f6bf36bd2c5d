"""Findings about the objects that Flux reconciles. Pure."""

from collections import Counter
from collections.abc import Iterator
from typing import Final

from cli.check import judge
from cli.check import schemas as remote
from cli.migrating.findings import Finding, Result
from cli.migrating.request import Request
from cli.migrating.survey import Survey
from cli.stack import install
from crds import KINDS
from toolkit.kube.options import Options
from toolkit.objects import Json, dig, key_of, ref_of
from toolkit.policy import references
from webhooks.validation import verdict

_VERSIONS: Final = {
    kind.crd_name: frozenset({kind.version, *(old.version for old in kind.older)}) for kind in KINDS
}


def versions(request: Request) -> Iterator[Finding]:
    """Check whether objects are stored in a version that Penstock does not serve."""
    for each in request.survey.definitions:
        known = _VERSIONS.get(key_of(each).name)
        stored = set(dig(each, "status", "storedVersions", default=()))
        if known is not None and stored - known:
            yield Finding(
                result="blocking",
                check="versions",
                object=str(ref_of(each)),
                message=f"may hold objects in {', '.join(sorted(stored - known))}, which "
                "Penstock does not serve",
                remedy="rewrite them with `penstock migrate` first",
            )


def kinds(request: Request) -> Iterator[Finding]:
    """Which kinds Penstock lacks."""
    for kind, count in sorted(request.survey.others.items()):
        yield Finding(
            result="warning",
            check="kinds",
            object=kind,
            message=f"{count} objects of a kind that Penstock does not reconcile",
            remedy="leave the controller of Flux running that does",
        )


def objects(request: Request) -> Iterator[Finding]:
    """Which objects do not reconcile now, and so tell nothing after the takeover."""
    for each in request.survey.subjects:
        obj = each.obj
        if dig(obj, "spec", "suspend", default=False):
            yield _object(obj, "info", "suspended", "is suspended, and remains suspended", "")
        elif _fails(obj):
            yield _object(
                obj, "warning", "ready", "is not ready now", "mend it first, or see it after"
            )


def _object(obj: Json, result: Result, check: str, message: str, remedy: str) -> Finding:
    return Finding(
        result=result,
        check=check,
        object=str(ref_of(obj)),
        message=message,
        remedy=remedy,
    )


def _fails(obj: Json) -> bool:
    rows = dig(obj, "status", "conditions", default=())
    return any(row.get("type") == "Ready" and row.get("status") == "False" for row in rows)


def refused(request: Request) -> Iterator[Finding]:
    """Which objects the gate would refuse, in one row for each way."""
    alike: dict[tuple[object, ...], list[judge.Finding]] = {}
    for each in _refusals(request.survey, request.choice.namespace):
        alike.setdefault(each.likeness, []).append(each)
    for group in alike.values():
        first, more = group[0], f" (and {len(group) - 1} more)" if len(group) > 1 else ""
        reference = first.target is not None
        blocks = not request.grants if reference else first.rule == verdict.UNREADABLE.name
        yield Finding(
            result="blocking" if blocks else "warning",
            check="references" if reference else "validation",
            object=f"{first.subject.ref}{more}",
            message=f"{first.field}: no ReferenceGrant allows '{first.target}'"
            if reference
            else f"{first.field}: {first.message}",
            remedy="the step `grant` writes it" if reference and request.grants else _remedy(first),
        )


def _remedy(finding: judge.Finding) -> str:
    if finding.target is None:
        return finding.remedy
    return "use --allow-references, which grants the references that there are, or remove them"


def schemas(request: Request) -> Iterator[Finding]:
    """Which charts refer to schemas on other hosts, which Penstock does not ask."""
    read = request.survey.schemas
    for release, messages in sorted(read.told.items()):
        for message in messages:
            yield Finding(
                result="warning",
                check="schemas",
                object=release,
                message=message,
                remedy=remote.REMEDY,
            )
    if read.unread:
        yield Finding(
            result="info",
            check="schemas",
            object=read.unread[0]
            + (f" (and {len(read.unread) - 1} more)" if len(read.unread) > 1 else ""),
            message="Helm's record cannot be read, so whether the chart refers to schemas on other "
            "hosts is not checked",
            remedy="see the condition ValuesValidated of the HelmRelease after the takeover",
        )


def secrets(request: Request) -> Iterator[Finding]:
    """Which objects depend on Secrets, which stay where they are."""
    counts: Counter[tuple[str, str]] = Counter()
    for each in request.survey.subjects:
        for path in (("secretRef",), ("decryption", "secretRef"), ("kubeConfig", "secretRef")):
            if dig(each.obj, "spec", *path, "name"):
                counts[each.ref.namespace, ".".join(path)] += 1
    for (namespace, field), count in sorted(counts.items()):
        what = "object names a Secret" if count == 1 else "objects name Secrets"
        yield Finding(
            result="info",
            check="secrets",
            object=f"Namespace/{namespace}",
            message=f"{count} {what} in spec.{field}, which Penstock reads too",
            remedy="do not delete them with Flux",
        )


def missing_grants(survey: Survey, namespace: str) -> list[Json]:
    """Return the ReferenceGrants that the references of the cluster lack."""
    return judge.remedy(_refusals(survey, namespace))


def _refusals(survey: Survey, namespace: str) -> list[judge.Finding]:
    places = sorted({namespace, install.SHARED})
    shipped = [
        install.in_namespace(obj, place)
        for place in places
        for obj in install.manifests(install.POLICY)
    ]
    given = [] if survey.knows_grants else shipped
    grants = judge.granted(survey.subjects, given)
    policy = references.under(lambda place: grants.get(place, ()), Options())
    return judge.Judge(policy=policy).judge(survey.subjects)
