"""Comments on a pull or merge request: one for each Provider and object, updated each time.

Schemas: docs.github.com/rest/issues/comments, docs.gitlab.com/api/notes, Gitea's ``/api/swagger``
(``issueGetComments``). The number of the request is the metadata ``change_request``, as in Flux. A
mark that Markdown does not show identifies the comment.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from controllers.notification.events.matching import Notice
from controllers.notification.services import texts
from controllers.notification.services.git import commit
from controllers.notification.services.git import gitea as gitea_statuses
from controllers.notification.services.git import github as github_statuses
from controllers.notification.services.git import gitlab as gitlab_statuses
from controllers.notification.services.service import Ask, Target, decoded, post

CHANGE: Final = "change_request"
_MOST_PAGES: Final = 20
_PAGE: Final = 100


class _Comment(msgspec.Struct):
    id: int
    body: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Host:
    """The URLs to list the comments of one request, and to update one of them."""

    comments: str
    edited: str
    """The address of one comment, before its id."""
    method: str
    headers: Mapping[str, str]
    page: str


async def github(notice: Notice, target: Target, ask: Ask) -> None:
    """Comment on a pull request of GitHub."""
    if number := _number(notice):
        place = commit.repository(target)
        base = f"{github_statuses.api(place)}/repos/{place.path}"
        host = _issues(base, number, github_statuses.login(target), page="per_page")
        await _comment(notice, target, ask, host)


async def gitlab(notice: Notice, target: Target, ask: Ask) -> None:
    """Comment on a merge request of GitLab."""
    if number := _number(notice):
        base = gitlab_statuses.api(commit.repository(target))
        notes = f"{base}/merge_requests/{number}/notes"
        host = _Host(
            comments=notes,
            edited=f"{notes}/",
            method="PUT",
            headers=gitlab_statuses.login(target),
            page="per_page",
        )
        await _comment(notice, target, ask, host)


async def gitea(notice: Notice, target: Target, ask: Ask) -> None:
    """Comment on a pull request of Gitea."""
    if number := _number(notice):
        base = gitea_statuses.api(commit.repository(target))
        host = _issues(base, number, gitea_statuses.login(target), page="limit")
        await _comment(notice, target, ask, host)


def _issues(base: str, number: str, headers: Mapping[str, str], *, page: str) -> _Host:
    """Return where comments are whose API GitHub made: a pull request is an issue too."""
    return _Host(
        comments=f"{base}/issues/{number}/comments",
        edited=f"{base}/issues/comments/",
        method="PATCH",
        headers=headers,
        page=page,
    )


def _number(notice: Notice) -> str:
    number = notice.metadata.get(CHANGE, "")
    return number if number.isascii() and number.isdigit() and len(number) < 10 else ""


async def _comment(notice: Notice, target: Target, ask: Ask, host: _Host) -> None:
    mark = _mark(notice, target)
    body = {"body": f"{_text(notice)}\n\n{mark}"}
    known = await _find(ask, host, mark)
    if known is None:
        await post(ask, host.comments, body, host.headers)
    elif known.body != body["body"]:
        await post(ask, f"{host.edited}{known.id}", body, host.headers, method=host.method)


async def _find(ask: Ask, host: _Host, mark: str) -> _Comment | None:
    for page in range(1, _MOST_PAGES + 1):
        url = f"{host.comments}?page={page}&{host.page}={_PAGE}"
        answer = await ask("GET", url, headers=host.headers)
        found = decoded(answer.body, list[_Comment])
        for each in found:
            if mark in each.body:
                return each
        if len(found) < _PAGE:
            break
    return None


def _mark(notice: Notice, target: Target) -> str:
    """Return the invisible mark that identifies the comment."""
    about = notice.event.involved_object
    key = hashlib.sha256(f"{target.uid}/{about}".encode()).hexdigest()[:32]
    return f"<!-- penstock:{key} -->"


def _text(notice: Notice) -> str:
    about = notice.event.involved_object
    mark = ":warning:" if notice.failed else ":information_source:"
    message = notice.event.message.replace("```", "'''")
    lines = [
        f"## {mark} {about.kind}/{about.namespace}/{about.name} — {notice.event.reason}",
        "",
        f"```\n{message}\n```",
    ]
    facts = [
        f"* {texts.on_one_line(key)}: `{texts.on_one_line(value).replace('`', '')}`"
        for key, value in sorted(notice.metadata.items())
    ]
    return "\n".join([*lines, "", *facts] if facts else lines)
