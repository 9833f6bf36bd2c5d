"""Hosting services as their APIs are documented, in front of the real ``git http-backend``.

``Hosting`` is an async context manager. Repositories that are made through the API can be pushed to
at once. Answers, statuses and errors are those of GitHub Enterprise Server's REST API (3.x),
GitLab's (version 4) and Gitea's (version 1); pages have two entries.
"""

import json
import ssl
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Self
from urllib.parse import unquote

from aiohttp import web

from tests.fakes import bitbucket, sharing
from tests.fakes.gitserver import GitServer, Repository
from tests.fakes.hosted import PAGE, Hosted
from tests.fakes.pullrequests import PullRequests
from tests.fakes.serving import Seen, serving
from toolkit.objects import Json

SSH_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl"
_IN_USE = {
    "resource": "PublicKey",
    "code": "custom",
    "field": "key",
    "message": "key is already in use",
}
_TAKEN: dict[str, tuple[int, Json]] = {
    "github": (422, {"message": "Validation Failed", "errors": [_IN_USE]}),
    "gitlab": (400, {"message": {"deploy_key.fingerprint": ["has already been taken"]}}),
    "gitea": (422, {"message": "This key has already been added to this repository"}),
}
"""What a key that is registered already is refused with."""
_APIS = {
    "github": "/api/v3",
    "gitlab": "/api/v4",
    "gitea": "/api/v1",
    "bitbucket-server": "/rest",
}


class Hosting:
    """One service of a kind of ``_APIS``; ``user`` has the token."""

    def __init__(
        self,
        root: Path,
        kind: str,
        *,
        tls: ssl.SSLContext,
        token: str,
        user: str = "ada",
        address: str = "127.0.0.1",
    ) -> None:
        self.kind = kind
        self.token = token
        self.user = user
        self.organizations = {"acme": 7}
        self.repositories: dict[str, Hosted] = {}
        self.made: dict[str, Repository] = {}
        self.pulls: dict[str, PullRequests] = {}
        self.seen: list[Seen] = []
        self.refusals: list[tuple[str, int, Json, dict[str, str]]] = []
        """Method, status, body and headers of answers that requests about pull requests get."""
        self.elsewhere = ""
        """Where lists continue after their first page, instead of here."""
        self.hostname = ""
        self._tls = tls
        self._address = address
        self._ids = 0
        self._git = GitServer(root, basic=("git", token))
        self._open = AsyncExitStack()

    async def __aenter__(self) -> Self:
        port = await self._open.enter_async_context(
            serving(self._answer, tls=self._tls, host=self._address)
        )
        host = "localhost" if self._address == "127.0.0.1" else self._address
        self.hostname = f"{host}:{port}"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._open.aclose()

    def make(self, full_name: str, *, private: bool = True) -> Hosted:
        """Make an empty repository."""
        made = Hosted(self.next_id(), full_name, private)
        place = f"scm/{full_name}" if self.kind == "bitbucket-server" else full_name
        self.made[full_name] = self._git.repository(place)
        self.made[full_name].accept_pushes()
        self.repositories[full_name] = made
        owner = full_name.partition("/")[0]
        self.pulls[full_name] = PullRequests(self.kind, owner, self.made[full_name])
        return made

    def add_key(self, full_name: str, title: str, key: str, *, read_only: bool = True) -> None:
        """Register a deploy key."""
        if self.kind == "bitbucket-server":
            permission = "REPO_READ" if read_only else "REPO_WRITE"
            own = {"id": self.next_id(), "label": title, "text": key}
            self.repositories[full_name].keys.append({"key": own, "permission": permission})
            return
        right = {"can_push": not read_only} if self.kind == "gitlab" else {"read_only": read_only}
        row = {"id": self.next_id(), "title": title, "key": key, **right}
        self.repositories[full_name].keys.append(row)

    def next_id(self) -> int:
        """Return a number that nothing else has."""
        self._ids += 1
        return self._ids

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        api = _APIS[self.kind]
        if not request.raw_path.startswith(api):
            return await self._git.answer(request)
        body = await request.read()
        self.seen.append(Seen(request.method, request.raw_path, dict(request.headers), body))
        if not self._known(request):
            if self.kind == "bitbucket-server":
                return bitbucket.refused(401, "Authentication failed.")
            said = {"gitlab": "401 Unauthorized", "github": "Bad credentials"}
            return _refused(401, said.get(self.kind, "token is required"))
        path = request.raw_path.removeprefix(api).partition("?")[0]
        asked = json.loads(body) if body else {}
        if self.kind == "bitbucket-server":
            return bitbucket.answer(self, request, path, asked)
        if self.kind == "gitlab":
            return self._gitlab(request, path, asked)
        return self._github(request, path, asked)

    def _known(self, request: web.Request) -> bool:
        wanted = {
            "github": ("Authorization", f"Bearer {self.token}"),
            "gitlab": ("PRIVATE-TOKEN", self.token),
            "gitea": ("Authorization", f"token {self.token}"),
            "bitbucket-server": ("Authorization", f"Bearer {self.token}"),
        }
        name, value = wanted[self.kind]
        # Each of them takes a personal token in this way too.
        bearer = request.headers.get("Authorization") == f"Bearer {self.token}"
        return bearer or request.headers.get(name) == value

    def _github(self, request: web.Request, path: str, asked: Json) -> web.Response:
        parts = path.strip("/").split("/")
        facts: dict[str, Json] = {"user": {"login": self.user, "id": 1}}
        if self.kind == "github":
            facts["meta"] = {"ssh_keys": [SSH_KEY]}
        match (request.method, parts):
            case "GET", ["meta" | "user" as asked_for] if asked_for in facts:
                return web.json_response(facts[asked_for])
            case "POST", ["user", "repos"]:
                return self._create(f"{self.user}/{asked['name']}", private=asked["private"])
            case "POST", ["orgs", owner, "repos"] if owner in self.organizations:
                return self._create(f"{owner}/{asked['name']}", private=asked["private"])
            case _, ["orgs", _, "teams", team, "repos", owner, name]:
                if found := self.repositories.get(f"{owner}/{name}"):
                    return sharing.team(found, team, asked)
            case _, ["repos", owner, name, *rest]:
                found = self.repositories.get(f"{owner}/{name}")
                if found is not None:
                    return self._within(request, found, rest, asked)
        return _refused(404, "Not Found")

    def _gitlab(self, request: web.Request, path: str, asked: Json) -> web.Response:
        parts = [unquote(part) for part in path.strip("/").split("/")]
        if parts[0] == "groups":
            return sharing.group(parts[1])
        match (request.method, parts):
            case "GET", ["namespaces", owner]:
                number = 1 if owner == self.user else self.organizations.get(owner, 0)
                if not number:
                    return _refused(404, "404 Namespace Not Found")
                kind = "user" if number == 1 else "group"
                return web.json_response({"id": number, "kind": kind, "full_path": owner})
            case "POST", ["projects"]:
                owners = {1: self.user} | {v: k for k, v in self.organizations.items()}
                name = f"{owners[asked['namespace_id']]}/{asked['path']}"
                created = self._create(name, private=asked["visibility"] != "public")
                self.repositories[name].visibility = asked["visibility"]
                return created
            case _, ["projects", full_name, *rest]:
                found = self.repositories.get(full_name)
                if found is not None:
                    return self._within(request, found, rest, asked)
        return _refused(404, "404 Project Not Found")

    def _create(self, full_name: str, *, private: bool) -> web.Response:
        made = self.make(full_name, private=private)
        return web.json_response(_shown(made), status=201)

    def _within(
        self, request: web.Request, found: Hosted, rest: list[str], asked: Json
    ) -> web.Response:
        if rest[:1] in (["pulls"], ["merge_requests"]):
            if self.refusals and self.refusals[0][0] == request.method:
                _, status, said, headers = self.refusals.pop(0)
                return web.json_response(said, status=status, headers=headers)
            return self.pulls[found.full_name].answer(request, rest[1:], asked)
        shared = sharing.answer(request, found, rest, asked, self.next_id)
        return shared or self._of(request, found, rest, asked)

    def _of(
        self, request: web.Request, found: Hosted, rest: list[str], asked: Json
    ) -> web.Response:
        match (request.method, rest):
            case "GET", []:
                return web.json_response(_shown(found))
            case "GET", [_]:
                return self._page(request, found.keys)
            case "POST", [_]:
                if any(_same(row["key"], asked["key"]) for row in found.keys):
                    return web.json_response(_TAKEN[self.kind][1], status=_TAKEN[self.kind][0])
                row = {**asked, "id": self.next_id(), "key": " ".join(asked["key"].split()[:2])}
                found.keys.append(row)
                return web.json_response(row, status=201)
            case "DELETE", [_, number]:
                found.keys[:] = [row for row in found.keys if str(row["id"]) != number]
                return web.Response(status=204)
            case _:
                return _refused(404, "Not Found")

    def _page(self, request: web.Request, rows: list[Json]) -> web.Response:
        number = int(request.query.get("page", "1"))
        headers = {}
        if len(rows) > number * PAGE:
            base = self.elsewhere or f"https://{self.hostname}"
            following = f"{base}{request.rel_url.update_query(page=number + 1)}"
            headers["Link"] = f'<{following}>; rel="next", <{following}>; rel="last"'
        shown = rows[(number - 1) * PAGE : number * PAGE]
        return web.json_response(shown, headers=headers)


def _shown(found: Hosted) -> dict[str, Any]:
    shared = [
        {"group_id": int(n), "group_access_level": a} for n, a in found.teams.items() if n.isdigit()
    ]
    return {
        "id": found.id,
        "full_name": found.full_name,
        "private": found.private,
        "visibility": found.visibility,
        "shared_with_groups": shared,
    }


def _same(left: str, right: str) -> bool:
    return left.split()[:2] == right.split()[:2]


def _refused(status: int, message: str) -> web.Response:
    return web.json_response({"message": message}, status=status)
