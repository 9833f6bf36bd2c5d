"""What can go wrong between us and a Git server.

::

    TransientError
    └── GitError                  GitOperationFailed: network, server, repository contents
        ├── GitAuthError          AuthenticationFailed: credentials, or the server's identity
        │   └── GitLoginError     the server asks for credentials, or refused them
        ├── RepositoryNotFoundError
        ├── RefNotFoundError      GitOperationFailed: the repository lacks what the spec names
        ├── GitMovedError         GitOperationFailed: a branch moved before a push reached it
        └── EmptyRepositoryError  EmptyGitRepository: it has no reference at all
    StalledError
    └── GitSpecError              URLInvalid and others: only a new spec helps

Messages name the repository without its user information.
"""

from typing import ClassVar

from toolkit.errors import StalledError, TransientError


class GitError(TransientError):
    """A fetch failed in a way that a new commit or time may mend."""

    default_reason: ClassVar[str] = "GitOperationFailed"


class GitAuthError(GitError):
    """The server refused the credentials, or could not prove its identity."""

    default_reason = "AuthenticationFailed"


class GitLoginError(GitAuthError):
    """The server refused the credentials, or got none and asks for some."""


class RepositoryNotFoundError(GitError):
    """The server has no such repository, or does not show it to this user."""


class RefNotFoundError(GitError):
    """The branch, tag, name or commit is not in the repository."""


class GitMovedError(GitError):
    """A branch is no longer at the commit that a push was made for."""


class EmptyRepositoryError(GitError):
    """The repository has neither a branch nor a tag."""

    default_reason = "EmptyGitRepository"


class GitSpecError(StalledError):
    """The object asks for something that cannot be fetched."""

    default_reason = "GitOperationFailed"
