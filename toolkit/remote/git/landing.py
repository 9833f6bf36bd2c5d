"""Commit files on a known commit and push it: runs inside a Git worker.

Unlike ``push`` it never commits on another base, because the content of the files depends on the
base. If a branch has moved meanwhile, the caller must make the files again (``GitMovedError``).

The base is a pack that an earlier checkout kept, so a push fetches nothing.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from dulwich.client import GitClient
from dulwich.errors import SendPackError
from dulwich.objects import ObjectID, ShaFile
from dulwich.pack import pack_objects_to_data
from dulwich.refs import Ref

from toolkit.remote.dialling import Known
from toolkit.remote.git import connection, edit, objects, push
from toolkit.remote.git import pack as gitpack
from toolkit.remote.git.connection import Repository
from toolkit.remote.git.errors import GitError, GitMovedError
from toolkit.remote.git.pack import Pack
from toolkit.remote.git.service import PUSH
from toolkit.remote.git.url import GitUrl
from toolkit.remote.git.wire import Landed, LandRequest, PushTarget

_NOTHING: Final = b"0" * 40


def land(request: LandRequest) -> Landed:
    """Commit and push; nothing is pushed if nothing changes.

    Raises:
        GitMovedError: a target is not at the expected commit.
        GitError: see ``toolkit.remote.git.errors``.
    """
    repository = Repository.at(GitUrl.parse(request.url), request.auth, Known())
    try:
        commit, new = _commit(request)
    except OSError as exc:
        raise GitError(f"cannot read the commit that was kept: {exc.strerror or exc}") from exc
    if not new:
        return Landed(commit=request.base, changed=False)
    _push(repository, commit, new, request)
    return Landed(commit=commit.decode(), changed=True)


def _commit(request: LandRequest) -> tuple[bytes, tuple[ShaFile, ...]]:
    """Return the commit and its new objects; nothing if the files change nothing."""
    base = request.base.encode()
    with Pack(Path(request.pack), limits=request.limits) as pack:
        tree = objects.parse_commit(pack.read(base, gitpack.COMMIT)).tree
        edited = edit.write(pack, tree, request.files)
    if edited.tree == tree:
        return base, ()
    author = push.identity(request.author)
    made = push.built(request, author, tree=edited.tree, parent=base)
    return bytes(made.id), (*edited.objects, made)


def _push(
    repository: Repository, commit: bytes, new: tuple[ShaFile, ...], request: LandRequest
) -> None:
    with connection.connected(repository, request.timeout, service=PUSH) as client:
        refused = _send(client, repository.url, commit, new, request)
    if not refused:
        return
    # Servers word it in many ways that a branch has moved; where it is now tells.
    names = [target.ref for target in request.targets]
    with connection.connected(repository, request.timeout) as client:
        found = connection.list_refs(client, repository.url, names)
    for target in request.targets:
        now = found.get(target.ref, "")
        if not target.force and now not in {target.expected, commit.decode()}:
            raise _moved(repository.url, target)
    told = "; ".join(f"'{name}': {why}" for name, why in refused.items())
    raise GitError(f"'{repository.url}' refused the push to {told}{PUSH.remedy}")


def _send(
    client: GitClient,
    url: GitUrl,
    commit: bytes,
    new: tuple[ShaFile, ...],
    request: LandRequest,
) -> Mapping[str, str]:
    """Return which references the server did not move, and why."""
    said, pushed = bytearray(), set[str]()

    def update(refs: Mapping[Ref, ObjectID]) -> dict[Ref, ObjectID]:
        wanted = {}
        for target in request.targets:
            name = Ref(target.ref.encode())
            now = refs.get(name, _NOTHING)
            if not target.force and now != (target.expected.encode() or _NOTHING):
                raise _moved(url, target)
            if now != commit:  # an earlier attempt may have pushed the very same
                wanted[name] = ObjectID(commit)
                pushed.add(target.ref)
        return wanted

    def generate(*_: object, **__: Any) -> Any:
        return pack_objects_to_data(list(new))

    def remember(data: bytes) -> None:
        said.extend(data[: push.SHOWN - len(said)])

    options = [option.encode() for option in request.options]
    with connection.translated(client, url, service=PUSH):
        try:
            result = client.send_pack(
                url.path.encode(), update, generate, progress=remember, push_options=options
            )
        except SendPackError as exc:
            why = push.told(exc.args[0], said)
            return {target.ref: why for target in request.targets}
    status = result.ref_status or {}
    silent = "it does not say why"
    found = {ref: status.get(ref.encode(), silent) for ref in pushed}
    return {ref: push.told(why.encode(), said) for ref, why in found.items() if why is not None}


def _moved(url: GitUrl, target: PushTarget) -> GitMovedError:
    return GitMovedError(f"'{target.ref}' of '{url}' got other commits meanwhile")
