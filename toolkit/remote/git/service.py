"""The two programs that a Git server runs for a client: one to fetch from, one to push to."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """A program, by the name in the protocol; ``remedy`` ends the message of a refusal."""

    name: str
    verb: str
    remedy: str = ""


FETCH: Final = Service(name="git-upload-pack", verb="fetch from")
PUSH: Final = Service(
    name="git-receive-pack",
    verb="push to",
    remedy="; a push needs a key or token with write access to the repository, "
    "and a branch whose rules allow it",
)
