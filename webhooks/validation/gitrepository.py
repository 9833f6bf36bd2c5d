"""Rules for a GitRepository."""

from collections.abc import Iterator
from typing import Final

from crds import GIT_REPOSITORY
from crds.source import GitRepository
from toolkit.errors import PenstockError
from toolkit.policy import counts
from toolkit.remote.git import refs as gitrefs
from toolkit.remote.git.refs import GitReference
from toolkit.remote.git.sparse import Sparse
from toolkit.remote.git.url import GitUrl
from webhooks.validation import circles, fetching, paths, refs, schedule
from webhooks.validation.rule import Checks, Fault, Named, Rule, few, read, when


def _scheme(obj: GitRepository) -> str:
    return obj.spec.url.partition("://")[0]


def _url(obj: GitRepository) -> Iterator[Fault]:
    yield from read("spec.url", obj.spec.url, GitUrl.parse, shown="")


def _reference(obj: GitRepository) -> Iterator[Fault]:
    ref = obj.spec.ref
    if ref is None:
        return
    yield from read("spec.ref.commit", ref.commit, _commit)
    for name in ("branch", "tag", "name"):
        text = getattr(ref, name)
        impossible = text and not gitrefs.possible(text)
        yield from when(impossible, f"spec.ref.{name}", "Git allows no such name", text)


def _commit(text: str) -> object:
    return gitrefs.choose(GitReference(commit=text), {})


_ORDER: Final = ("commit", "name", "semver", "tag", "branch")


def _overruled(obj: GitRepository) -> Iterator[Fault]:
    given = refs.given(obj.spec.ref, _ORDER)
    # With a commit, the branch only limits the fetch.
    narrowed = "commit" in given
    yield from refs.overruled([name for name in given if not (narrowed and name == "branch")])


def _sparse(obj: GitRepository) -> Iterator[Fault]:
    for number, directory in enumerate(obj.spec.sparse_checkout):
        yield from read(f"spec.sparseCheckout[{number}]", directory, lambda text: Sparse([text]))


def _many_includes(obj: GitRepository) -> Iterator[Fault]:
    return few("spec.include", obj.spec.include, counts.INCLUDES)


def _includes(obj: GitRepository) -> Iterator[Fault]:
    for number, include in enumerate(obj.spec.include):
        for field, path in (("fromPath", include.from_path), ("toPath", include.target)):
            yield from when(
                paths.leads_out(path),
                f"spec.include[{number}].{field}",
                "it points outside the repository",
                path,
            )


def _tag(obj: GitRepository) -> Iterator[Fault]:
    spec, ref = obj.spec, obj.spec.ref
    if spec.verify is None or not spec.verify.mode.startswith("Tag"):
        return
    try:
        names = gitrefs.prefixes(
            GitReference(commit=ref.commit, name=ref.name, semver=ref.semver, tag=ref.tag)
            if ref
            else GitReference()
        )
    except PenstockError:
        return
    tagged = any(name.startswith(gitrefs.TAGS) for name in names)
    yield from when(not tagged, "spec.verify.mode", "spec.ref names no tag", spec.verify.mode)


def _login(obj: GitRepository) -> Iterator[Fault]:
    spec = obj.spec
    if spec.secret_ref is not None:
        return
    missing = "a private key and known_hosts" if _scheme(obj) == "ssh" else ""
    if spec.provider == "github":
        missing = "a GitHub App"
    elif spec.provider in {"aws", "azure"}:
        missing = ""
    yield from when(missing, "spec.secretRef", f"a Secret with {missing} is needed")


def _unused(obj: GitRepository) -> Iterator[Fault]:
    unused = _scheme(obj) == "ssh" and obj.spec.proxy_secret_ref
    yield from when(unused, "spec.proxySecretRef", "it has no effect over SSH")


RULES: Final[tuple[Rule[GitRepository], ...]] = (
    Rule(
        name="git-url",
        fields=("spec.url",),
        demands="it names a host, over HTTP, HTTPS or SSH",
        remedy="write it as https://<host>/<path> or ssh://git@<host>/<path>",
        find=_url,
    ),
    fetching.PASSWORD,
    fetching.CLEAR,
    Rule(
        name="git-reference",
        fields=("spec.ref.branch", "spec.ref.tag", "spec.ref.name", "spec.ref.commit"),
        demands="it is a name that Git allows, or a commit in full",
        remedy="see git-check-ref-format(1); a commit has 40 lower-case hexadecimal digits",
        find=_reference,
    ),
    refs.RANGE,
    refs.unused(_overruled, *_ORDER[1:]),
    Rule(
        name="sparse-path",
        fields=("spec.sparseCheckout[]",),
        demands="it is a directory of the repository",
        remedy=paths.REMEDY,
        find=_sparse,
    ),
    Rule(
        name="include-many",
        fields=("spec.include",),
        demands=f"it has at most {counts.INCLUDES} entries",
        remedy="include one that includes the others",
        find=_many_includes,
    ),
    Rule(
        name="include-path",
        fields=("spec.include[].fromPath", "spec.include[].toPath"),
        demands="it is a directory of the repository",
        remedy=paths.REMEDY,
        find=_includes,
    ),
    Rule(
        name="verify-tag",
        fields=("spec.verify.mode", "spec.ref"),
        demands="the modes Tag and TagAndHEAD have a tag to verify",
        remedy="set spec.ref.tag, semver, or a name below refs/tags/, or use mode HEAD",
        find=_tag,
    ),
    Rule(
        name="git-login",
        fields=("spec.secretRef", "spec.provider", "spec.url"),
        demands="SSH and the provider github get their keys",
        remedy="name a Secret in spec.secretRef",
        find=_login,
    ),
    Rule(
        name="proxy-unused",
        fields=("spec.proxySecretRef", "spec.url"),
        demands="the repository is asked over HTTP or HTTPS",
        remedy="remove it",
        find=_unused,
        refuses=False,
    ),
    fetching.IGNORE,
    *schedule.rules("interval", "timeout"),
)

CHECKS: Final = Checks(
    kind=GIT_REPOSITORY,
    circle=circles.rule("spec.include[].repository"),
    rules=RULES,
    names=(
        Named(path="spec.secretRef", kind="Secret"),
        Named(path="spec.proxySecretRef", kind="Secret"),
        Named(path="spec.verify.secretRef", kind="Secret"),
        Named(path="spec.serviceAccountName", kind="ServiceAccount"),
        Named(path="spec.include[].repository", kind="GitRepository"),
    ),
)
