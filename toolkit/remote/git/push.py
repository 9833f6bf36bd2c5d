"""Commit files on the tip of a branch and push the commit: runs inside a Git worker.

Only the tip is fetched, and only new objects are sent. The server compares the branch with the tip,
so no other commit is ever lost: if the branch has moved, the files are written again on the new
tip.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from dulwich.client import GitClient
from dulwich.errors import SendPackError
from dulwich.objects import Commit, ObjectID, ShaFile
from dulwich.pack import pack_objects_to_data
from dulwich.refs import Ref, check_ref_format

from toolkit import disk
from toolkit.remote.dialling import Known
from toolkit.remote.git import connection, edit, objects, signing
from toolkit.remote.git import pack as gitpack
from toolkit.remote.git import refs as gitrefs
from toolkit.remote.git.connection import Repository
from toolkit.remote.git.errors import GitError, GitSpecError
from toolkit.remote.git.limits import Budget
from toolkit.remote.git.service import PUSH
from toolkit.remote.git.url import GitUrl
from toolkit.remote.git.wire import Author, CommitRequest, Committed, LandRequest

ATTEMPTS: Final = 5
"""How often files are written again because the branch has moved."""

SHOWN: Final = 500
_FORBIDDEN: Final = frozenset("<>\n\0")
"""Characters that are invalid in a name or an address, because they end it (gitformat-commit)."""


def commit(request: CommitRequest) -> Committed:
    """Commit and push; nothing is pushed if nothing changes.

    Raises:
        GitError: see ``toolkit.remote.git.errors``.
    """
    url = GitUrl.parse(request.url)
    ref = _ref(request.branch)
    author = identity(request.author)
    repository = Repository.at(url, request.auth, Known())
    for _ in range(ATTEMPTS):
        try:
            change = _change(repository, ref, author, request)
            if change.new:
                _push(repository, ref, change, request)
        except _MovedError:
            continue
        except OSError as exc:
            what = "the fetched commit" if disk.is_full(exc) else f"what '{url}' sends"
            raise GitError(f"cannot store {what}: {disk.why(exc, request.scratch)}") from exc
        oid = change.commit.decode()
        return Committed(
            revision=f"{request.branch}@sha1:{oid}", commit=oid, changed=bool(change.new)
        )
    raise GitError(
        f"branch '{request.branch}' of '{url}' got other commits each of {ATTEMPTS} times that "
        "a commit was made for it: try again when it is quieter"
    )


class _MovedError(Exception):
    """The branch is no longer where the commit was made for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Change:
    """The new commit for a branch, the current commit of the branch, and the new objects."""

    commit: bytes
    tip: bytes | None
    new: tuple[ShaFile, ...]


def _change(repository: Repository, ref: str, author: bytes, request: CommitRequest) -> _Change:
    """Make the commit on the current commit of the branch."""
    url, budget = repository.url, Budget(request.limits)
    found: list[ObjectID] = []

    def choice(refs: Mapping[Ref, ObjectID]) -> list[ObjectID]:
        found[:] = [oid for name, oid in refs.items() if name == ref.encode()]
        return found

    path = Path(request.scratch) / "tip.pack"
    with connection.connected(repository, request.timeout) as client:
        pack = connection.receive(client, url, choice, path, budget, prefixes=[ref], alone=True)
    if pack is None:
        if found:
            raise GitError(f"'{url}' did not send commit {found[0].decode()}")
        edited = edit.write(None, None, request.files)
        return _committed(edited, None, author, request)
    with pack:
        tree = objects.parse_commit(pack.read(found[0], gitpack.COMMIT)).tree
        edited = edit.write(pack, tree, request.files)
    if edited.tree == tree:
        return _Change(commit=found[0], tip=found[0], new=())
    return _committed(edited, found[0], author, request)


def _committed(
    edited: edit.Edited, tip: bytes | None, author: bytes, request: CommitRequest
) -> _Change:
    made = built(request, author, tree=edited.tree, parent=tip)
    return _Change(commit=made.id, tip=tip, new=(*edited.objects, made))


def built(
    request: CommitRequest | LandRequest, author: bytes, *, tree: bytes, parent: bytes | None
) -> Commit:
    """Return the commit of a request, signed if the request has a key.

    Raises:
        GitAuthError: the key cannot sign.
    """
    made = Commit()
    made.tree = ObjectID(tree)
    made.parents = [ObjectID(parent)] if parent else []
    made.author = made.committer = author
    made.author_time = made.commit_time = request.time
    made.author_timezone = made.commit_timezone = 0
    made.message = request.message.encode()
    if request.signing is not None:
        signature = signing.sign(request.signing, made.as_raw_string())
        made.gpgsig = signature.rstrip(b"\n")
    return made


def _push(repository: Repository, ref: str, change: _Change, request: CommitRequest) -> None:
    """Send a commit.

    Raises:
        GitError: the server refuses it.
        _MovedError: the branch has moved.
    """
    with connection.connected(repository, request.timeout, service=PUSH) as client:
        reason = _send(client, repository.url, ref, change)
    if reason is None:
        return
    # Servers word it in many ways that the branch has moved; where it is now tells.
    with connection.connected(repository, request.timeout) as client:
        tip = connection.list_refs(client, repository.url, [ref]).get(ref, "").encode()
    if tip == change.commit:
        return
    if tip != (change.tip or b""):
        raise _MovedError
    raise GitError(
        f"'{repository.url}' refused the push to branch '{request.branch}': {reason}{PUSH.remedy}"
    )


def _send(client: GitClient, url: GitUrl, ref: str, change: _Change) -> str | None:
    """Return why the server did not update the branch; None if it did."""
    name, said = Ref(ref.encode()), bytearray()

    def update(refs: Mapping[Ref, ObjectID]) -> dict[Ref, ObjectID]:
        if refs.get(name) != change.tip:
            raise _MovedError
        return {name: ObjectID(change.commit)}

    def generate(*_: object, **__: Any) -> Any:
        return pack_objects_to_data(list(change.new))

    def remember(data: bytes) -> None:
        said.extend(data[: SHOWN - len(said)])

    with connection.translated(client, url, service=PUSH):
        try:
            result = client.send_pack(url.path.encode(), update, generate, progress=remember)
        except SendPackError as exc:
            return told(exc.args[0], said)
    status = (result.ref_status or {}).get(name, "it does not say why")
    return None if status is None else told(status.encode(), said)


def told(reason: bytes, said: bytes | bytearray) -> str:
    """Return a reason with the output of hooks, in one line."""
    text = b"; ".join(filter(None, (reason[:SHOWN], said.strip())))
    return " ".join(text.decode("utf-8", "replace").split())


def _ref(branch: str) -> str:
    ref = gitrefs.BRANCHES + branch
    if not check_ref_format(Ref(ref.encode())):
        raise GitSpecError(f"{branch!r} is not a name of a branch")
    return ref


def identity(author: Author) -> bytes:
    """Return the author in the form of a commit.

    Raises:
        GitSpecError: the author is invalid in a commit.
    """
    for text in (author.name, author.email):
        if not text.strip() or _FORBIDDEN & set(text):
            raise GitSpecError(f"{text!r} is not a name or address of a commit's author")
    return f"{author.name} <{author.email}>".encode()
