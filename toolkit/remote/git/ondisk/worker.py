"""The operations of the worker: find a commit in a repository, and write its files.

The objects of the commit are packed first. So the same code reads and validates them as for packs
of servers: it computes ids, refuses names that lead out, and enforces limits.
"""

import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Final

import msgspec
from dulwich.errors import NotGitRepository
from dulwich.objects import Commit, ObjectID, Tag, Tree
from dulwich.pack import write_pack_from_container
from dulwich.repo import Repo

from toolkit.remote.git import objects, refs, tree
from toolkit.remote.git import pack as gitpack
from toolkit.remote.git.errors import EmptyRepositoryError, GitError
from toolkit.remote.git.limits import Budget, Limits
from toolkit.remote.git.ondisk.repository import Request
from toolkit.remote.git.pack import Pack
from toolkit.remote.git.refs import Resolved
from toolkit.remote.git.sparse import Sparse
from toolkit.remote.git.wire import Checkout

_GITLINK: Final = 0o160000
_MAX_TAGS: Final = 8


def operations() -> Mapping[str, Callable[[bytes], bytes]]:
    """Return the operations of the worker, by name."""
    return {"checkout": checkout}


def checkout(payload: bytes) -> bytes:
    """Answer a ``Request`` with a ``Checkout``."""
    request = msgspec.msgpack.decode(payload, type=Request)
    try:
        with closing(Repo(request.root)) as repository:
            done = _checkout(repository, request)
    except NotGitRepository as exc:
        raise GitError(f"'{request.root}' is not a Git repository") from exc
    except OSError as exc:
        raise GitError(f"cannot read '{request.root}': {exc.strerror or exc}") from exc
    except (KeyError, AssertionError, ValueError) as exc:
        # dulwich raises this for objects that are missing or damaged.
        raise GitError(f"repository '{request.root}' is damaged, or not complete") from exc
    return msgspec.msgpack.encode(done)


def _checkout(repository: Repo, request: Request) -> Checkout:
    if repository.object_format.name != "sha1":
        raise GitError(
            f"'{request.root}' has object ids of the kind {repository.object_format.name}: "
            "not supported"
        )
    known = _references(repository)
    if not known:
        raise EmptyRepositoryError(f"repository '{request.root}' is empty")
    resolved = refs.choose(request.reference, known)
    _require_part(repository, resolved, known)
    budget = Budget(request.limits)
    with _packed(repository, resolved, Path(request.scratch), request.limits) as pack:
        raw = pack.read(resolved.commit.encode(), gitpack.COMMIT)
        commit = objects.parse_commit(raw)
        plan = tree.make_plan(pack, commit.tree, budget=budget, sparse=Sparse())
        left_out = tree.write(pack, plan, Path(request.into))
    return Checkout(
        revision=resolved.revision,
        commit=resolved.commit,
        subject=commit.subject,
        author=commit.author,
        commit_signature=commit.signature,
        tag=None,
        left_out=tuple(left_out),
    )


def _references(repository: Repo) -> dict[str, str]:
    """Return names and objects as a server lists them, with the commits of annotated tags."""
    found: dict[str, str] = {}
    for name, oid in repository.get_refs().items():
        text = name.decode("utf-8", "replace")
        found[text] = oid.decode()
        if text.startswith(refs.TAGS) and (target := _peeled(repository, oid)) != oid:
            found[text + refs.PEELED] = target.decode()
    return found


def _peeled(repository: Repo, oid: ObjectID) -> ObjectID:
    for _ in range(_MAX_TAGS):
        named = repository.object_store[oid]
        if not isinstance(named, Tag):
            break
        oid = named.object[1]
    return oid


def _require_part(repository: Repo, resolved: Resolved, known: Mapping[str, str]) -> None:
    """Require that a commit is part of the branch that is named with it."""
    if resolved.told or not resolved.ref:
        return
    tip = known.get(resolved.ref)
    if tip is None:
        raise GitError(f"'{resolved.ref}' not found in the repository")
    walker = repository.get_walker(include=[ObjectID(tip.encode())])
    if not any(entry.commit.id.decode() == resolved.commit for entry in walker):
        branch = resolved.ref.removeprefix(refs.BRANCHES)
        raise GitError(f"commit {resolved.commit} is not part of branch '{branch}'")


def _packed(repository: Repo, resolved: Resolved, scratch: Path, limits: Limits) -> Pack:
    """Return a pack with the commit and its content, without history."""
    path = scratch / "commit.pack"
    budget = Budget(limits)
    oid = ObjectID(resolved.commit.encode())
    try:
        commit = repository.object_store[oid]
    except KeyError as exc:
        raise GitError(f"commit {resolved.commit} not found in the repository") from exc
    if not isinstance(commit, Commit):
        raise GitError(f"{resolved.commit} is not a commit")
    wanted = [oid, *dict.fromkeys(_below(repository, commit.tree, budget))]
    with path.open("wb") as file:

        def store(data: bytes | bytearray | memoryview) -> int:
            budget.spend("bytes in packs", len(data))
            return file.write(data)

        write_pack_from_container(
            store,
            repository.object_store,
            [(each, None) for each in wanted],
            repository.object_format,
            reuse_deltas=False,
        )
    return Pack(path, limits=limits)


def _below(repository: Repo, top: ObjectID, budget: Budget) -> Iterator[ObjectID]:
    """Yield a tree and all that is in it; its shape is judged when it is unpacked."""
    waiting = [top]
    while waiting:
        oid = waiting.pop()
        yield oid
        found = repository.object_store[oid]
        if not isinstance(found, Tree):
            raise GitError(f"object {oid.decode()} of the repository is not a directory")
        for entry in found.iteritems():
            if stat.S_ISDIR(entry.mode):
                budget.spend("directories")
                waiting.append(entry.sha)
            elif stat.S_IFMT(entry.mode) != _GITLINK:
                budget.spend("files")
                yield entry.sha
