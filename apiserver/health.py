"""Health checks: ``/livez``, ``/readyz``, ``/healthz``, and each check below them.

A row is a check. ``?verbose`` lists all, ``?exclude=`` leaves some out, ``/readyz/<check>`` is a
single one. They need no authentication.

Ready means that discovery can be answered. Caches count only at the start: a namespace cannot be
deleted while its discovery is down (k/k#60807), and reads report missing data themselves.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Final

from aiohttp import web

PATHS: Final = ("/livez", "/readyz", "/healthz")
_PATIENCE: Final = 30.0
"""Seconds in which a new replica leaves requests to those whose caches are complete."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One check; ``problem`` returns its problem, in a text for all users."""

    name: str
    problem: Callable[[], str]


def is_health(path: str) -> bool:
    """Tell whether a path is that of a health check."""
    return any(path == each or path.startswith(f"{each}/") for each in PATHS)


def fill_check(missing: Callable[[], Sequence[str]], *, now: Callable[[], float]) -> Check:
    """Return the check of the caches, which is patient for half a minute from now on."""
    until = now() + _PATIENCE

    def problem() -> str:
        if now() >= until:
            return ""
        waiting = missing()
        return f"not complete yet: {', '.join(waiting)}" if waiting else ""

    return Check(name="caches", problem=problem)


class Health:
    """Answers the three paths."""

    def __init__(self, *, live: Sequence[Check], ready: Sequence[Check]) -> None:
        self._checks = {
            "/livez": tuple(live),
            "/readyz": (*live, *ready),
            "/healthz": tuple(live),
        }

    def answer(self, request: web.Request) -> web.Response:
        """Answer a request for one of our paths (``apiserver/pkg/server/healthz``)."""
        path, _, single = request.path.removeprefix("/").partition("/")
        checks = self._checks[f"/{path}"]
        if single:
            return _one([check for check in checks if check.name == single])
        excluded = set(request.query.getall("exclude", ()))
        return _all(path, checks, excluded, verbose="verbose" in request.query)


def ping() -> str:
    """Say that the event loop runs."""
    return ""


def _one(found: Sequence[Check]) -> web.Response:
    if not found:
        return web.Response(status=404, text="404 page not found\n")
    problem = found[0].problem()
    return web.Response(status=500, text=f"{problem}\n") if problem else web.Response(text="ok")


def _all(
    path: str, checks: Sequence[Check], excluded: Collection[str], *, verbose: bool
) -> web.Response:
    lines, failed = [], False
    for check in checks:
        if check.name in excluded:
            lines.append(f"[+]{check.name} excluded: ok")
            continue
        problem = check.problem()
        failed |= bool(problem)
        lines.append(f"[-]{check.name} failed: {problem}" if problem else f"[+]{check.name} ok")
    if failed:
        text = "\n".join([*lines, f"{path} check failed", ""])
        return web.Response(status=500, text=text)
    if verbose:
        return web.Response(text="\n".join([*lines, f"{path} check passed", ""]))
    return web.Response(text="ok")
