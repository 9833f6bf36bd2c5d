"""Pull requests instead of pushes to the branch that is checked out.

The annotation names the hosting service. Commits go to ``push.branch``, and a pull request from
there to the branch that is checked out is opened, updated, and closed when nothing is left to
change. One that a user has closed stays closed until there is another commit.

All values from elsewhere are shown as code in its text, so they neither format the page nor mention
anyone.
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
from toolkit.errors import StalledError, WaitingError
from toolkit.kube import conditions
from toolkit.kube.controller import Reconciliation
from toolkit.remote.git.auth import GitAuth
from toolkit.remote.hosting.pulls import PullRequestError, Pulls, Text
from toolkit.remote.http.http import Http

PROPOSED: Final = "PullRequestReady"
"""The condition that tells whether the pull request is as the branch is."""
_FOOTER: Final = (
    "Made by ImageUpdateAutomation `{}/{}`. Commits of others on this branch are overwritten."
)
_ROWS: Final = 100
_CELL: Final = 200
_TITLE: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposals:
    """Opens and closes pull requests at hosting services; ``http`` is the client for them."""

    http: Http

    def of(
        self, obj: ImageUpdateAutomation, source: GitRepository, plan: Plan, auth: GitAuth
    ) -> Pulls | None:
        """Return the pull requests of an automation; ``None`` if it asks for none.

        Raises:
            StalledError: the settings allow no pull request (reason InvalidSourceConfiguration).
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


def is_settled(rec: Reconciliation[ImageUpdateAutomation], pulls: Pulls | None) -> bool:
    """Tell whether the last run left nothing to do about pull requests."""
    found = conditions.find(rec.conditions, PROPOSED)
    return found is None if pulls is None else (found or {}).get("status") == "True"


def generation(rec: Reconciliation[ImageUpdateAutomation]) -> int:
    """Return the last generation of the object with a pull request; -1 for none."""
    found = conditions.find(rec.conditions, PROPOSED) or {}
    return int(found.get("observedGeneration", -1))


async def propose(
    rec: Reconciliation[ImageUpdateAutomation], pulls: Pulls | None, said: Text | None
) -> None:
    """Open or update the pull request with a text, or close it without one; set the condition.

    Raises:
        PullRequestError: the hosting service does not answer, or refuses.
    """
    if pulls is None:
        rec.unmark(PROPOSED)
        return
    try:
        if said is None:
            number = await pulls.close()
            told = f"closed pull request #{number}: nothing is left to change" if number else ""
            holds = "nothing is left to change"
        else:
            number, opened = await pulls.put(said)
            told = f"opened pull request #{number}" if opened else ""
            holds = f"pull request #{number} is up to date"
    except PullRequestError as exc:
        rec.mark(PROPOSED, "False", exc.reason, str(exc))
        raise
    rec.mark(PROPOSED, "True", "Succeeded", holds)
    if told:
        rec.event("info", "Succeeded", told)


def require_own_branch(
    obj: ImageUpdateAutomation, plan: Plan, others: Iterable[ImageUpdateAutomation]
) -> None:
    """Require that no other automation in the namespace pushes to the branch of a pull request.

    Raises:
        WaitingError: another automation does.
    """
    namespace = obj.metadata.namespace
    names = [each.metadata.name for each in others if each.metadata.namespace == namespace]
    if names:
        raise WaitingError(
            f"annotation {PULL_REQUEST}: ImageUpdateAutomation '{names[0]}' pushes to branch "
            f"'{plan.branch}' as well: a pull request needs a branch of its own, set "
            "spec.git.push.branch to another one",
            reason=INVALID,
        )


def _require_two_branches(plan: Plan) -> None:
    if not plan.separate or not plan.base or not plan.to_branch:
        raise StalledError(
            "pull requests need spec.git.push.branch, another branch than the one that is "
            "checked out"
        )


def text(obj: ImageUpdateAutomation, draft: Draft, policies: Iterable[ImagePolicy]) -> Text:
    """Return the text of a pull request: the message, and each change with its signers."""
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
