"""A refspec of a push: what to push, where to, and whether by force (git-push(1))."""

from dataclasses import dataclass
from typing import Self

from toolkit.remote.git import refs as gitrefs

LONGEST = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Refspec:
    """``source`` and ``target`` are full names of references."""

    source: str
    target: str
    force: bool = False

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse ``[+]refs/…:refs/…``; a source alone is pushed to the same name.

        Raises:
            ValueError: the text is invalid, or would delete a reference.
        """
        if len(text) > LONGEST:
            raise ValueError(f"a refspec of more than {LONGEST} characters is not accepted")
        source, colon, target = text.removeprefix("+").partition(":")
        target = target if colon else source
        if not source:
            raise ValueError("it would delete a reference: write the full name of one before ':'")
        for name in (source, target):
            if not name.startswith("refs/"):
                raise ValueError(
                    f"'{name}' is not the full name of a reference, such as 'refs/heads/main'"
                )
            if not gitrefs.possible(name.removeprefix("refs/")):
                raise ValueError(f"'{name}' is not a name that Git allows")
        return cls(source=source, target=target, force=text.startswith("+"))
