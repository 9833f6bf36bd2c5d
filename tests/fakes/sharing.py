"""Visibility, teams and deploy tokens of a repository at GitHub, GitLab or Gitea."""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from aiohttp import web

from tests.fakes.hosted import Hosted
from toolkit.objects import Json

TEAMS: Mapping[str, int] = MappingProxyType({"builders": 11, "acme/runners": 12})
"""Teams of the organization, or groups, by name."""


def answer(
    request: web.Request,
    found: Hosted,
    rest: Sequence[str],
    asked: Json,
    next_id: Callable[[], int],
) -> web.Response | None:
    """Answer a request about a repository; nothing if it is about something else."""
    match (request.method, rest):
        case "PATCH" | "PUT", []:
            found.private = asked.get("private", asked.get("visibility") != "public")
            found.visibility = asked.get("visibility", "")
            return web.json_response({"id": found.id})
        case _, ["teams", *name]:
            return _teams(found, name)
        case _, ["share", *number]:
            return _share(found, number, asked)
        case _, ["deploy_tokens", *number]:
            return _tokens(request, found, number, asked, next_id)
    return None


def team(found: Hosted, name: str, asked: Json) -> web.Response:
    """Give a team of GitHub access."""
    if name not in TEAMS:
        return _missing()
    found.teams[name] = asked["permission"]
    return web.Response(status=204)


def group(name: str) -> web.Response:
    """Return a group of GitLab."""
    if name not in TEAMS:
        return _missing()
    return web.json_response({"id": TEAMS[name], "full_path": name})


def _teams(found: Hosted, name: list[str]) -> web.Response:
    if name and name[0] not in TEAMS:
        return _missing()
    if name:
        found.teams[name[0]] = ""
        return web.Response(status=204)
    rows = [{"slug": each, "name": each, "permission": p} for each, p in found.teams.items()]
    return web.json_response(rows)


def _share(found: Hosted, number: list[str], asked: Json) -> web.Response:
    if number:
        del found.teams[number[0]]
        return web.Response(status=204)
    if str(asked["group_id"]) in found.teams:
        return web.json_response({"message": "already shared"}, status=409)
    found.teams[str(asked["group_id"])] = asked["group_access"]
    return web.json_response(asked, status=201)


def _tokens(
    request: web.Request,
    found: Hosted,
    number: list[str],
    asked: Json,
    next_id: Callable[[], int],
) -> web.Response:
    if number:
        found.tokens[:] = [row for row in found.tokens if str(row["id"]) != number[0]]
        return web.Response(status=204)
    if request.method == "POST":
        own = next_id()
        made = {**asked, "id": own, "username": f"gitlab+deploy-token-{own}", "revoked": False}
        found.tokens.append(made)
        return web.json_response({**made, "token": f"gldt-{own}"}, status=201)
    return web.json_response(found.tokens)


def _missing() -> web.Response:
    return web.json_response({"message": "404 Not Found"}, status=404)
