"""Findings as a table, as names, or as JSON and YAML.

In the table equal findings of many objects are one row, with their number and three of them.
Documents for programs have every finding.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from cli import output, table
from cli.check.judge import Finding
from cli.terminal import printable
from toolkit.objects import Json
from toolkit.policy import remedies

HEADER: Final = ("RESULT", "COUNT", "OBJECTS", "FIELD", "RULE", "MESSAGE")
_SHOWN: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The findings among ``checked`` objects, and the grants that would allow references.

    ``failures`` are builds that failed, ``passed_over`` is what was not checked; each has a reason.
    """

    checked: int
    findings: Sequence[Finding]
    grants: Sequence[Json]
    failures: Sequence[str] = ()
    passed_over: Sequence[str] = ()

    @property
    def refused(self) -> int:
        """Return how many objects would be refused."""
        return len({each.subject.ref.identity for each in self.findings if each.refused})

    @property
    def ungrantable(self) -> int:
        """Return how many objects would be refused even with the grants."""
        lasting = (each for each in self.findings if each.refused and each.target is None)
        return len({each.subject.ref.identity for each in lasting})

    def render(self, fmt: str) -> str:
        """Return all of it in one of ``output.FORMATS``, or as a table."""
        if fmt == "name":
            objects = {each.subject.ref.identity: each.subject.obj for each in self.findings}
            names = output.render(list(objects.values()), fmt, single=False)
            return "".join(f"{printable(name)}\n" for name in names.splitlines())
        if fmt:
            return output.encode(self._document(), fmt)
        return table.render(HEADER, self._rows(), show_header=True)

    def _document(self) -> Json:
        return {
            "checked": self.checked,
            "refused": self.refused,
            "findings": [_entry(each) for each in self.findings],
            "failedBuilds": list(self.failures),
            "notChecked": list(self.passed_over),
            "grants": list(self.grants),
        }

    def _rows(self) -> list[tuple[str, ...]]:
        alike: dict[tuple[object, ...], list[Finding]] = {}
        for each in self.findings:
            alike.setdefault(each.likeness, []).append(each)
        return [_row(group) for _, group in sorted(alike.items(), key=_warned)]


def _warned(alike: tuple[tuple[object, ...], list[Finding]]) -> bool:
    return not alike[1][0].refused


def _row(alike: Sequence[Finding]) -> tuple[str, ...]:
    first = alike[0]
    message = f"no ReferenceGrant allows '{first.target}'" if first.target else first.message
    cells = (
        "refused" if first.refused else "warning",
        str(len(alike)),
        _names(alike),
        first.field,
        first.rule,
        f"{message}: {first.remedy}",
    )
    return tuple(map(printable, cells))


def _names(alike: Sequence[Finding]) -> str:
    """Return the kind, the first names, and the place of the first object, if it has one."""
    subject = alike[0].subject
    named = list(dict.fromkeys(str(each.subject.ref.key) for each in alike))
    place = f" ({subject.place})" if subject.place.file else ""
    shown = [f"{subject.ref}{place}", *named[1:_SHOWN]]
    return ", ".join([*shown, "…"] if len(named) > _SHOWN else shown)


def _entry(finding: Finding) -> Json:
    subject, ref = finding.subject, finding.subject.ref
    entry: Json = {
        "result": "refused" if finding.refused else "warning",
        "apiVersion": ref.gvk.api_version,
        "kind": ref.gvk.kind,
        "namespace": ref.namespace,
        "name": ref.name,
        "field": finding.field,
        "rule": finding.rule,
        "message": finding.message,
        "remedy": finding.remedy,
    }
    if subject.by is not None:
        entry["appliedBy"] = str(subject.by)
    if subject.place.file:
        place = subject.place
        entry |= {"file": place.file, "line": place.line, "document": place.document}
    if finding.target is not None:
        entry["grant"] = remedies.line(remedies.grants(ref, [finding.target]))
    return entry
