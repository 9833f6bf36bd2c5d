"""Rules for an ImageUpdateAutomation."""

from collections.abc import Iterator, Sequence
from typing import Final

from crds import IMAGE_UPDATE_AUTOMATION
from crds.image_automation import PULL_REQUEST, ImageUpdateAutomation
from crds.source import GitRepositoryRef
from toolkit.errors import PenstockError
from toolkit.objects import Json, dig
from toolkit.remote.git import refs as gitrefs
from toolkit.remote.git import refspec
from toolkit.remote.hosting.services import SERVICES
from toolkit.render import setters
from webhooks.validation import paths, refs, schedule
from webhooks.validation.rule import Checks, Fault, Judged, Judges, Named, Rule, annotation, when

_FORBIDDEN: Final = frozenset("<>\n\0")
_PULL_REQUEST: Final = annotation(PULL_REQUEST)


def _git(obj: ImageUpdateAutomation) -> Iterator[Fault]:
    yield from when(
        obj.spec.git is None, "spec.git", "it sets neither the author of commits nor the branch"
    )


def _author(obj: ImageUpdateAutomation) -> Iterator[Fault]:
    if obj.spec.git is None:
        return
    author = obj.spec.git.commit.author
    field = "spec.git.commit.author"
    yield from when(not author.email.strip(), f"{field}.email", "it is empty")
    for name, text in (("name", author.name), ("email", author.email)):
        bad = _FORBIDDEN & set(text)
        yield from when(bad, f"{field}.{name}", "a commit cannot hold it", text)


def _checkout(obj: ImageUpdateAutomation) -> GitRepositoryRef | None:
    git = obj.spec.git
    return git.checkout.ref if git and git.checkout else None


def _branches(obj: ImageUpdateAutomation) -> Iterator[Fault]:
    ref = _checkout(obj)
    named = [("spec.git.checkout.ref.branch", ref.branch if ref else "")]
    push = obj.spec.git.push if obj.spec.git else None
    named.append(("spec.git.push.branch", push.branch if push else ""))
    for field, text in named:
        impossible = text and not gitrefs.possible(f"heads/{text}")
        yield from when(impossible, field, "Git allows no such name", text)


def _refspec(obj: ImageUpdateAutomation) -> Iterator[Fault]:
    push = obj.spec.git.push if obj.spec.git else None
    if push is None or not push.refspec:
        return
    field = "spec.git.push.refspec"
    try:
        found = refspec.Refspec.parse(push.refspec)
    except ValueError as exc:
        yield Fault(field, str(exc), push.refspec)
        return
    ref = _checkout(obj)
    branch = push.branch or (ref.branch if ref else "")
    # Without both, it is the branch of the GitRepository.
    expected = f"{gitrefs.BRANCHES}{branch}"
    why = f"it pushes '{found.source}', but commits are made on '{expected}'"
    yield from when(branch and found.source != expected, field, why)


def _target(obj: ImageUpdateAutomation) -> Iterator[Fault]:
    """Find automations that check out no branch, and name no branch to push to."""
    ref = _checkout(obj)
    push = obj.spec.git.push if obj.spec.git else None
    if ref is None or (push and (push.branch or push.refspec)):
        return
    fixed = refs.given(ref, ("commit", "name", "semver", "tag"))
    why = f"spec.git.checkout.ref.{fixed[0]} is not a branch to push to" if fixed else ""
    yield from when(fixed, "spec.git.push.branch", why)


def _service(obj: ImageUpdateAutomation) -> Iterator[Fault]:
    name = obj.metadata.annotations.get(PULL_REQUEST)
    unknown = name is not None and name not in SERVICES
    yield from when(unknown, _PULL_REQUEST, "it does not name a hosting service", name or "")


def _two_branches(obj: ImageUpdateAutomation) -> Iterator[Fault]:
    """Find pull requests that cannot be opened, unless this depends on the GitRepository."""
    if PULL_REQUEST not in obj.metadata.annotations or obj.spec.git is None:
        return
    push, ref = obj.spec.git.push, _checkout(obj)
    field, branch = "spec.git.push.branch", push.branch if push else ""
    if not branch:
        yield Fault(field, "it is missing, and a pull request comes from another branch")
    elif ref is not None:
        fixed = refs.given(ref, ("commit", "semver", "tag"))
        why = f"spec.git.checkout.ref.{fixed[0]} is not a branch to merge into" if fixed else ""
        yield from when(fixed, field, why)
        same = not fixed and branch == (ref.name.removeprefix(gitrefs.BRANCHES) or ref.branch)
        yield from when(same, field, "it is the branch that is checked out", branch)


def _options(obj: ImageUpdateAutomation) -> Iterator[Fault]:
    push = obj.spec.git.push if obj.spec.git else None
    for name, value in (push.options if push else {}).items():
        bad = not name or "\n" in name + value or "\0" in name + value
        yield from when(bad, "spec.git.push.options", "an option is one line, with a name", name)


def _path(obj: ImageUpdateAutomation) -> Iterator[Fault]:
    path = obj.spec.update.path
    yield from when(
        paths.leads_out(path), "spec.update.path", "it points outside the repository", path
    )


async def _message(judges: Judges, obj: Json) -> Sequence[Fault]:
    text = dig(obj, "spec", "git", "commit", "messageTemplate", default="")
    if not text or not isinstance(text, str):
        return ()
    (field,) = _MESSAGE.fields
    try:
        namespace = str(dig(obj, "metadata", "namespace", default=""))
        await setters.check(judges.engine, text, flow=namespace)
    except PenstockError as exc:
        return (Fault(field, str(exc).removeprefix(f"{field}: ")),)
    return ()


_MESSAGE: Final[Rule[object]] = Rule(
    name="message-template",
    fields=("spec.git.commit.messageTemplate",),
    demands="it is a template in the language of Go's text/template, with the functions of Sprig",
    remedy="see the data of a message in the guide to image automation",
    find=lambda _: iter(()),
)
"""Judged by the engine."""

RULES: Final[tuple[Rule[ImageUpdateAutomation], ...]] = (
    Rule(
        name="automation-git",
        fields=("spec.git",),
        demands="it says how to commit",
        remedy="set spec.git.commit.author.email at least",
        find=_git,
    ),
    Rule(
        name="commit-author",
        fields=("spec.git.commit.author.name", "spec.git.commit.author.email"),
        demands="a commit can have them",
        remedy="write one line, without '<' and '>'",
        find=_author,
    ),
    Rule(
        name="git-reference",
        fields=("spec.git.checkout.ref.branch", "spec.git.push.branch"),
        demands="it is a name that Git allows",
        remedy="see git-check-ref-format(1)",
        find=_branches,
    ),
    Rule(
        name="push-refspec",
        fields=("spec.git.push.refspec",),
        demands="it names what to push and where to, in full",
        remedy="write it as refs/heads/<from>:refs/heads/<to>, with '+' before it to force",
        find=_refspec,
    ),
    Rule(
        name="push-branch",
        fields=("spec.git.push.branch", "spec.git.checkout.ref"),
        demands="there is a branch to push to",
        remedy="set spec.git.push.branch",
        find=_target,
    ),
    Rule(
        name="pull-request-service",
        fields=(_PULL_REQUEST,),
        demands="it names a hosting service that pull requests can be opened at",
        remedy=f"write one of {', '.join(SERVICES)}",
        find=_service,
    ),
    Rule(
        name="pull-request-branch",
        fields=("spec.git.push.branch", _PULL_REQUEST),
        demands="a pull request comes from another branch than the one it goes to",
        remedy="set spec.git.push.branch to a branch of its own, and check a branch out",
        find=_two_branches,
    ),
    Rule(
        name="push-options",
        fields=("spec.git.push.options",),
        demands="each is one line",
        remedy="see push options in git-push(1)",
        find=_options,
    ),
    _MESSAGE,
    Rule(
        name="update-path",
        fields=("spec.update.path",),
        demands="it is a directory of the repository",
        remedy=paths.REMEDY,
        find=_path,
    ),
    *schedule.rules("interval"),
)

CHECKS: Final = Checks(
    kind=IMAGE_UPDATE_AUTOMATION,
    rules=RULES,
    names=(
        Named(path="spec.sourceRef", kind="GitRepository"),
        Named(path="spec.git.commit.signingKey.secretRef", kind="Secret"),
    ),
    namespaces=("spec.sourceRef.namespace",),
    selectors=("spec.policySelector",),
    judged=(Judged(rule=_MESSAGE, find=_message),),
)
