"""A repository as a hosting service knows it."""

from dataclasses import dataclass, field

from toolkit.objects import Json

PAGE = 2
"""Entries of a page."""


@dataclass(slots=True)
class Hosted:
    """``teams`` have access, each with the service's word or number for which one."""

    id: int
    full_name: str
    private: bool
    keys: list[Json] = field(default_factory=list)
    tokens: list[Json] = field(default_factory=list)
    teams: dict[str, object] = field(default_factory=dict)
    visibility: str = ""
