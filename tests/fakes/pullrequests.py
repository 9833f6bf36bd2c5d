"""Pull requests of one repository as the APIs of hosting services are documented.

GitHub Enterprise Server's REST API (3.x), GitLab's (version 4), Gitea's (version 1): fields,
statuses and refusals. Whether branches are there, and differ, is asked of the real repository.
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field

from aiohttp import web

from tests.fakes.gitrepository import Repository
from toolkit.objects import Json

_STATES = {"github": "open", "gitlab": "opened", "gitea": "open"}


@dataclass(slots=True)
class Pull:
    """One pull request; ``fork`` is whether it comes from another repository."""

    number: int
    head: str
    base: str
    title: str
    body: str
    state: str
    fork: bool = False


@dataclass(slots=True)
class PullRequests:
    """Those of one repository, whose id is 1."""

    kind: str
    owner: str
    repository: Repository
    pulls: list[Pull] = field(default_factory=list)
    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def merge(self, number: int, *, squash: bool = False, keep: bool = True) -> None:
        """Merge one as the service does; without ``keep`` its branch is deleted."""
        found = next(each for each in self.pulls if each.number == number)
        git = self.repository.git
        if squash:
            tree = git("rev-parse", f"{found.head}^{{tree}}").decode().strip()
            made = git("commit-tree", tree, "-p", found.base, "-m", found.title)
        else:
            tree = git("merge-tree", "--write-tree", found.base, found.head).decode().split()[0]
            parents = ("-p", found.base, "-p", found.head)
            made = git("commit-tree", tree, *parents, "-m", f"Merge #{number}")
        git("update-ref", f"refs/heads/{found.base}", made.decode().strip())
        if not keep:
            git("branch", "-D", found.head)
        found.state = "merged" if self.kind == "gitlab" else "closed"

    def add(self, head: str, base: str, title: str, body: str = "", *, fork: bool = False) -> Pull:
        """Open one."""
        number, state = next(self.numbers), _STATES[self.kind]
        self.pulls.append(Pull(number, head, base, title, body, state, fork))
        return self.pulls[-1]

    @property
    def open(self) -> list[Pull]:
        """Return the open ones."""
        return [each for each in self.pulls if each.state == _STATES[self.kind]]

    def answer(self, request: web.Request, rest: list[str], asked: Json) -> web.Response:
        """Answer a request to the list, or to one of it."""
        match request.method, rest:
            case "GET", []:
                return self._listed(request)
            case "POST", []:
                return self._opened(asked)
            case "PATCH" | "PUT" as method, [number]:
                return self._edited(method, int(number), asked)
        return web.json_response({"message": "Not Found"}, status=404)

    def _listed(self, request: web.Request) -> web.Response:
        query = request.query
        found = [each for each in self.pulls if each.state == query["state"]]
        if self.kind == "github":
            owner, _, head = query["head"].partition(":")
            assert owner == self.owner
            found = [each for each in found if (each.head, each.base) == (head, query["base"])]
        if self.kind == "gitlab":
            wanted = query["source_branch"], query["target_branch"]
            found = [each for each in found if (each.head, each.base) == wanted]
        page, size = int(query["page"]), 2
        return web.json_response([self._shown(e) for e in found[(page - 1) * size : page * size]])

    def _opened(self, asked: Json) -> web.Response:
        lab = self.kind == "gitlab"
        head, base = (
            (asked["source_branch"], asked["target_branch"])
            if lab
            else (asked["head"], asked["base"])
        )
        if any((e.head, e.base, e.fork) == (head, base, False) for e in self.open):
            said = {
                "github": (422, "Validation Failed"),
                "gitlab": (409, "Another open merge request already exists"),
                "gitea": (409, "pull request already exists for these targets"),
            }
            return web.json_response({"message": said[self.kind][1]}, status=said[self.kind][0])
        if not self.repository.revision(head) or not self.repository.revision(base):
            return web.json_response({"message": "Not Found"}, status=404 if lab else 422)
        if self.repository.revision(head) == self.repository.revision(base) and not lab:
            return web.json_response({"message": "No commits between"}, status=422)
        body = asked["description" if lab else "body"]
        made = self.add(head, base, asked["title"], body)
        return web.json_response(self._shown(made), status=201)

    def _edited(self, method: str, number: int, asked: Json) -> web.Response:
        found = next((each for each in self.pulls if each.number == number), None)
        if found is None or method != ("PUT" if self.kind == "gitlab" else "PATCH"):
            return web.json_response({"message": "Not Found"}, status=404)
        found.title = asked.get("title", found.title)
        found.body = asked.get("description" if self.kind == "gitlab" else "body", found.body)
        if asked.get("state") == "closed" or asked.get("state_event") == "close":
            found.state = "closed"
        status = 201 if self.kind == "gitea" else 200
        return web.json_response(self._shown(found), status=status)

    def _shown(self, pull: Pull) -> Json:
        source = 2 if pull.fork else 1
        if self.kind == "gitlab":
            return {
                "id": 100 + pull.number,
                "iid": pull.number,
                "source_branch": pull.head,
                "target_branch": pull.base,
                "source_project_id": source,
                "target_project_id": 1,
                "title": pull.title,
                "description": pull.body,
                "state": pull.state,
            }
        return {
            "id": 100 + pull.number,
            "number": pull.number,
            "head": {"ref": pull.head, "repo": {"id": source}},
            "base": {"ref": pull.base, "repo": {"id": 1}},
            "title": pull.title,
            "body": pull.body,
            "state": pull.state,
        }
