"""The steps of ``penstock bootstrap``, each of which may run again.

1. Nothing is written, neither to Git nor to the cluster, before both can be.
2. The commit comes first: from the moment at which the cluster follows the branch, the branch
   holds the installation.
3. The installation is applied directly only until Git applies it.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from cli import deadline, progress, session
from cli.bootstrap import committing, files, syncing
from cli.bootstrap.access import Access
from cli.bootstrap.committing import Signature
from cli.bootstrap.files import Sync
from cli.installing import inspection, manifests, writing
from cli.stack import install
from toolkit.objects import Json, ObjectKey

Reach = Callable[[Mapping[str, bytes]], Awaitable[Access]]
"""Returns the access to the repository, given the data of the Secret of an earlier run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """The options of the user; ``path`` is normalized by ``files.cleaned``."""

    choice: manifests.Choice
    branch: str
    path: str
    interval: str
    secret: str
    signature: Signature
    submodules: bool = False
    sparse: tuple[str, ...] = ()
    force: bool = False

    def sync(self, access: Access) -> Sync:
        """Return the source that the cluster must follow."""
        return Sync(
            namespace=self.choice.namespace,
            url=access.sync_url,
            branch=self.branch,
            path=self.path,
            secret=self.secret if access.secret else "",
            interval=self.interval,
            submodules=self.submodules,
            sparse=self.sparse,
        )


async def run(opened: session.Session, wish: Wish, objects: tuple[Json, ...], reach: Reach) -> None:
    """Bootstrap, and return when the cluster has applied the commit.

    Raises:
        CommandError: see ``cli.errors``.
        GitError: the repository cannot be reached, or refuses the push.
    """
    api, namespace = opened.api, wish.choice.namespace
    # 1
    await inspection.require_suitable(api)
    kept = not wish.force and await writing.require_free(
        api, wish.choice, keeper=ObjectKey(namespace, namespace)
    )
    known = await syncing.credentials(api, namespace, wish.secret)
    access = await deadline.within(
        reach(known), opened.timeout, what="the server of the repository did not answer"
    )
    # 2
    sync = wish.sync(access)
    committed = await deadline.within(
        committing.commit(
            access,
            wish.branch,
            files.render(objects, sync),
            subject=f"Install Penstock in namespace {namespace}",
            signature=wish.signature,
        ),
        opened.timeout,
        what=f"branch {wish.branch} was not pushed",
    )
    # 3
    secrets = manifests.secrets(wish.choice)  # in the cluster alone
    if kept:
        await install.apply_all(api, secrets)
    else:
        await writing.write(opened, (*objects, *secrets))
        await writing.ready(opened, objects)
    if access.secret:
        await syncing.keep_credentials(api, namespace, wish.secret, access.secret)
    await syncing.require(opened, sync, committed.revision)
    if kept:
        await writing.ready(opened, objects)
    progress.success(f"Git applies Penstock in namespace {namespace}")
