"""Subcommands by kind, made from ``crds.KINDS``: a new kind is a new row there and nothing here.

Sources hang below ``source`` (``sources`` for `get`) under the short words that Flux uses (``git``
for GitRepository), all others directly below the verb. Every name by which the API server knows a
kind, singular, plural or short, is an alias.
"""

from collections.abc import Callable, Iterable
from typing import Any, Final

import click

from cli import errors, status
from crds import ARTIFACT_GENERATOR, EXTERNAL_ARTIFACT
from crds import KINDS as ALL
from crds.kind import Kind

AnyKind = Kind[Any]
KINDS: Final = tuple(kind for kind in ALL if "fluxcd" in kind.categories)
"""The kinds that are shown: policies have no status."""
RECONCILED: Final = tuple(kind for kind in KINDS if kind is not EXTERNAL_ARTIFACT)
"""The kinds that can be asked for a pass, and suspended: an ExternalArtifact is its maker's."""
APPLIERS: Final = "fluxcd-appliers"
"""Category of the kinds that keep an inventory."""

NOTIFICATIONS: Final = "fluxcd-notifications"
"""Category of the kinds that announce events, and take what others announce."""

_SUFFIX: Final = "repository"
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
        """Let ``names`` mean ``command`` too."""
        self._aliases.update({name: str(command.name) for name in names})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Find a command by any of its names (click)."""
        return super().get_command(ctx, self._aliases.get(cmd_name.lower(), cmd_name))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Report the command's own name, not the alias (click)."""
        _, command, rest = super().resolve_command(ctx, args)
        return command.name if command else None, command, rest


def attach(
    group: AliasGroup,
    make: Callable[[AnyKind, str], click.Command],
    *,
    kinds: Iterable[AnyKind] = KINDS,
    plural: bool = False,
) -> AliasGroup:
    """Add one command per kind to ``group``; return the group that holds the sources."""
    sources = AliasGroup(
        "sources" if plural else "source",
        help="Kinds that produce artifacts.",
        no_args_is_help=True,
    )
    group.add_command(sources)
    group.add_aliases(sources, ("source", "sources"))
    for kind in kinds:
        home = sources if status.is_source(kind) else group
        command = make(kind, _word(kind, plural=plural))
        home.add_command(command)
        home.add_aliases(command, names(kind))
    return sources


def attach_artifacts(group: AliasGroup, sources: AliasGroup) -> None:
    """Let ``artifact generator``, as ``flux`` has it, mean ``source artifactgenerator`` too."""
    command = sources.commands[ARTIFACT_GENERATOR.singular]
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
    """Return every word that means the kind."""
    words = (kind.singular, kind.plural, *kind.short_names, _short(kind))
    flux = _FLUX_WORDS.get(kind.singular, kind.singular)
    return tuple(dict.fromkeys((*words, flux, *((f"{flux}s",) if "-" in flux else ()))))


def find(word: str) -> AnyKind | None:
    """Return the kind that ``word`` means, also written as ``plural.group``."""
    name, _, group = word.lower().partition(".")
    for kind in KINDS:
        if name in names(kind) and group in ("", kind.group, kind.api_version):
            return kind
    return None


def require(word: str) -> AnyKind:
    """Return the kind that ``word`` means.

    Raises:
        UsageError: it means none.
    """
    kind = find(word)
    if kind is None:
        known = ", ".join(sorted(k.kind for k in KINDS))
        raise errors.UsageError(f"{word!r} is no kind of Penstock; known are {known}")
    return kind


def spelled(kind: AnyKind) -> str:
    """Return the words that name the kind behind a verb: ``source git``, ``kustomization``."""
    word = _word(kind, plural=False)
    return f"source {word}" if status.is_source(kind) else word


def _word(kind: AnyKind, *, plural: bool) -> str:
    if status.is_source(kind):
        return _short(kind)
    word = _FLUX_WORDS.get(kind.singular)
    if word:
        return f"{word}s" if plural else word
    return kind.plural if plural else kind.singular


def _short(kind: AnyKind) -> str:
    return kind.singular.removesuffix(_SUFFIX)
