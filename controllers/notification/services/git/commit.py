"""The commit status of a notice: the commit, the state and the name. Pure.

As Flux (notification-controller ``internal/notifier/util.go``).
"""

import re
from dataclasses import dataclass
from typing import Final

from controllers.notification.events.event import ORIGIN_REVISION, REVISION
from controllers.notification.events.matching import Notice
from controllers.notification.services.service import Target, UnsuitableError

_SHA: Final = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")
_WORD: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_PROGRESSING: Final = "Progressing"
_LONGEST_ID: Final = 255
_LONGEST_TEXT: Final = 140


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """The state of a commit."""

    sha: str
    failed: bool
    name: str
    """Tells it from the states that others set."""
    title: str
    description: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Repository:
    """The address of a repository: ``https://<host>[/<prefix>]``, owner (with groups) and name."""

    origin: str
    host: str
    owner: str
    name: str

    @property
    def path(self) -> str:
        """Return owner and name."""
        return f"{self.owner}/{self.name}"


def repository(target: Target) -> Repository:
    """Read the address of a Provider.

    Raises:
        UnsuitableError: it is not ``https://<host>/<owner>/<repository>``.
    """
    parts = target.parts()
    path = parts.path.strip("/").removesuffix(".git")
    owner, slash, name = path.rpartition("/")
    if not (parts.hostname and owner and slash and name):
        raise UnsuitableError(
            "the address names no repository: write https://<host>/<owner>/<repository>"
        )
    origin = f"{parts.scheme}://{parts.netloc}"
    return Repository(origin=origin, host=parts.hostname, owner=owner, name=name)


def sha(notice: Notice) -> str:
    """Return the commit that a notice is about; empty if it is about none."""
    named = (notice.metadata.get(key, "") for key in ("commit", ORIGIN_REVISION, REVISION))
    for text in named:
        last = re.split(r"[:/]", text)[-1]
        if _SHA.fullmatch(last):
            return last
    return ""


def reported(notice: Notice) -> str:
    """Return the commit that gets a state; empty if the notice sets none, such as of progress."""
    return "" if notice.event.reason == _PROGRESSING else sha(notice)


def state(notice: Notice, target: Target) -> State | None:
    """Return the state to set; None if the notice sets none."""
    commit, event = reported(notice), notice.event
    if not commit:
        return None
    about = event.involved_object
    return State(
        sha=commit,
        failed=notice.failed,
        name=_named(notice, target)[:_LONGEST_ID],
        title=f"{about.kind.lower()}/{about.name}",
        description=_WORD.sub(" ", event.reason).lower()[:_LONGEST_TEXT],
    )


def _named(notice: Notice, target: Target) -> str:
    about = notice.event.involved_object
    default = f"{about.kind.lower()}/{about.name}/{target.uid.partition('-')[0]}".rstrip("/")
    return target.status_id or default
