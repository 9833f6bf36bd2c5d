"""What Bitbucket Data Center answers below ``/rest`` (its REST API, 1.0), for ``fakes.hosting``."""

from typing import Protocol
from urllib.parse import unquote

from aiohttp import web

from tests.fakes.hosted import PAGE, Hosted
from toolkit.objects import Json

TAKEN = {
    "context": "key",
    "message": "This key is already in use.",
    "exceptionName": "com.atlassian.bitbucket.ssh.DuplicateSshKeyException",
}


class Service(Protocol):
    """The service that has the repositories."""

    user: str
    repositories: dict[str, Hosted]
    elsewhere: str

    def make(self, full_name: str, *, private: bool = True) -> Hosted:
        """Make a repository."""

    def next_id(self) -> int:
        """Return a number that nothing else has."""


def answer(service: Service, request: web.Request, path: str, asked: Json) -> web.Response:
    """Answer a request; the project ``ACME`` is called ``acme``."""
    parts = [unquote(part) for part in path.strip("/").split("/")]
    match (request.method, parts):
        case "GET", ["api", "1.0", "projects"]:
            return _page(request, [{"key": "ACME", "name": "acme"}, {"key": "X", "name": "acme2"}])
        case "GET", ["api", "1.0", "projects", "ACME"]:
            return web.json_response({"key": "ACME", "name": "acme"})
        case "POST", ["api", "1.0", "projects", key, "repos"] if key in ("ACME", _own(service)):
            made = service.make(f"{key}/{asked['name']}".lower(), private=not asked["public"])
            return web.json_response(_shown(made), status=201)
        case _, ["api" | "keys", "1.0", "projects", key, "repos", name, *rest]:
            found = service.repositories.get(f"{key}/{name}".lower())
            if found is not None:
                return _within(service, request, found, rest, asked)
    return refused(404, "Project or repository does not exist.")


def refused(status: int, message: str) -> web.Response:
    """Return an error in Bitbucket's form."""
    said = {"context": None, "message": message, "exceptionName": "x"}
    return web.json_response({"errors": [said]}, status=status)


def _own(service: Service) -> str:
    return f"~{service.user}"


def _within(
    service: Service, request: web.Request, found: Hosted, rest: list[str], asked: Json
) -> web.Response:
    match (request.method, rest):
        case "GET" | "PUT", []:
            if request.method == "PUT":
                found.private = not asked["public"]
            return web.json_response(_shown(found))
        case _, ["ssh", *number]:
            return _keys(service, request, found, number, asked)
        case _, ["permissions", "groups"]:
            if request.method == "PUT":
                found.teams[request.query["name"]] = request.query["permission"]
                return web.Response(status=204)
            rows = [{"group": {"name": n}, "permission": p} for n, p in found.teams.items()]
            return _page(request, rows)
    return refused(404, "Not Found")


def _keys(
    service: Service, request: web.Request, found: Hosted, number: list[str], asked: Json
) -> web.Response:
    if request.method == "DELETE":
        found.keys[:] = [row for row in found.keys if str(row["key"]["id"]) != number[0]]
        return web.Response(status=204)
    if request.method == "GET":
        return _page(request, found.keys)
    text = " ".join(asked["key"]["text"].split()[:2])
    if any(row["key"]["text"] == text for row in found.keys):
        return web.json_response({"errors": [TAKEN]}, status=409)
    key = {"id": service.next_id(), "label": asked["key"]["label"], "text": text}
    found.keys.append({"key": key, "permission": asked["permission"]})
    return web.json_response(found.keys[-1], status=201)


def _shown(found: Hosted) -> Json:
    return {"id": found.id, "slug": found.full_name.partition("/")[2], "public": not found.private}


def _page(request: web.Request, rows: list[Json]) -> web.Response:
    start = int(request.query.get("start", "0"))
    last = start + PAGE >= len(rows)
    following = {} if last else {"nextPageStart": start + PAGE}
    shown = {"values": rows[start : start + PAGE], "isLastPage": last, **following}
    return web.json_response(shown)
