"""The findings of a preflight, as a table or as a document."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Final, Literal, TypeAlias

from cli import output, table
from cli.terminal import printable
from toolkit.objects import Json

Result: TypeAlias = Literal["blocking", "warning", "info"]
"""``blocking`` ends the migration before its first step."""
_HEADER: Final = ("RESULT", "CHECK", "OBJECT", "MESSAGE")
_ORDER: Final[Sequence[Result]] = ("blocking", "warning", "info")


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that was found, and what to do about it."""

    result: Result
    check: str
    object: str
    message: str
    remedy: str = ""


def ordered(found: Iterable[Finding]) -> list[Finding]:
    """Return the findings, blocking ones first."""
    return sorted(found, key=lambda each: _ORDER.index(each.result))


def blocking(found: Iterable[Finding]) -> list[Finding]:
    """Return the findings that block the migration."""
    return [each for each in found if each.result == "blocking"]


def shown(found: Sequence[Finding]) -> str:
    """Return the findings as a table."""
    rows = [
        (row.result, row.check, row.object, f"{row.message}{row.remedy and ': '}{row.remedy}")
        for row in found
    ]
    cleaned = (tuple(map(printable, row)) for row in rows)
    return table.render(_HEADER, cleaned, show_header=True)


def document(found: Sequence[Finding], steps: Sequence[Json]) -> Json:
    """Return findings and steps for programs."""
    return {
        "blocking": len(blocking(found)),
        "findings": [asdict(row) for row in found],
        "steps": list(steps),
    }


def encode(found: Sequence[Finding], steps: Sequence[Json], fmt: str) -> str:
    """Return the document as ``json`` or ``yaml``."""
    return output.encode(document(found, steps), fmt)
