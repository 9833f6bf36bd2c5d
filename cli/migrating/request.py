"""What a preflight judges."""

from dataclasses import dataclass

from cli.installing.manifests import Choice
from cli.migrating.survey import Survey


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What there is, what is to be installed, and whether references are to be granted."""

    survey: Survey
    choice: Choice
    grants: bool
