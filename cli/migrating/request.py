"""The input of a preflight."""

from dataclasses import dataclass

from cli.installing.manifests import Choice
from cli.migrating.survey import Survey


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The survey, the chosen installation, and whether to grant references."""

    survey: Survey
    choice: Choice
    grants: bool
