"""The controllers' JSON log lines: parsed, filtered, printed for people. Pure.

Keys are Flux's: ``ts``, ``level``, ``msg``, ``error``, ``controllerKind``, ``name``, ``namespace``.
"""

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from cli import age

LEVELS: Final = ("debug", "info", "error")


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One log line; text that is no JSON has only a message."""

    time: str
    level: str
    kind: str
    namespace: str
    name: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Which lines to show; an empty field lets everything pass. Kinds compare without case."""

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
    except ValueError:
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
        message=": ".join(parts),
    )


def render(line: Line) -> str:
    """Return ``time level Kind/name.namespace - message``, as ``flux logs`` prints it."""
    where = f"{line.kind}/{line.name}.{line.namespace} - " if line.kind and line.name else ""
    head = " ".join(part for part in (line.time, line.level) if part)
    return f"{head} {where}{line.message}".strip()
