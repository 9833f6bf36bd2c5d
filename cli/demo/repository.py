"""A repository to play with: files in a working tree, commits pushed into a bare repository."""

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from cli import errors
from cli.demo.signing import Author

BRANCH: Final = "main"
_ENVIRONMENT: Final = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_AUTHOR_NAME": "Ada",
    "GIT_AUTHOR_EMAIL": "ada@example.com",
    "GIT_COMMITTER_NAME": "Ada",
    "GIT_COMMITTER_EMAIL": "ada@example.com",
    "GIT_TERMINAL_PROMPT": "0",
}


class Repository:
    """A working tree and the bare repository that it pushes to."""

    def __init__(self, bare: Path, tree: Path) -> None:
        self.bare = bare
        self.tree = tree

    @classmethod
    async def create(cls, root: Path, name: str) -> "Repository":
        """Make ``<root>/served/<name>.git`` and ``<root>/work/<name>``, empty, on branch main."""
        made = cls(root / "served" / f"{name}.git", root / "work" / name)
        for path in (made.bare, made.tree):
            await asyncio.to_thread(path.mkdir, parents=True, exist_ok=True)
        await _git(made.bare, "init", "--quiet", "--bare", "--initial-branch", BRANCH)
        await _git(made.tree, "init", "--quiet", "--initial-branch", BRANCH)
        return made

    async def commit(
        self,
        subject: str,
        *,
        write: Mapping[str, str] | None = None,
        remove: tuple[str, ...] = (),
        author: Author | None = None,
    ) -> str:
        """Write and remove files, commit (signed, with an author), push; return the hash."""
        await asyncio.to_thread(self._change, write or {}, remove)
        await _git(self.tree, "add", "--all")
        await _git(self.tree, "commit", "--quiet", "--message", subject)
        if author is not None:
            await self._sign(author)
        await _git(self.tree, "push", "--quiet", str(self.bare), BRANCH)
        return await _git(self.tree, "rev-parse", "HEAD")

    async def accept_pushes(self) -> None:
        """Allow pushes by all clients of the server."""
        await _git(self.bare, "config", "http.receivepack", "true")

    async def subject(self) -> str:
        """Return the hash and the subject of the last commit that was pushed."""
        return await _git(self.bare, "log", "-1", "--format=%h %s", BRANCH)

    async def _sign(self, author: Author) -> None:
        """Replace the last commit by the same with a signature, as ``git commit -S`` does."""
        commit = await _output(self.tree, "cat-file", "commit", "HEAD")
        # The signature covers the whole commit, and becomes the last of its headers
        # (gitformat-signature(5)); continued lines begin with a space.
        headers, _, message = commit.partition(b"\n\n")
        signature = author.sign(commit).strip().replace("\n", "\n ").encode()
        signed = b"%b\ngpgsig %b\n\n%b" % (headers, signature, message)
        made = await _git(self.tree, "hash-object", "-t", "commit", "-w", "--stdin", stdin=signed)
        await _git(self.tree, "update-ref", f"refs/heads/{BRANCH}", made)

    def _change(self, write: Mapping[str, str], remove: tuple[str, ...]) -> None:
        for name, text in write.items():
            path = self.tree / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        for name in remove:
            (self.tree / name).unlink()


async def _git(where: Path, *arguments: str, stdin: bytes = b"") -> str:
    return (await _output(where, *arguments, stdin=stdin)).decode().strip()


async def _output(where: Path, *arguments: str, stdin: bytes = b"") -> bytes:
    process = await asyncio.create_subprocess_exec(
        *("git", "-C", str(where)),
        *arguments,
        env={**os.environ, **_ENVIRONMENT},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, complaint = await process.communicate(stdin)
    if process.returncode != 0:
        raise errors.FailedError(f"git {arguments[0]} failed: {complaint.decode().strip()}")
    return out
