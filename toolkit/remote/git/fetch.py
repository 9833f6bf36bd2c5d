"""Resolve a reference, or fetch the files of a commit: runs inside a Git worker.

A checkout fetches one commit without its history. The id of the commit was resolved before, and may
have been verified. If a server sends something else, its pack has no object with that id, because
ids are computed here.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from dulwich.client import GitClient
from dulwich.objects import ObjectID
from dulwich.refs import Ref

from toolkit import disk
from toolkit.remote.dialling import Known
from toolkit.remote.git import connection, objects, tree
from toolkit.remote.git import pack as gitpack
from toolkit.remote.git import refs as gitrefs
from toolkit.remote.git import submodules as gitsubmodules
from toolkit.remote.git.connection import Repository
from toolkit.remote.git.errors import EmptyRepositoryError, GitError, RefNotFoundError
from toolkit.remote.git.limits import Budget
from toolkit.remote.git.objects import Commit
from toolkit.remote.git.pack import Pack
from toolkit.remote.git.refs import Resolved
from toolkit.remote.git.sparse import Sparse
from toolkit.remote.git.tree import Item
from toolkit.remote.git.url import GitUrl
from toolkit.remote.git.wire import Checkout, CheckoutRequest, ResolveRequest, TagObject

_REFUSALS: Final = ("not our ref", "not valid", "unadvertised", "not advertised", "shallow")
"""Texts of servers that only send tips, or no shallow history."""

_MAX_TAGS: Final = 8
_SHOWN_LINKS: Final = 20


def resolve(request: ResolveRequest) -> Resolved:
    """Return the commit of a reference. No object is fetched.

    Raises:
        GitError: see ``toolkit.remote.git.errors``.
    """
    wanted = gitrefs.prefixes(request.reference)
    if not wanted:
        return gitrefs.choose(request.reference, {})
    url = GitUrl.parse(request.url)
    with connection.connected(Repository.at(url, request.auth, Known()), request.timeout) as client:
        refs = connection.list_refs(client, url, wanted)
        try:
            return gitrefs.choose(request.reference, refs)
        except RefNotFoundError as exc:
            if not refs and not connection.list_refs(client, url, ("HEAD", "refs/")):
                raise EmptyRepositoryError(f"repository '{url}' is empty") from exc
            raise RefNotFoundError(f"{exc}: '{url}'") from exc


def checkout(request: CheckoutRequest) -> Checkout:
    """Fetch a commit and write its files.

    Raises:
        GitError: see ``toolkit.remote.git.errors``.

    """
    url = GitUrl.parse(request.url)
    job = _Job(request, url, Budget(request.limits))
    try:
        Path(request.into).mkdir(exist_ok=True)
        top = Repository.at(url, request.auth, job.known)
        commit, tag = job.run(top, request.resolved, Path(request.into), Sparse(request.sparse))
    except OSError as exc:
        what = "the fetched files" if disk.is_full(exc) else f"the files of '{url}'"
        raise GitError(f"cannot store {what}: {disk.why(exc, request.into)}") from exc
    return Checkout(
        revision=request.resolved.revision,
        commit=request.resolved.commit,
        subject=commit.subject,
        author=commit.author,
        commit_signature=commit.signature,
        tag=tag,
        left_out=tuple(job.left_out[:_SHOWN_LINKS]),
    )


@dataclass(slots=True)
class _Job:
    """One checkout with its submodules."""

    request: CheckoutRequest
    top: GitUrl
    budget: Budget
    known: Known = field(default_factory=Known)
    left_out: list[str] = field(default_factory=list)
    packs: int = 0
    below: bool = False

    def run(
        self,
        repository: Repository,
        resolved: Resolved,
        into: Path,
        sparse: Sparse,
        depth: int = 0,
    ) -> tuple[Commit, TagObject | None]:
        """Check out one repository, then its submodules into their directories."""
        url = repository.url
        with self._fetch(repository, resolved) as pack:
            commit_id = resolved.commit.encode()
            if commit_id not in pack:
                raise GitError(_missing(url, resolved))
            _require_commit(pack, resolved)
            commit = objects.parse_commit(pack.read(commit_id, gitpack.COMMIT))
            tag = _tag(pack, resolved)
            plan = tree.make_plan(pack, commit.tree, budget=self.budget, sparse=sparse)
            self.left_out += tree.write(pack, plan, into)
            submodules = []
            if self.request.recurse_submodules:
                submodules = gitsubmodules.find(pack, plan, url)
        self.below = True
        for item, address in submodules:
            self._submodule(item, address, repository, into, depth + 1)
        return commit, tag

    def _submodule(
        self, item: Item, url: GitUrl, parent: Repository, into: Path, depth: int
    ) -> None:
        name = os.fsdecode(item.path)
        self.budget.spend("submodules")
        if depth > self.budget.limits.submodule_depth:
            raise GitError(f"submodule '{name}' is nested too deep")
        commit = item.oid.decode()
        resolved = Resolved(revision=f"sha1:{commit}", commit=commit, ref="")
        auth = self.request.auth.for_url(url, top=self.top)
        repository = Repository.at(url, auth, self.known)
        try:
            repository.named_by(parent)
            self.run(repository, resolved, into / name, Sparse(), depth)
        except GitError as exc:
            raise GitError(f"submodule '{name}': {exc}", reason=exc.reason) from exc

    def _fetch(self, repository: Repository, resolved: Resolved) -> Pack:
        """Receive a pack with the commit, alone if the server allows it, else with its history."""
        url = repository.url
        if not self._found_alone(repository, resolved):
            with connection.connected(repository, self.request.timeout) as client:
                return self._receive(client, url, resolved, alone=False)
        with connection.connected(repository, self.request.timeout) as client:
            try:
                return self._receive(client, url, resolved, alone=True)
            except GitError as exc:
                if not any(text in str(exc).lower() for text in _REFUSALS):
                    raise
        # A server that has refused has also hung up.
        with connection.connected(repository, self.request.timeout) as client:
            return self._receive(client, url, resolved, alone=False)

    def _found_alone(self, repository: Repository, resolved: Resolved) -> bool:
        """Tell whether a commit can be fetched alone: it is a tip, or the spec names no branch.

        Servers send any commit that they have, of any branch or pull request.

        Raises:
            RefNotFoundError: there is no such branch.
        """
        if resolved.told or not resolved.ref:
            return True
        url = repository.url
        with connection.connected(repository, self.request.timeout) as client:
            tip = connection.list_refs(client, url, (resolved.ref,)).get(resolved.ref)
        if tip is None:
            name = resolved.ref.removeprefix(gitrefs.BRANCHES)
            raise RefNotFoundError(f"branch '{name}' not found in the repository: '{url}'")
        return tip == resolved.commit

    def _receive(self, client: GitClient, url: GitUrl, resolved: Resolved, *, alone: bool) -> Pack:
        self.packs += 1
        path = Path(self.request.scratch) / f"{self.packs}.pack"
        wants = [oid.encode() for oid in (resolved.commit, resolved.tag_object) if oid]

        def choice(refs: Mapping[Ref, ObjectID]) -> list[ObjectID]:
            if alone:
                return [ObjectID(oid) for oid in wants]
            return sorted({oid for name, oid in refs.items() if _means(resolved, name)})

        prefixes = [resolved.ref or "HEAD"] if alone else [resolved.ref or "refs/"]
        # Submodules come after the repository itself, whose pack may be wanted again.
        keep = Path(self.request.keep) if self.request.keep and not self.below else None
        pack = connection.receive(
            client, url, choice, path, self.budget, prefixes=prefixes, alone=alone, keep=keep
        )
        if pack is None:
            raise GitError(f"'{url}' did not send commit {resolved.commit}")
        return pack


def _means(resolved: Resolved, name: Ref) -> bool:
    """Tell whether a reference may contain the commit; servers list more than requested."""
    return not resolved.ref or name == resolved.ref.encode()


def _missing(url: GitUrl, resolved: Resolved) -> str:
    if resolved.told or not resolved.ref:
        return f"'{url}' did not send commit {resolved.commit}"
    branch = resolved.ref.removeprefix(gitrefs.BRANCHES)
    return f"commit {resolved.commit} is not part of branch '{branch}' of '{url}'"


def _require_commit(pack: Pack, resolved: Resolved) -> None:
    """Require that a reference leads to a commit: a tag may be of any object."""
    kind = pack.kind(resolved.commit.encode())
    if kind != gitpack.COMMIT:
        name = resolved.ref or resolved.commit
        raise GitError(
            f"'{name}' points to a {gitpack.KINDS[kind]}, not to a commit: move or delete it, "
            "or set spec.ref to another reference"
        )


def _tag(pack: Pack, resolved: Resolved) -> TagObject | None:
    """Return the requested tag, and require that it leads to the commit."""
    if not resolved.ref.startswith(gitrefs.TAGS):
        return None
    name = resolved.ref.removeprefix(gitrefs.TAGS)
    if not resolved.tag_object:
        return TagObject(name=name)
    outer = tag = objects.parse_tag(pack.read(resolved.tag_object.encode(), gitpack.TAG))
    for _ in range(_MAX_TAGS):
        if tag.target_type != "tag":
            break
        tag = objects.parse_tag(pack.read(tag.target, gitpack.TAG))
    if tag.target_type != "commit" or tag.target.decode() != resolved.commit:
        raise GitError(f"tag '{name}' does not point to commit {resolved.commit}")
    return TagObject(name=name, own_name=outer.name, signature=outer.signature)
