"""The differences between hosting services: the URL of the API, and the form of pull requests.

Sources: docs.github.com/rest/pulls, docs.gitlab.com/api/merge_requests, and Gitea's own
``/api/swagger`` (``repoListPullRequests``).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final
from urllib.parse import quote

from toolkit.objects import Json, dig

_GITHUB: Final = "github.com"


@dataclass(frozen=True, slots=True, kw_only=True)
class Branches:
    """The branches of a pull request, in one repository ``owner/name``."""

    repository: str
    head: str
    base: str

    @property
    def owner(self) -> str:
        """Return the owner of the repository."""
        return self.repository.rpartition("/")[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """The API of one service.

    ``base`` returns the base URL of the API of a host. ``pulls`` is the path of a repository's pull
    requests below it, ``query`` selects the open ones. ``is_ours`` tells whether an entry of the
    answer is between these branches and not from another repository.
    """

    base: Callable[[str], str]
    pulls: Callable[[str], str]
    query: Callable[[Branches], Mapping[str, str]]
    is_ours: Callable[[Json, Branches], bool]
    number: str
    body: str
    opening: Callable[[Branches], Json]
    closing: Json
    editing: str = "PATCH"


def github_base(host: str) -> str:
    """Return the API of github.com, or of an Enterprise Server."""
    return f"https://api.{_GITHUB}" if host == _GITHUB else f"https://{host}/api/v3"


def gitlab_base(host: str) -> str:
    """Return the API of GitLab, version 4."""
    return f"https://{host}/api/v4"


def gitea_base(host: str) -> str:
    """Return the API of Gitea or Forgejo."""
    return f"https://{host}/api/v1"


def _between(entry: Json, branches: Branches) -> bool:
    """Tell whether GitHub's or Gitea's entry is between branches of one repository."""
    head, base = dig(entry, "head", default={}), dig(entry, "base", default={})
    own = dig(base, "repo", "id")
    same = own is not None and dig(head, "repo", "id") == own
    return same and (head.get("ref"), base.get("ref")) == (branches.head, branches.base)


def _merging(entry: Json, branches: Branches) -> bool:
    same = entry.get("source_project_id") == entry.get("target_project_id")
    named = entry.get("source_branch"), entry.get("target_branch")
    return same and named == (branches.head, branches.base)


def _head_and_base(branches: Branches) -> Json:
    return {"head": branches.head, "base": branches.base}


SERVICES: Final[Mapping[str, Service]] = MappingProxyType(
    {
        # github.com, and GitHub Enterprise Server at another host
        "github": Service(
            base=github_base,
            pulls=lambda repository: f"/repos/{repository}/pulls",
            query=lambda it: {
                "state": "open",
                "head": f"{it.owner}:{it.head}",
                "base": it.base,
                "per_page": "100",
            },
            is_ours=_between,
            number="number",
            body="body",
            opening=_head_and_base,
            closing={"state": "closed"},
        ),
        # gitlab.com, and GitLab at another host
        "gitlab": Service(
            base=gitlab_base,
            pulls=lambda repository: f"/projects/{quote(repository, safe='')}/merge_requests",
            query=lambda it: {
                "state": "opened",
                "source_branch": it.head,
                "target_branch": it.base,
                "per_page": "100",
            },
            is_ours=_merging,
            number="iid",
            body="description",
            opening=lambda it: {"source_branch": it.head, "target_branch": it.base},
            closing={"state_event": "close"},
            editing="PUT",
        ),
        # Gitea and Forgejo
        "gitea": Service(
            base=gitea_base,
            pulls=lambda repository: f"/repos/{repository}/pulls",
            query=lambda _: {"state": "open", "limit": "50"},
            is_ours=_between,
            number="number",
            body="body",
            opening=_head_and_base,
            closing={"state": "closed"},
        ),
    }
)
"""By the names that users write."""
