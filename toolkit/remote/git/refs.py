"""Choose the commit of a spec from a server's list of references.

Pure: no object is needed for the choice. Precedence and revision strings are Flux's (``reference``
of ``GitRepository.spec.ref``): commit, name, semver, tag, branch, and without any of them the
branch ``master``.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from dulwich.refs import Ref, check_ref_format

from toolkit.remote import semver
from toolkit.remote.git.errors import GitSpecError, RefNotFoundError

BRANCHES: Final = "refs/heads/"
TAGS: Final = "refs/tags/"
PEELED: Final = "^{}"
"""Suffix of a line that tells which commit an annotated tag points to."""

_SHA1: Final = re.compile(r"[0-9a-f]{40}")
_SHOWN_REFS: Final = 200
_LONGEST: Final = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class GitReference:
    """The reference to check out; empty fields are not set."""

    branch: str = ""
    tag: str = ""
    semver: str = ""
    name: str = ""
    commit: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolved:
    """The result of resolving a reference.

    ``ref`` is its full name, empty for a bare commit. ``tag_object`` is the id of the annotated
    tag, otherwise empty. ``told`` tells that the server returned the commit; if the spec names the
    commit, the server was not asked.
    """

    revision: str
    commit: str
    ref: str
    tag_object: str = ""
    told: bool = True


def possible(name: str) -> bool:
    """Tell whether a branch, a tag or a full reference can be called this (check-ref-format(1))."""
    if len(name) > _LONGEST or not name.isprintable():
        return False
    return check_ref_format(Ref(f"refs/{name}".encode()))


def prefixes(reference: GitReference) -> tuple[str, ...]:
    """Return which names to ask a server for; empty if it need not be asked at all."""
    if reference.commit:
        return ()
    if reference.name:
        return (reference.name,)
    if reference.semver:
        return (TAGS,)
    if reference.tag:
        return (TAGS + reference.tag,)
    return (BRANCHES + (reference.branch or "master"),)


def choose(reference: GitReference, refs: Mapping[str, str]) -> Resolved:
    """Choose the commit of the reference, given names and object ids of a server.

    Raises:
        RefNotFoundError: the server does not have the reference.
        GitSpecError: the commit or the range is invalid.
    """
    if reference.commit:
        return _commit(reference)
    if reference.semver and not reference.name:
        return _version(reference.semver, refs)
    [name] = prefixes(reference)
    if name not in refs:
        raise RefNotFoundError(f"{describe(reference)} not found in the repository")
    short = name if reference.name else name.removeprefix(TAGS).removeprefix(BRANCHES)
    return _at(name, short, refs)


def describe(reference: GitReference) -> str:
    """Return the reference for messages."""
    for kind in ("commit", "name", "semver", "tag", "branch"):
        value = getattr(reference, kind)
        if value:
            return {"name": "reference", "semver": "tag in the range"}.get(
                kind, kind
            ) + f" '{value}'"
    return "branch 'master'"


def _commit(reference: GitReference) -> Resolved:
    if not _SHA1.fullmatch(reference.commit):
        raise GitSpecError(
            f"'{reference.commit[:64]}' is not a full commit id of 40 lower-case hex digits"
        )
    revision = f"sha1:{reference.commit}"
    if not reference.branch:
        return Resolved(revision=revision, commit=reference.commit, ref="", told=False)
    return Resolved(
        revision=f"{reference.branch}@{revision}",
        commit=reference.commit,
        ref=BRANCHES + reference.branch,
        told=False,
    )


def _version(text: str, refs: Mapping[str, str]) -> Resolved:
    try:
        within = semver.Range.parse(text)
    except ValueError as exc:
        raise GitSpecError(f"invalid semver range: {exc}") from exc
    tags = [name.removeprefix(TAGS) for name in refs if name.startswith(TAGS)]
    tag = semver.highest((tag for tag in tags if not tag.endswith(PEELED)), within)
    if tag is None:
        raise RefNotFoundError(f"no tag of the repository lies in the range '{text}'")
    return _at(TAGS + tag, tag, refs)


def _at(name: str, short: str, refs: Mapping[str, str]) -> Resolved:
    peeled = refs.get(name + PEELED)
    commit = peeled or refs[name]
    return Resolved(
        revision=f"{short}@sha1:{commit}",
        commit=commit,
        ref=name,
        tag_object=refs[name] if peeled else "",
    )
