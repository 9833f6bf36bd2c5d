"""Pull requests instead of pushes to the branch that is checked out.

The annotation names the hosting service. Commits go to ``push.branch``, and a pull request from
there to what is checked out is opened, kept up to date, and closed when nothing is left to change.
One that a person has closed stays closed until there is another commit.

Everything in its text that comes from elsewhere stands as code, so that it neither formats the
page nor calls anybody.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from controllers.image import admitting
from controllers.image.settings import INVALID, Plan
from controllers.image.updating import Draft
from crds.image import ImagePolicy
from crds.image_automation import PULL_REQUEST, ImageUpdateAutomation
from crds.source import GitRepository
from toolkit.errors import StalledError
from toolkit.remote.git.auth import GitAuth
from toolkit.remote.hosting.pulls import Pulls, Text
from toolkit.remote.http.http import Http

_FOOTER: Final = (
    "Made by ImageUpdateAutomation `{}/{}`. Commits of others on this branch are overwritten."
)
_ROWS: Final = 100
_CELL: Final = 200
_TITLE: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposals:
    """Opens and closes pull requests; ``http`` is the way to strangers."""

    http: Http

    def of(
        self, obj: ImageUpdateAutomation, source: GitRepository, plan: Plan, auth: GitAuth
    ) -> Pulls | None:
        """Return the pull requests that an automation asks for; ``None`` if it asks for none.

        Raises:
            StalledError: it cannot have them (reason InvalidSourceConfiguration).
        """
        if PULL_REQUEST not in obj.metadata.annotations:
            return None
        try:
            _require_two_branches(plan)
            return Pulls.of(
                self.http,
                obj.metadata.annotations[PULL_REQUEST],
                source.spec.url,
                auth,
                head=plan.branch,
                base=plan.base,
                timeout=source.spec.timeout_seconds,
            )
        except StalledError as exc:
            raise StalledError(f"annotation {PULL_REQUEST}: {exc}", reason=INVALID) from exc


def _require_two_branches(plan: Plan) -> None:
    if not plan.separate or not plan.base or not plan.to_branch:
        raise StalledError(
            "pull requests need spec.git.push.branch, another branch than the one that is "
            "checked out"
        )


def text(obj: ImageUpdateAutomation, draft: Draft, policies: Iterable[ImagePolicy]) -> Text:
    """Return what a pull request says: the message, and each change with who signed the image."""
    title, _, rest = draft.message.strip().partition("\n")
    signers = {
        f"{policy.metadata.namespace}:{policy.metadata.name}": admitting.signers(policy)
        for policy in policies
    }
    rows = dict.fromkeys(
        (file.path, change.old, change.new, signers.get(_policy(change.setter), ""))
        for file in draft.files
        for change in file.changes
    )
    lines = [_row(each) for each in list(rows)[:_ROWS]]
    if len(rows) > _ROWS:
        lines.append(f"\nand {len(rows) - _ROWS} more changes")
    meta = obj.metadata
    parts = [
        *([_block(rest)] if rest.strip() else []),
        "\n".join(["| file | from | to | signed by |", "|---|---|---|---|", *lines]),
        _FOOTER.format(meta.namespace, meta.name),
    ]
    return Text(title=title[:_TITLE], body="\n\n".join(parts))


def _policy(setter: str) -> str:
    return ":".join(setter.split(":")[:2])


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(_code(cell) for cell in cells)} |"


def _code(cell: str) -> str:
    """Return a text as code in a table, which no text can leave."""
    plain = cell.translate(_QUOTED)[:_CELL]
    return f"`{plain}`" if plain.strip() else ""


def _block(message: str) -> str:
    """Return the rest of a message as a block of code."""
    return "\n".join(f"    {line}" for line in message.strip("\n").splitlines())


_QUOTED: Final[Mapping[int, str]] = str.maketrans({"`": "'", "|": "/", "\n": " ", "\r": " "})
