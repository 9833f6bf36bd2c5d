"""Parse, filter and format the controllers' JSON log lines. Pure.

Keys are Flux's: ``ts``, ``level``, ``msg``, ``error``, ``controllerKind``, ``name``, ``namespace``.
A line about a reconciliation is printed as Flux prints it. Other lines, such as a denial, have
fields of their own, which follow the message.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from cli import age
from cli.terminal import printable
from toolkit.objects import Json, dig

LEVELS: Final = ("debug", "info", "error")
_TOLD: Final = frozenset({"ts", "level", "msg", "error", "stacktrace"})
_AUDITED: Final = (("verb",), ("requestURI",), ("responseStatus", "code"), ("user", "username"))
"""The shown fields of an event of ``audit.k8s.io``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One log line; text that is not JSON has only a message."""

    time: str
    level: str
    kind: str
    namespace: str
    name: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """The lines to show; an empty field matches everything. Kinds compare without case."""

    kind: str = ""
    name: str = ""
    namespace: str = ""
    level: str = ""
    since: datetime | None = None

    def passes(self, line: Line) -> bool:
        """Tell whether the line is to be shown."""
        wanted = (
            (self.kind.lower(), line.kind.lower()),
            (self.name, line.name),
            (self.namespace, line.namespace),
            (self.level, line.level),
        )
        return all(want in ("", have) for want, have in wanted) and self._recent(line)

    def _recent(self, line: Line) -> bool:
        if self.since is None:
            return True
        try:
            return age.parse_time(line.time) >= self.since
        except ValueError:
            return False


def parse(text: str) -> Line | None:
    """Parse one line; ``None`` for an empty one."""
    text = text.strip()
    if not text:
        return None
    try:
        fields = json.loads(text)
    except (ValueError, RecursionError):
        fields = None
    if not isinstance(fields, dict):
        return Line(time="", level="", kind="", namespace="", name="", message=text)
    parts = [str(fields[key]) for key in ("msg", "error") if fields.get(key)]
    return Line(
        time=str(fields.get("ts") or ""),
        level=str(fields.get("level") or ""),
        kind=str(fields.get("controllerKind") or ""),
        namespace=str(fields.get("namespace") or ""),
        name=str(fields.get("name") or ""),
        message=" ".join([": ".join(parts), *_details(fields)]),
    )


def _details(fields: Json) -> Iterator[str]:
    """Return ``key=value`` of the other fields of a line, unless it is about a reconciliation."""
    if fields.get("controllerKind"):
        return
    for key, value in fields.items():
        if key not in _TOLD and isinstance(value, str | int | float):
            yield f"{key}={_shown(value)}"
    for path in _AUDITED:
        value = dig(fields, "audit", *path)
        if value:
            yield f"{path[-1]}={_shown(value)}"


def _shown(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return json.dumps(text, ensure_ascii=False) if " " in text or not text else text


def render(line: Line) -> str:
    """Return ``time level Kind/name.namespace - message``, as ``flux logs`` prints it."""
    where = f"{line.kind}/{line.name}.{line.namespace} - " if line.kind and line.name else ""
    head = " ".join(part for part in (line.time, line.level) if part)
    # A line break inside a message must not begin a line of the log.
    text = printable(f"{head} {where}{line.message}".strip(), keep="\n\t")
    return text.replace("\n", "\n  ")
