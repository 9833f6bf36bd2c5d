"""Commit files to a repository, by a Git worker as controllers have them."""

import asyncio
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from cli import errors, progress
from cli.bootstrap.access import Access
from toolkit.remote.git import git
from toolkit.remote.git.errors import GitAuthError
from toolkit.remote.git.git import Author, Committed, GitClient, NewFile
from toolkit.remote.git.wire import SigningKey
from toolkit.turns import ALONE

SECONDS: Final = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """The author, the end of the commit message, and a signing key."""

    author: Author
    appendix: str = ""
    key: SigningKey | None = None

    def message(self, subject: str) -> str:
        """Return the whole message of a commit."""
        return "\n\n".join(filter(None, (subject, self.appendix.strip()))) + "\n"


async def commit(
    access: Access, branch: str, files: Sequence[NewFile], *, subject: str, signature: Signature
) -> Committed:
    """Commit the files to the branch and push it, unless nothing changes.

    Raises:
        FailedError: the repository refuses the credentials; the message has the remedy.
        GitError: the repository cannot be reached, or refuses the push.
        GitSpecError: the URL, the branch or the author is not valid.
    """
    progress.action(f"committing {len(files)} files to branch {branch}")
    scratch = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix="penstock-bootstrap-"))
    pool = git.start(size=1, writes=(scratch,))
    try:
        done = await GitClient(pool).commit(
            access.push_url,
            branch,
            files,
            access.push,
            message=signature.message(subject),
            author=signature.author,
            now=datetime.now(UTC),
            scratch=scratch,
            flow=ALONE,
            timeout=SECONDS,
            signing=signature.key,
        )
    except GitAuthError as exc:
        raise errors.FailedError(f"{exc}\n  {access.remedy}") from exc
    finally:
        await pool.close()
        await asyncio.to_thread(shutil.rmtree, scratch, ignore_errors=True)
    told = "pushed" if done.changed else "is up to date:"
    progress.success(f"branch {branch} {told} {done.revision}")
    return done
