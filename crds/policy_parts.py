"""The structs that the kinds of ``policy.penstock.dev`` share."""

from typing import Annotated, ClassVar, Final, Literal, TypeAlias

from msgspec import Meta, field

from crds import meta
from crds.rules import Rule

GROUP: Final = "policy.penstock.dev"

Mode: TypeAlias = Literal["Enforce", "Warn", "Audit"]
"""What happens to what a policy does not allow: it is refused, told, or written down."""


class LabelSelectorRequirement(meta.ApiStruct, frozen=True, kw_only=True):
    """One condition on labels."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "(self.operator in ['In', 'NotIn']) == (has(self.values) && size(self.values) > 0)",
            "values must be given for In and NotIn, and only for them",
            field=".values",
        ),
    )

    key: Annotated[str, Meta(min_length=1, max_length=317)]
    """Name of the label."""
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    """How the label's value is compared. `NotIn` also holds where there is no such label."""
    values: Annotated[list[str], Meta(max_length=64)] = field(default_factory=list)
    """Values for `In` and `NotIn`."""


class LabelSelector(meta.ApiStruct, frozen=True, kw_only=True):
    """Selects objects by their labels; with nothing set, all of them."""

    match_labels: dict[str, str] = field(default_factory=dict)
    """Labels and values that must be there."""
    match_expressions: Annotated[list[LabelSelectorRequirement], Meta(max_length=64)] = field(
        default_factory=list
    )
    """Conditions that must hold too."""


class RequiredIdentity(meta.ApiStruct, frozen=True, kw_only=True):
    """Who must have signed without a key."""

    issuer: Annotated[str, Meta(min_length=1, max_length=1024)]
    """Regular expression (RE2) that must match the whole issuer of the identity token, e.g.
    `https://token\\.actions\\.githubusercontent\\.com`."""
    subject: Annotated[str, Meta(min_length=1, max_length=1024)]
    """Regular expression (RE2) that must match the whole identity, e.g.
    `https://github\\.com/acme/.*`."""
