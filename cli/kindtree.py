"""Subcommands by kind, generated from ``crds.KINDS``: a new kind only needs a row there.

Sources are below ``source`` (``sources`` for `get`) and the kinds of images below ``image``, with
the short names of Flux (``git`` for GitRepository); all others are directly below the verb. Every
name by which the API server knows a kind, singular, plural or short, is an alias.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import click

from cli import errors, goflags, status, suggesting
from crds import ARTIFACT_GENERATOR, EXTERNAL_ARTIFACT
from crds import KINDS as ALL
from crds.kind import Kind

AnyKind = Kind[Any]
KINDS: Final = tuple(kind for kind in ALL if "fluxcd" in kind.categories)
"""The kinds that are shown: policies have no status."""
RECONCILED: Final = tuple(kind for kind in KINDS if kind is not EXTERNAL_ARTIFACT)
"""Kinds that can be reconciled and suspended; an ExternalArtifact is its author's."""
APPLIERS: Final = "fluxcd-appliers"
"""Category of the kinds that keep an inventory."""

NOTIFICATIONS: Final = "fluxcd-notifications"
"""Category of the kinds that send and receive notifications."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Home:
    """A group of commands for the kinds of one category."""

    word: str
    summary: str

    def spelled(self, *, plural: bool) -> str:
        """Return the word of the group."""
        return f"{self.word}s" if plural else self.word


SOURCE: Final = Home(word="source", summary="Kinds that produce artifacts.")
IMAGE: Final = Home(word="image", summary="Kinds that follow images.")
_HOMES: Final = (
    (status.SOURCES, SOURCE),
    ("fluxcd-images", IMAGE),
)
"""The categories whose kinds hang below a word of their own."""

_SUFFIX: Final = "repository"
_IMAGE_WORDS: Final = {
    "imagerepository": "repository",
    "imagepolicy": "policy",
    "imageupdateautomation": "update",
}
_FLUX_WORDS: Final = {
    "helmchart": "chart",
    "externalartifact": "external",
    "provider": "alert-provider",
}
"""Words of ``flux`` that are neither a name of the kind nor made of one."""


class AliasGroup(click.Group):
    """A group whose commands have more names than the one that help shows."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self._aliases: dict[str, str] = {}

    def add_aliases(self, command: click.Command, names: Iterable[str]) -> None:
        """Make ``names`` aliases of ``command``."""
        self._aliases.update({name: str(command.name) for name in names})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Find a command by any of its names (click)."""
        return super().get_command(ctx, self._aliases.get(cmd_name.lower(), cmd_name))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Report the command's own name, not the alias, and read its flags as Go does (click)."""
        suggesting.require_known(ctx, self, args[0], {**self.commands, **self._aliases})
        _, command, rest = super().resolve_command(ctx, args)
        if command is None:
            return None, None, rest
        return command.name, command, goflags.adapt(ctx, command, rest)


def attach(
    group: AliasGroup,
    make: Callable[[AnyKind, str], click.Command],
    *,
    kinds: Iterable[AnyKind] = KINDS,
    plural: bool = False,
) -> Mapping[Home, AliasGroup]:
    """Add one command per kind to ``group``; return the groups that hold some of the kinds."""
    homes: dict[Home, AliasGroup] = {}
    for kind in kinds:
        command = make(kind, _word(kind, plural=plural))
        home = home_of(kind)
        if home is not None and home not in homes:
            homes[home] = _group(group, home, plural=plural)
        holder = homes[home] if home is not None else group
        holder.add_command(command)
        holder.add_aliases(command, names(kind))
    return homes


def home_of(kind: AnyKind) -> Home | None:
    """Return the group that the commands of a kind are in; None is the verb itself."""
    return next((home for category, home in _HOMES if category in kind.categories), None)


def _group(group: AliasGroup, home: Home, *, plural: bool) -> AliasGroup:
    made = AliasGroup(home.spelled(plural=plural), help=home.summary, no_args_is_help=True)
    group.add_command(made)
    group.add_aliases(made, (home.word, home.spelled(plural=True)))
    return made


def attach_artifacts(group: AliasGroup, homes: Mapping[Home, AliasGroup]) -> None:
    """Make ``artifact generator``, as in ``flux``, an alias of ``source artifactgenerator``."""
    command = homes[SOURCE].commands[ARTIFACT_GENERATOR.singular]
    artifacts = AliasGroup("artifact", help="Kinds that make artifacts.", no_args_is_help=True)
    artifacts.add_command(command, "generator")
    group.add_command(artifacts)
    group.add_aliases(artifacts, ("artifacts",))


def attach_appliers(group: AliasGroup, make: Callable[[AnyKind, str], click.Command]) -> None:
    """Add one command per kind that applies objects, and none for sources."""
    for kind in KINDS:
        if APPLIERS in kind.categories:
            command = make(kind, kind.singular)
            group.add_command(command)
            group.add_aliases(command, names(kind))


def names(kind: AnyKind) -> tuple[str, ...]:
    """Return every name of the kind."""
    short = (_short(kind),) if status.is_source(kind) else ()
    words = (kind.singular, kind.plural, *kind.short_names, *short)
    flux = _FLUX_WORDS.get(kind.singular, kind.singular)
    return tuple(dict.fromkeys((*words, flux, *((f"{flux}s",) if "-" in flux else ()))))


def find(word: str) -> AnyKind | None:
    """Return the kind with the name ``word``, also in the form ``plural.group``."""
    name, _, group = word.lower().partition(".")
    for kind in KINDS:
        if name in names(kind) and group in ("", kind.group, kind.api_version):
            return kind
    return None


def require(word: str) -> AnyKind:
    """Return the kind with the name ``word``.

    Raises:
        UsageError: there is none.
    """
    kind = find(word)
    if kind is None:
        known = ", ".join(sorted(k.kind for k in KINDS))
        raise errors.UsageError(f"{word!r} is not a kind of Penstock; known are {known}")
    return kind


def spelled(kind: AnyKind) -> str:
    """Return the words that name the kind behind a verb: ``source git``, ``kustomization``."""
    word, home = _word(kind, plural=False), home_of(kind)
    return f"{home.word} {word}" if home else word


def article(kind: AnyKind) -> str:
    """Return the indefinite article of the kind."""
    return "an" if kind.kind[0] in "AEIOU" else "a"


def _word(kind: AnyKind, *, plural: bool) -> str:
    if status.is_source(kind):
        return _short(kind)
    if kind.singular in _IMAGE_WORDS:
        return _IMAGE_WORDS[kind.singular]
    word = _FLUX_WORDS.get(kind.singular)
    if word:
        return f"{word}s" if plural else word
    return kind.plural if plural else kind.singular


def _short(kind: AnyKind) -> str:
    return kind.singular.removesuffix(_SUFFIX)
