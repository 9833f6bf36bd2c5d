"""Fetch the commit of a repository to check, given by a URL.

Git workers fetch it with the same limits as those of controllers. No program is run, host keys are
never taken from a server's answer, and the files are removed when the check ends. With ``file://``
it is a local repository, from which a commit is read, not the files of the directory.
"""

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from cli import errors, progress, servers, session
from cli.check import flags
from toolkit.artifact import scratch
from toolkit.remote.git import git
from toolkit.remote.git.auth import GitAuth
from toolkit.remote.git.errors import GitAuthError
from toolkit.remote.git.git import Checkout, GitClient, GitReference
from toolkit.remote.git.ondisk import repository
from toolkit.remote.git.url import GitUrl
from toolkit.turns import ALONE

_DEFAULT: Final = GitReference(name="HEAD")
"""The default of a clone."""
_NO_CREDENTIALS: Final = GitAuth()
_AS_SAID: Final = ("submodules", "username", "password", "token", "plain_http", "timeout")
_REMEDIES: Final = {
    "ssh": "name a key that may read with --private-key-file, and the keys of the host with "
    "--known-hosts-file",
    "https": "name a user who may read with --username and GIT_PASSWORD, or a token with "
    "GIT_BEARER_TOKEN; name the authority of the server's certificate with --ca-file",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The commit to fetch, and the credentials; ``timeout`` is in seconds.

    ``password`` decrypts the key over SSH.
    """

    reference: GitReference = _DEFAULT
    submodules: bool = False
    username: str = ""
    password: str = field(default="", repr=False)
    token: str = field(default="", repr=False)
    private_key: bytes = field(default=b"", repr=False)
    known_hosts: bytes = b""
    ca: bytes = b""
    plain_http: bool = False
    timeout: float = 300.0

    @classmethod
    def of(cls, said: Mapping[str, Any]) -> "Wanted":
        """Take what ``flags.fetching`` has read.

        Raises:
            UsageError: a file cannot be read, or several commits are named.
        """
        named = [name for name in flags.REFERENCE if said[name]]
        if len(named) > 1 and set(named) != {"branch", "commit"}:
            several = ", ".join(f"--{name.replace('_', '-')}" for name in named)
            raise errors.UsageError(f"{several}: name one of them, or --commit of a --branch")
        reference = GitReference(
            branch=said["branch"],
            tag=said["tag"],
            semver=said["tag_semver"],
            name=said["ref_name"],
            commit=said["commit"],
        )
        given: dict[str, Any] = {name: said[name] for name in _AS_SAID}
        given |= {name.removesuffix("_file"): servers.content(said[name]) for name in flags.FILES}
        return cls(reference=reference if named else _DEFAULT, **given)


@contextmanager
def fetched(address: str, wanted: Wanted) -> Iterator[Path]:
    """Give a directory with the files of the commit, for as long as the block runs.

    Raises:
        UsageError: the address or the credentials cannot be used.
        FailedError: the server refuses us; the message names the flags that help.
        GitError: the repository cannot be reached or read, or lacks the reference.
    """
    with scratch.claimed() as room:
        into = room.resolve() / "files"
        into.mkdir()
        done = session.run_offline(
            _checkout(address, wanted, into),
            seconds=wanted.timeout,
            silent=f"{address} was not fetched",
        )
        progress.success(f"fetched {done.revision}: {done.subject}")
        if done.left_out:
            progress.failure(
                f"{len(done.left_out)} symbolic links lead out of the repository, and are left out"
            )
        yield into


async def _checkout(address: str, wanted: Wanted, into: Path) -> Checkout:
    if "://" not in address and (parts := flags.SCP.fullmatch(address)):
        user = f"{parts['user']}@" if parts["user"] else ""
        raise errors.UsageError(
            f"{address} is not a URL: write ssh://{user}{parts['host']}/{parts['path']}"
        )
    if urlsplit(address).scheme == "file":
        return await _on_disk(address, wanted, into)
    url = GitUrl.parse(address)
    auth = _auth(url, wanted)
    progress.action(f"fetching {url}")
    pool = git.start(size=1, writes=(into.parent,))
    client = GitClient(pool)
    try:
        resolved = await client.resolve(
            address, wanted.reference, auth, flow=ALONE, timeout=wanted.timeout
        )
        return await client.checkout(
            address,
            resolved,
            auth,
            into,
            recurse_submodules=wanted.submodules,
            flow=ALONE,
            timeout=wanted.timeout,
        )
    except GitAuthError as exc:
        remedy = _REMEDIES["ssh" if url.scheme == "ssh" else "https"]
        raise errors.FailedError(f"{exc}\n  {remedy}") from exc
    finally:
        await pool.close()


async def _on_disk(address: str, wanted: Wanted, into: Path) -> Checkout:
    parts = urlsplit(address)
    if parts.netloc not in {"", "localhost"} or not parts.path.startswith("/"):
        raise errors.UsageError(f"{address}: a file URL has three slashes, as in file:///srv/fleet")
    if wanted.submodules:
        raise errors.UsageError("--recurse-submodules is for a server: check a clone's directory")
    if wanted.username or wanted.private_key:
        raise errors.UsageError(f"{address}: a repository on this machine takes no credentials")
    root = await asyncio.to_thread(Path(unquote(parts.path)).resolve)
    if not root.is_dir():
        raise errors.UsageError(f"{root} is not a directory")
    progress.action(f"reading the repository {root}")
    return await repository.checkout(root, wanted.reference, into, timeout=wanted.timeout)


def _auth(url: GitUrl, wanted: Wanted) -> GitAuth:
    """Return the credentials.

    Raises:
        UsageError: flags contradict each other, or do not fit the URL.
    """
    if url.password is not None:
        raise errors.UsageError(
            "a password in a URL is visible to other users of this machine: set GIT_PASSWORD, and "
            "name the user with --username"
        )
    return _ssh(url, wanted) if url.scheme == "ssh" else _http(url, wanted)


def _ssh(url: GitUrl, wanted: Wanted) -> GitAuth:
    if wanted.username or wanted.token or wanted.ca:
        raise errors.UsageError(
            f"'{url}': --username, --bearer-token and --ca-file do not go with SSH; the user is "
            "part of the URL"
        )
    if not wanted.private_key or not wanted.known_hosts:
        host = url.host if url.port == 22 else f"-p {url.port} {url.host}"
        raise errors.UsageError(
            f"'{url}' needs --private-key-file and --known-hosts-file: write the keys of the host "
            f"into a file with `ssh-keyscan {host}`, and compare them with what it publishes"
        )
    return GitAuth(
        identity=wanted.private_key,
        passphrase=wanted.password or None,
        known_hosts=wanted.known_hosts,
    )


def _http(url: GitUrl, wanted: Wanted) -> GitAuth:
    if wanted.private_key or wanted.known_hosts:
        raise errors.UsageError(
            f"'{url}': --private-key-file and --known-hosts-file are for ssh:// addresses"
        )
    if bool(wanted.username) != bool(wanted.password):
        raise errors.UsageError("--username and --password (or GIT_PASSWORD) are needed together")
    if wanted.username and wanted.token:
        raise errors.UsageError("--bearer-token replaces --username and --password")
    if (wanted.password or wanted.token) and url.scheme == "http" and not wanted.plain_http:
        raise errors.UsageError(
            f"'{url}' has no TLS, so others on the network could read the credentials: use "
            "https, or use --allow-insecure-http"
        )
    if not (wanted.username or wanted.token or wanted.ca):
        return _NO_CREDENTIALS
    return GitAuth(
        username=wanted.username or None,
        password=wanted.password or None,
        bearer_token=wanted.token or None,
        ca=wanted.ca or None,
    )
