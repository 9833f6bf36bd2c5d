"""Requests to Git workers, and their answers; sent as MessagePack."""

from dataclasses import dataclass, field
from typing import Literal

from toolkit.remote.git.auth import GitAuth
from toolkit.remote.git.limits import Limits
from toolkit.remote.git.objects import Signed
from toolkit.remote.git.refs import GitReference, Resolved


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolveRequest:
    """Resolve ``reference`` to a commit; ``timeout`` is in seconds."""

    url: str
    reference: GitReference
    auth: GitAuth
    timeout: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckoutRequest:
    """Write the files of ``resolved`` into the empty directory ``into``.

    ``scratch`` is a directory on the same disk for packs; the caller removes it. The pack of the
    commit itself stays as the file ``keep``, if that is given.
    """

    url: str
    resolved: Resolved
    auth: GitAuth
    into: str
    scratch: str
    recurse_submodules: bool = False
    sparse: tuple[str, ...] = ()
    keep: str = ""
    limits: Limits = field(default_factory=Limits)
    timeout: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TagObject:
    """The tag of a checkout.

    ``own_name`` is the name in an annotated tag, which may differ from its reference; empty for a
    lightweight tag, which cannot be signed.
    """

    name: str
    own_name: str = ""
    signature: Signed | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkout:
    """The result of a checkout, with the data for verifiers.

    ``left_out`` are the symbolic links that were not written because they lead outside.
    """

    revision: str
    commit: str
    subject: str
    author: str
    commit_signature: Signed | None
    tag: TagObject | None
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NewFile:
    """The content of a file; its path is relative to the repository's root, with slashes.

    With ``keep`` an existing file stays unchanged.
    """

    path: str
    content: bytes
    keep: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Author:
    """The author of a commit."""

    name: str
    email: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SigningKey:
    """A private key to sign a commit with; an OpenPGP one may be armoured."""

    kind: Literal["gpg", "ssh"]
    key: bytes = field(repr=False)
    passphrase: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitRequest:
    """Commit files on the tip of ``branch`` and push it; ``time`` is in seconds since the epoch.

    ``scratch`` is a directory for packs; the caller removes it.
    """

    url: str
    branch: str
    files: tuple[NewFile, ...]
    message: str
    author: Author
    time: int
    auth: GitAuth
    scratch: str
    limits: Limits = field(default_factory=Limits)
    timeout: float
    signing: SigningKey | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PushTarget:
    """A reference by its full name, and its expected commit; empty if it must not exist.

    With ``force`` the expected commit is not checked.
    """

    ref: str
    expected: str = ""
    force: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LandRequest:
    """Commit files on the commit ``base`` and push it; ``time`` is in seconds since the epoch.

    ``pack`` is a file that ``CheckoutRequest.keep`` of the base left.
    """

    url: str
    base: str
    pack: str
    files: tuple[NewFile, ...]
    message: str
    author: Author
    time: int
    auth: GitAuth
    targets: tuple[PushTarget, ...]
    options: tuple[str, ...] = ()
    signing: SigningKey | None = None
    limits: Limits = field(default_factory=Limits)
    timeout: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Landed:
    """The commit that the targets are at, and whether it is new."""

    commit: str
    changed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    """The branch's commit, whether it is new, and its revision as sources report it."""

    revision: str
    commit: str
    changed: bool
