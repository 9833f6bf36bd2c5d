"""The settings of an ImageUpdateAutomation: reference to check out, push targets. Pure."""

from dataclasses import dataclass
from typing import Final

from crds.image_automation import ImageUpdateAutomation, PushSpec
from crds.source import GitRepository, GitRepositoryRef
from toolkit.errors import StalledError
from toolkit.remote.git.refs import BRANCHES, GitReference
from toolkit.remote.git.refspec import Refspec
from toolkit.remote.git.wire import Author, PushTarget

INVALID: Final = "InvalidSourceConfiguration"
DEFAULT_MESSAGE: Final = "Update from image update automation"
_DEFAULT_BRANCH: Final = "master"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """``branch`` is where commits go; it is ``separate`` if another one is checked out, ``base``.

    Without ``to_branch`` commits go to the target of the refspec alone.
    """

    checkout: GitReference
    branch: str
    base: str
    separate: bool
    to_branch: bool
    refspec: Refspec | None
    options: tuple[str, ...]
    author: Author
    template: str

    def targets(self, *, base: str, tip: str | None = None) -> tuple[PushTarget, ...]:
        """Return the push targets of a commit on top of the commit ``base``.

        A separate push branch is reset to the new commit by force, as in Flux. With ``tip`` it is
        updated only if it still is at that commit; an empty ``tip`` means that the branch does not
        exist yet.
        """
        found = []
        if self.to_branch:
            force = self.separate and tip is None
            expected = "" if force else tip if tip is not None else base
            found.append(PushTarget(ref=BRANCHES + self.branch, expected=expected, force=force))
        if self.refspec is not None:
            target = self.refspec.target
            # A ref for review, such as refs/for/main, has no commit to compare with.
            force = self.refspec.force or not target.startswith(BRANCHES)
            found.append(PushTarget(ref=target, expected=base, force=force))
        return tuple(found)


def plan(obj: ImageUpdateAutomation, source: GitRepository) -> Plan:
    """Return the settings.

    Raises:
        StalledError: fields are missing or contradict each other (reason
            InvalidSourceConfiguration).
    """
    git = obj.spec.git
    if git is None:
        raise StalledError(
            "spec.git is missing: it says who commits, and where to push", reason=INVALID
        )
    ref = git.checkout.ref if git.checkout else source.spec.ref
    push = git.push or PushSpec()
    checked_out = _branch(ref)
    branch = push.branch or checked_out
    if not branch:
        raise StalledError(
            "spec.git.push.branch is missing: what is checked out is not a branch to push to",
            reason=INVALID,
        )
    author = git.commit.author
    return Plan(
        checkout=_reference(ref),
        branch=branch,
        base=checked_out,
        separate=branch != checked_out,
        to_branch=bool(push.branch) or not push.refspec,
        refspec=_refspec(push, branch),
        options=tuple(f"{key}={value}" if value else key for key, value in push.options.items()),
        author=Author(name=author.name or author.email, email=author.email),
        template=git.commit.message_template or DEFAULT_MESSAGE,
    )


def _refspec(push: PushSpec, branch: str) -> Refspec | None:
    if not push.refspec:
        return None
    try:
        found = Refspec.parse(push.refspec)
    except ValueError as exc:
        raise StalledError(f"spec.git.push.refspec: {exc}", reason=INVALID) from exc
    if found.source != BRANCHES + branch:
        raise StalledError(
            f"spec.git.push.refspec pushes '{found.source}', but commits are made on "
            f"'{BRANCHES}{branch}': write that before the colon",
            reason=INVALID,
        )
    return found


def _branch(ref: GitRepositoryRef | None) -> str:
    """Return the branch in a reference; empty for any other kind of reference."""
    if ref is None:
        return _DEFAULT_BRANCH
    if ref.name:
        return ref.name.removeprefix(BRANCHES) if ref.name.startswith(BRANCHES) else ""
    if ref.commit or ref.tag or ref.semver:
        return ""
    return ref.branch or _DEFAULT_BRANCH


def _reference(ref: GitRepositoryRef | None) -> GitReference:
    if ref is None:
        return GitReference(branch=_DEFAULT_BRANCH)
    return GitReference(
        branch=ref.branch, tag=ref.tag, semver=ref.semver, name=ref.name, commit=ref.commit
    )
